package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"rota/commands"
	"rota/tasks"
	"rota/workspaces"
)

// checkpoint is a checkpoint as `checkpoint ls` prints it.
type checkpoint struct {
	Number int    `json:"number"`
	Ref    string `json:"ref"`
	Commit string `json:"commit"`
	Tree   string `json:"tree"`
	Title  string `json:"title"`
}

func (m *Main) checkpointCommand() *cobra.Command {
	ls := &cobra.Command{Use: "ls THREAD", Short: "list the checkpoints of a thread, on the host of its workspace", Args: cobra.ExactArgs(1),
		ValidArgsFunction: m.complete(m.threads),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			return m.show(ctx, c, func(w io.Writer) error { return m.printCheckpoints(ctx, w, c, args[0]) })
		})}
	var back, capture ordering
	rollback := &cobra.Command{Use: "rollback THREAD REF|NUMBER", Short: "make the workspace's files those of a checkpoint", Args: cobra.ExactArgs(2),
		ValidArgsFunction: m.complete(m.threads),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			o, err := c.commands.Rollback(ctx, m.key, args[0], args[1])
			return m.ordered(ctx, c, o, back, err)
		})}
	back.flags(rollback)
	take := &cobra.Command{Use: "capture THREAD", Short: "record the workspace's files as a checkpoint now", Args: cobra.ExactArgs(1),
		ValidArgsFunction: m.complete(m.threads),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			o, err := c.commands.Capture(ctx, m.key, args[0])
			return m.ordered(ctx, c, o, capture, err)
		})}
	capture.flags(take)
	return group("checkpoint", "list a workspace's checkpoints, take one, go back to one",
		"  enqueue checkpoint ls fix-login\n  enqueue checkpoint rollback fix-login 2", ls, take, rollback)
}

func (m *Main) printCheckpoints(ctx context.Context, w io.Writer, c *connection, thread string) error {
	ref, err := c.commands.Resolve(ctx, thread)
	if err != nil {
		return err
	}
	places := workspaces.Workspaces{Dir: c.config.Workspaces}
	all, err := places.Checkpoints(ctx, ref.Thread)
	if errors.Is(err, workspaces.ErrNoWorkspace) {
		return &exit{exitNotFound, err.Error(), "look on the host of its workers", err}
	}
	if err != nil {
		return err
	}
	list := make([]checkpoint, len(all))
	for i, p := range all {
		list[i] = checkpoint(p)
	}
	if m.output != "table" {
		return printList(m, w, list)
	}
	if len(list) == 0 {
		fmt.Fprintln(m.err, "no checkpoint yet")
		return nil
	}
	t := m.table("NUMBER", "REF", "COMMIT", "TITLE")
	for _, p := range list {
		t.add(fmt.Sprint(p.Number), p.Ref, p.Commit[:min(12, len(p.Commit))], p.Title)
	}
	t.print(w)
	return nil
}

func (m *Main) detachCommand() *cobra.Command {
	var o ordering
	service := ""
	cmd := &cobra.Command{Use: "detach THREAD --service SERVICE", Short: "forget an agent's session: its next run begins a fresh one",
		Example: "  enqueue detach fix-login --service claude", Args: cobra.ExactArgs(1), ValidArgsFunction: m.complete(m.threads),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			if service == "" {
				return usage("", "detach needs --service SERVICE")
			}
			ordered, err := c.commands.Detach(ctx, m.key, args[0], service)
			return m.ordered(ctx, c, ordered, o, err)
		})}
	cmd.Flags().StringVar(&service, "service", "", "whose session is forgotten")
	m.completeFlag(cmd, "service", m.services)
	o.flags(cmd)
	return cmd
}

func (m *Main) cleanupCommand() *cobra.Command {
	var o ordering
	cmd := &cobra.Command{Use: "cleanup THREAD", Short: "remove the workspace of a thread without an open turn",
		Example: "  enqueue cleanup fix-login     what is not committed is kept in a checkpoint", Args: cobra.ExactArgs(1),
		ValidArgsFunction: m.complete(m.threads),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			ordered, err := c.commands.Cleanup(ctx, m.key, args[0])
			return m.ordered(ctx, c, ordered, o, err)
		})}
	o.flags(cmd)
	return cmd
}

// ordering are the flags of a command that a worker carries out beside its turns.
type ordering struct{ timeout time.Duration }

func (o *ordering) flags(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "wait this long for a worker to do it; 0 not at all")
}

// ordered prints what was asked for, and waits until a worker has done it.
func (m *Main) ordered(ctx context.Context, c *connection, o commands.Ordered, how ordering, err error) error {
	if err != nil {
		return err
	}
	if how.timeout <= 0 || o.Note != "" {
		return m.done(o.Result, o.Thread)
	}
	fmt.Fprintln(m.err, o.Text)
	controls := tasks.NewControls(c.rdb)
	for deadline := time.Now().Add(how.timeout); ; {
		done, failed, err := controls.Done(o.Type, o.Upkeep)
		switch {
		case err != nil:
			return err
		case failed != "":
			return &exit{exitConflict, "not done: " + oneLine(failed), "", nil}
		case done:
			o.Text = "done: " + string(o.Type) + " " + o.Thread
			return m.done(o.Result, o.Thread)
		case time.Now().After(deadline):
			return &exit{exitTimeout, fmt.Sprintf("not done within %s: it goes on", how.timeout), "`enqueue doctor` says whether a worker serves " + o.Upkeep.Service, nil}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

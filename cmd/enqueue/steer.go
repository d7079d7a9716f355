package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"rota/commands"
)

// act is a command that takes one id and does one thing to it.
func (m *Main) act(use, short, example string, ids completer, f func(ctx context.Context, c *connection, id string) (commands.Result, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: cobra.ExactArgs(1), ValidArgsFunction: m.complete(ids),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			r, err := f(ctx, c, args[0])
			if err != nil {
				return err
			}
			return m.done(r, r.Turn)
		}),
	}
}

func (m *Main) cancelCommand() *cobra.Command {
	return m.act("cancel ID|THREAD", "end a turn at once, or a thread with its paired task",
		"  enqueue cancel fix-login/3        this turn; its paired task then waits for you\n  enqueue cancel fix-login          everything in the thread", m.ids,
		func(ctx context.Context, c *connection, id string) (commands.Result, error) {
			return c.commands.Cancel(ctx, m.key, id)
		})
}

func (m *Main) retryCommand() *cobra.Command {
	return m.act("retry ID", "make a waiting turn due now, or take a failed one again", "  enqueue retry fix-login/3", m.ids,
		func(ctx context.Context, c *connection, id string) (commands.Result, error) {
			return c.commands.Retry(ctx, m.key, id)
		})
}

func (m *Main) restartCommand() *cobra.Command {
	return m.act("restart ID", "stop a live run and begin its turn anew", "  enqueue restart fix-login/3\n  enqueue restart fix-login/3.2     only if that attempt is still the current one", m.openIDs,
		func(ctx context.Context, c *connection, id string) (commands.Result, error) {
			return c.commands.Restart(ctx, m.key, id)
		})
}

func (m *Main) interruptCommand() *cobra.Command {
	return m.act("interrupt ID", "ask the agent to stop and keep its text; the turn ends as cancelled", "  enqueue interrupt fix-login/3", m.openIDs,
		func(ctx context.Context, c *connection, id string) (commands.Result, error) {
			key := m.ownKey()
			r, err := c.commands.Interrupt(ctx, key, id)
			if err != nil {
				return r, err
			}
			return m.heard(ctx, c, r, key)
		})
}

func (m *Main) handoffCommand() *cobra.Command {
	var to string
	cmd := m.act("handoff ID --to SERVICE", "carry a turn on with another service of its role", "  enqueue handoff fix-login/3 --to codex-review", m.openIDs,
		func(ctx context.Context, c *connection, id string) (commands.Result, error) {
			if to == "" {
				return commands.Result{}, usage("", "handoff needs --to SERVICE")
			}
			return c.commands.Handoff(ctx, m.key, id, to)
		})
	cmd.Flags().StringVar(&to, "to", "", "the service that carries on")
	m.completeFlag(cmd, "to", m.services)
	return cmd
}

func (m *Main) rmCommand() *cobra.Command {
	return m.act("rm THREAD", "remove a thread without an open turn", "  enqueue rm fix-login", m.threads,
		func(ctx context.Context, c *connection, id string) (commands.Result, error) {
			return c.commands.Remove(ctx, m.key, id)
		})
}

// tell is a command that gives a text to a live run and prints what the run says of it.
func (m *Main) tell(use, short, example string, ids completer, f func(ctx context.Context, c *connection, key, id, text string) (commands.Result, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: cobra.MinimumNArgs(2), ValidArgsFunction: m.complete(ids),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			text, err := m.text(args[1:])
			if err != nil {
				return err
			}
			key := m.ownKey()
			r, err := f(ctx, c, key, args[0], text)
			if err != nil {
				return err
			}
			return m.answered(ctx, c, r, key)
		}),
	}
}

func (m *Main) steerCommand() *cobra.Command {
	return m.tell("steer ID TEXT", "say something to the agent that is at work now", `  enqueue steer fix-login/3 "the tests are in ./check"`, m.openIDs,
		func(ctx context.Context, c *connection, key, id, text string) (commands.Result, error) {
			return c.commands.Steer(ctx, key, id, text)
		})
}

func (m *Main) respondCommand() *cobra.Command {
	return m.tell("respond REQUEST ANSWER", "answer a question of an agent", "  enqueue requests\n  enqueue respond fix-login/3:perm-1 yes", m.requestIDs,
		func(ctx context.Context, c *connection, key, request, answer string) (commands.Result, error) {
			return c.commands.Respond(ctx, key, request, answer)
		})
}

func (m *Main) requestsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "requests [THREAD]", Short: "list the questions of agents that wait for you",
		Example: "  enqueue requests --watch", Args: cobra.MaximumNArgs(1), ValidArgsFunction: m.complete(m.threads),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			thread := ""
			if len(args) > 0 {
				thread = args[0]
			}
			return m.show(ctx, c, func(w io.Writer) error {
				list, err := c.commands.Requests(ctx, thread)
				if err != nil || m.output != "table" {
					return or(err, func() error { return printList(m, w, list) })
				}
				if len(list) == 0 {
					fmt.Fprintln(m.err, "no agent asks anything")
					return nil
				}
				t := m.table("REQUEST", "QUESTION")
				for _, r := range list {
					t.add(r.ID, r.Text)
				}
				t.print(w)
				return nil
			})
		}),
	}
	m.watchFlag(cmd)
	return cmd
}

// or returns the error, else what f returns.
func or(err error, f func() error) error {
	if err != nil {
		return err
	}
	return f()
}

func (m *Main) watchFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&m.watch, "watch", "w", false, "show it again whenever something moves")
}

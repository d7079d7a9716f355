package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"rota/commands"
	"rota/turns"
)

func (m *Main) logCommand() *cobra.Command {
	return &cobra.Command{
		Use: "log ID", Short: "print every move of a turn or thread",
		Example: "  enqueue log fix-login/3\n  enqueue log fix-login -o jsonl",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: m.complete(m.ids),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			moves, err := c.commands.Log(ctx, args[0])
			if err != nil || m.output != "table" {
				return or(err, func() error { return printList(m, m.out, moves) })
			}
			t := m.table("AT", "ATTEMPT", "MOVE", "FROM", "TO", "SERVICE", "ROLE", "FENCE", "REASON")
			for _, e := range moves {
				t.add(time.Time(e.At).Local().Format("2006-01-02 15:04:05.000"), e.Attempt, string(e.Verb), dash(string(e.From)), string(e.To),
					e.Service, string(e.Role), fmt.Sprint(e.Fence), dash(oneLine(e.Reason)))
			}
			t.print(m.out)
			return nil
		}),
	}
}

func (m *Main) watchCommand() *cobra.Command {
	return &cobra.Command{
		Use: "watch [ID]", Short: "print moves as they happen, of a thread or turn or of everything",
		Long:    "Print moves as they happen, until it is interrupted. What is watched of a turn or an attempt ends with it.",
		Example: "  enqueue watch\n  enqueue watch fix-login -o jsonl",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: m.complete(m.ids),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			var ref commands.Ref
			var shards []int
			if len(args) > 0 {
				var err error
				if ref, err = c.commands.Resolve(ctx, args[0]); err != nil {
					return err
				}
				if ref.Turn != "" {
					if _, err := c.commands.ShowTurn(ctx, args[0]); err != nil {
						return err
					}
				}
				shards = append(shards, c.store.ShardOf(ref.Thread))
			}
			tail, err := c.store.Tail(ctx, shards...)
			if err != nil {
				return err
			}
			fmt.Fprintln(m.err, "watching; interrupt to end")
			for last := false; !last; {
				// What is final moves no more: what it did before is in the stream by now.
				wait := 2 * time.Second
				if last = c.over(ctx, ref); last {
					wait = 0
				}
				moves, err := tail.Next(ctx, wait)
				if ctx.Err() != nil {
					return nil
				}
				if err != nil {
					return err
				}
				for _, e := range moves {
					if !concerns(ref, e) {
						continue
					}
					if m.output == "table" {
						if _, err := fmt.Fprintln(m.out, sentence(e)); err != nil {
							return err
						}
					} else if err := m.printLine(commands.ViewMove(e)); err != nil {
						return err
					}
				}
			}
			m.say(args[0] + " has ended: it moves no more")
			return nil
		}),
	}
}

// over reports whether an id names a turn or an attempt that is final. A thread
// is never over.
func (c *connection) over(ctx context.Context, ref commands.Ref) bool {
	switch {
	case ref.Attempt != "":
		a, err := c.store.Attempt(ctx, ref.Attempt)
		return err == nil && !a.State.Open()
	case ref.Turn != "":
		t, err := c.store.Turn(ctx, ref.Turn)
		return err == nil && !t.State.Open()
	}
	return false
}

// printLine prints one value as one line of JSON, whatever the output.
func (m *Main) printLine(v any) error {
	lines := *m
	lines.output = "jsonl"
	return lines.printJSON(m.out, v)
}

// concerns reports whether a move belongs to what an id names, or to a child
// thread below it.
func concerns(ref commands.Ref, e turns.Entry) bool {
	switch {
	case ref.Thread == "":
		return true
	case ref.Attempt != "":
		return e.Attempt == ref.Attempt
	case ref.Turn != "":
		return e.Turn == ref.Turn
	}
	thread := turns.ThreadOf(e.Turn)
	return thread == ref.Thread || turns.Root(thread) == ref.Thread
}

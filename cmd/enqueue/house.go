package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"rota/commands"
	"rota/internal/doctor"
)

// needsCommand refuses what is none of a command's own commands.
func needsCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("unknown command %q of %s", args[0], cmd.Name())
	}
	return fmt.Errorf("%s needs a command", cmd.Name())
}

// group is a command that only holds others.
func group(use, short, example string, list ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Args: needsCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	cmd.AddCommand(list...)
	return cmd
}

func (m *Main) deadCommand() *cobra.Command {
	limit := 0
	ls := &cobra.Command{Use: "ls", Short: "list the dead letters: what died, why, when", Args: cobra.NoArgs,
		RunE: m.run(func(ctx context.Context, c *connection, _ []string) error {
			if limit < 0 {
				return usage("0 looks at all threads", "--limit %d", limit)
			}
			return m.show(ctx, c, func(w io.Writer) error {
				list, err := c.commands.DeadList(ctx, limit)
				if err != nil || m.output != "table" {
					return or(err, func() error { return printList(m, w, list) })
				}
				if len(list) == 0 {
					fmt.Fprintln(m.err, "nothing died")
					return nil
				}
				t := m.table("TURN", "ROLE", "SERVICE", "DIED", "DELIVERIES", "CLASS", "ERROR")
				for _, d := range list {
					t.add(d.Turn, string(d.Role), d.Service, local(d.Ended), fmt.Sprint(d.Deliveries), dash(string(d.Class)), dash(oneLine(d.Error)))
				}
				t.print(w)
				return nil
			})
		})}
	ls.Flags().IntVar(&limit, "limit", 0, "look at so many threads, the last changed ones; 0 for all")
	m.watchFlag(ls)
	show := &cobra.Command{Use: "show ID", Short: "show a dead turn and how it died", Args: cobra.ExactArgs(1), ValidArgsFunction: m.complete(m.deadIDs),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			v, err := c.commands.DeadShow(ctx, args[0])
			if err != nil || m.output != "table" {
				return or(err, func() error { return m.printJSON(m.out, v) })
			}
			m.printTurn(m.out, v)
			text, err := c.commands.Why(ctx, v.ID)
			if err != nil {
				return err
			}
			fmt.Fprintf(m.out, "\n%s\n", text)
			return nil
		})}
	retry := m.act("retry ID", "take a dead turn again: a new turn with its role and intent", "", m.deadIDs,
		func(ctx context.Context, c *connection, id string) (commands.Result, error) {
			return c.commands.DeadRetry(ctx, m.key, id)
		})
	return group("dead", "see and retry dead letters", "  enqueue dead ls\n  enqueue dead show fix-login/3\n  enqueue dead retry fix-login/3", ls, show, retry)
}

func (m *Main) doctorCommand() *cobra.Command {
	return &cobra.Command{Use: "doctor", Short: "look for what is wrong, each finding with its remedy", Args: cobra.NoArgs,
		Example: "  enqueue doctor -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			cfg, rdb, embedded, err := m.dial(ctx)
			if err != nil {
				return err
			}
			defer rdb.Close()
			server := !embedded || strings.Contains(rdb.Info(ctx, "server").Val(), "redis_mode")
			list := append(doctor.Redis(ctx, rdb, cfg, server), doctor.Services(ctx, rdb, cfg)...)
			if !server {
				list = append(list, doctor.Finding{Level: doctor.Warning, Check: "persistence", Text: "the embedded store is in memory: nothing outlives its worker",
					Remedy: "install redis-server: `worker --embedded` then keeps a file"})
			}
			if m.output != "table" {
				if err := printList(m, m.out, list); err != nil {
					return err
				}
			} else {
				t := m.table("LEVEL", "CHECK", "FINDING")
				for _, f := range list {
					text := f.Text
					if f.Remedy != "" {
						text += ": " + f.Remedy
					}
					t.add(string(f.Level), f.Check, text)
				}
				t.print(m.out)
			}
			if doctor.Worst(list) == doctor.Problem {
				return &exit{code: exitError, text: "there are problems", hint: "each line says what to do"}
			}
			return nil
		}}
}

package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rota/commands"
)

func (m *Main) scheduleCommand() *cobra.Command {
	pause := m.scheduleVerb("pause NAME", "paused", "stop a schedule from firing", func(ctx context.Context, c *connection, name string) (commands.Result, error) {
		return c.commands.SchedulePause(ctx, name, true)
	})
	resume := m.scheduleVerb("resume NAME", "resumed", "let a paused schedule go on", func(ctx context.Context, c *connection, name string) (commands.Result, error) {
		return c.commands.SchedulePause(ctx, name, false)
	})
	rm := m.scheduleVerb("rm NAME|ID", "removed", "remove a schedule or a stored command", func(ctx context.Context, c *connection, name string) (commands.Result, error) {
		return c.commands.ScheduleRm(ctx, m.key, name)
	})
	return group("schedule", "give work again and again", `  enqueue schedule add "0 7 * * 1-5" task "read the new issues" --name morning --zone Europe/Berlin
  enqueue schedule add "@every 2h" turn "look for regressions" --role reviewer --name watch
  enqueue schedule ls`, m.scheduleAdd(), m.scheduleLs(), pause, resume, rm)
}

func (m *Main) scheduleVerb(use, done, short string, f func(ctx context.Context, c *connection, name string) (commands.Result, error)) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: cobra.ExactArgs(1), ValidArgsFunction: m.complete(m.schedules),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			r, err := f(ctx, c, args[0])
			if err != nil {
				return err
			}
			return m.scheduled(r, done)
		})}
}

// scheduled prints what was done to a schedule or a stored command.
func (m *Main) scheduled(r commands.Result, done string) error {
	if m.output == "table" {
		fmt.Fprintln(m.err, r.Text)
		return nil
	}
	return m.printJSON(m.out, struct {
		Schema  int    `json:"schema"`
		ID      string `json:"id"`
		Name    string `json:"name"` // of a schedule
		Done    string `json:"done"`
		Already bool   `json:"already"`
	}{commands.Schema, r.Stored, commands.ScheduleName(r.Stored), done, r.Already})
}

func (m *Main) schedules(ctx context.Context, c *connection) ([]string, error) {
	list, err := c.commands.ScheduleLs(ctx)
	var names []string
	for _, p := range list {
		if p.Name != "" {
			names = append(names, p.Name+"\t"+p.Spec)
		} else {
			names = append(names, p.ID)
		}
	}
	return names, err
}

func (m *Main) scheduleLs() *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "list schedules and stored commands with their next times", Args: cobra.NoArgs,
		RunE: m.run(func(ctx context.Context, c *connection, _ []string) error {
			return m.show(ctx, c, func(w io.Writer) error {
				list, err := c.commands.ScheduleLs(ctx)
				if err != nil || m.output != "table" {
					return or(err, func() error { return printList(m, w, list) })
				}
				if len(list) == 0 {
					fmt.Fprintln(m.err, "nothing is scheduled")
					return nil
				}
				t := m.table("NAME", "TIMES", "NEXT", "THEN", "RUNS", "MISSED", "LAST", "SAYS")
				for _, p := range list {
					then := []string{}
					for _, at := range p.After {
						then = append(then, at.Local().Format("01-02 15:04"))
					}
					next := local(p.Next)
					if p.Paused {
						next = "paused"
					}
					times := strings.TrimSpace(p.Spec + " " + p.Zone)
					if p.Kind == "once" {
						p.Name, times = p.ID, "once"
					}
					t.add(p.Name, times, next, dash(strings.Join(then, ", ")), fmt.Sprint(p.Runs), fmt.Sprint(p.Missed), dash(p.Last), dash(oneLine(p.Error+" "+p.Order.Text)))
				}
				t.print(w)
				return nil
			})
		})}
	m.watchFlag(cmd)
	return cmd
}

// times of a schedule are one argument, then a command as it is typed.
func (m *Main) scheduleAdd() *cobra.Command {
	a := commands.ScheduleAsk{}
	var role string
	cmd := &cobra.Command{Use: `add "TIMES" task|turn TEXT|@FILE|-`, Short: "give a task or a turn at each of these times",
		Example: `  enqueue schedule add "0 7 * * 1-5" task "read the new issues" --name morning --zone Europe/Berlin
  enqueue schedule add "@every 2h" turn "look for regressions" --role reviewer --thread regressions`,
		Long: "TIMES are the five fields of cron, or @hourly, @daily, @every 2h. Without --thread every tick\nopens a thread of its own, NAME-TIME. A tick that nobody could carry out is counted, not made up for.",
		Args: cobra.MinimumNArgs(3),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) (err error) {
			o := &a.Order
			a.Key, a.Spec = m.key, args[0]
			switch args[1] {
			case "task":
				if role != "" || o.Service != "" {
					return usage("a paired task goes through all roles", "schedule add … task takes no --role and no --service")
				}
			case "turn":
				if o.Role = turnsRole(role); o.Role == "" {
					return usage("use owner, reviewer or arbiter", "schedule add … turn needs --role")
				}
			default:
				return usage(`schedule add "0 7 * * 1-5" task TEXT`, "what is scheduled is a task or a turn, not %q", args[1])
			}
			if o.Text, err = m.text(args[2:]); err != nil {
				return err
			}
			if o.Workdir, err = m.workdir(o.Workdir); err != nil {
				return err
			}
			r, err := c.commands.ScheduleAdd(ctx, a)
			if err != nil {
				return err
			}
			return m.scheduled(r, "added")
		})}
	set := cmd.Flags()
	set.StringVar(&a.Name, "name", "", "name of the schedule; derives from the text")
	set.StringVar(&a.Zone, "zone", localZone(), "time zone of the times")
	set.StringVar(&a.Order.Thread, "thread", "", "thread of every turn; a new one each time when left out")
	set.StringVar(&a.Order.Workdir, "workdir", "", "folder to work in")
	set.StringVar(&a.Order.Service, "service", "", "with turn: service of the first attempt")
	set.StringVar(&role, "role", "", "with turn: owner, reviewer or arbiter")
	m.completeFlag(cmd, "thread", m.threads)
	m.completeFlag(cmd, "service", m.services)
	m.completeWords(cmd, "role", "owner", "reviewer", "arbiter")
	return cmd
}

// localZone is the name of this machine's time zone, UTC when it has none.
func localZone() string {
	name := time.Local.String()
	if _, err := time.LoadLocation(name); err != nil || name == "Local" || name == "" {
		return "UTC"
	}
	return name
}

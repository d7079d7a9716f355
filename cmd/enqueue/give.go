package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rota/commands"
	"rota/turns"
	"rota/turns/store"
)

// text reads the TEXT of a command: the words, @FILE, or - for standard input.
func (m *Main) text(words []string) (string, error) {
	text := strings.Join(words, " ")
	var r io.Reader
	switch {
	case text == "-":
		r = m.in
	case strings.HasPrefix(text, "@@"):
		return text[1:], nil
	case strings.HasPrefix(text, "@"):
		f, err := os.Open(text[1:])
		if err != nil {
			return "", usage("@FILE reads the text from a file; a text that begins with @ is written @@", "%v", err)
		}
		defer f.Close()
		r = f
	default:
		return text, nil
	}
	b, err := io.ReadAll(io.LimitReader(r, store.MaxPrompt+1))
	if err != nil {
		return "", usage("", "read the text: %v", err)
	}
	if len(b) > store.MaxPrompt {
		return "", usage("put it into a file in the workspace and name the file", "the text is longer than %d bytes", store.MaxPrompt)
	}
	return strings.TrimRight(string(b), "\n"), nil
}

// workdir makes a folder absolute: workers run elsewhere.
func (m *Main) workdir(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", usage("", "--workdir: %v", err)
	}
	if info, err := os.Stat(abs); err != nil || !info.IsDir() {
		m.say(abs + " is no folder here: it must be one for the workers")
	}
	return abs, nil
}

// later are the flags of a command that may be stored until its time.
type later struct {
	at string
	in time.Duration
}

func (l *later) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.at, "at", "", "not before this time: 15:04, 2006-01-02 15:04 or RFC 3339")
	cmd.Flags().DurationVar(&l.in, "in", 0, "not before this time has passed, such as 10m")
}

// time returns when the command is due; zero for now.
func (l *later) time(now time.Time) (time.Time, error) {
	switch {
	case l.at != "" && l.in != 0:
		return time.Time{}, usage("", "--at and --in exclude each other")
	case l.in < 0:
		return time.Time{}, usage("", "--in %s lies in the past", l.in)
	case l.in > 0:
		return now.Add(l.in), nil
	case l.at == "":
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, l.at); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation("2006-01-02 15:04", l.at, time.Local); err == nil {
		return t, nil
	}
	t, err := time.ParseInLocation("15:04", l.at, time.Local)
	if err != nil {
		return time.Time{}, usage("write 15:04, 2006-01-02 15:04 or RFC 3339", "--at %q is no time", l.at)
	}
	today := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, time.Local)
	if !today.After(now) {
		today = today.AddDate(0, 0, 1)
	}
	return today, nil
}

// giving is what task and turn have in common: an order, when, and whether to wait.
type giving struct {
	order commands.Order
	later later
	wait  waiting
}

func (m *Main) givingFlags(cmd *cobra.Command, g *giving) {
	cmd.Flags().StringVar(&g.order.Thread, "thread", "", "name of the thread; derives from --key or the text")
	cmd.Flags().StringVar(&g.order.Workdir, "workdir", "", "folder to work in, such as a git repository; a scratch folder when left out")
	g.later.flags(cmd)
	g.wait.flags(cmd)
	m.completeFlag(cmd, "thread", m.threads)
}

// give carries an order out, or stores it until its time. Now opens it and names what
// is printed and waited for.
func (m *Main) give(ctx context.Context, c *connection, args []string, g *giving, now func(commands.Order) (commands.Result, string, error)) (err error) {
	if err := g.wait.check(); err != nil {
		return err
	}
	o := &g.order
	if o.Text, err = m.text(args); err != nil {
		return err
	}
	if o.Workdir, err = m.workdir(o.Workdir); err != nil {
		return err
	}
	o.Key = m.key
	at, err := g.later.time(time.Now())
	if err != nil {
		return err
	}
	if !at.IsZero() {
		return m.storeLater(ctx, c, *o, at, g.wait)
	}
	r, id, err := now(*o)
	if err != nil {
		return err
	}
	return m.opened(ctx, c, r, id, g.wait)
}

func (m *Main) taskCommand() *cobra.Command {
	var g giving
	cmd := &cobra.Command{
		Use:   "task TEXT|@FILE|-",
		Short: "give a piece of work to the owner, reviewer and arbiter",
		Example: `  enqueue task "mend the login page" --thread fix-login --workdir .
  enqueue task @plan.md --follow
  git diff | enqueue task - --wait -o json
  enqueue task "tidy up" --at 22:00`,
		Args: cobra.MinimumNArgs(1),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			return m.give(ctx, c, args, &g, func(o commands.Order) (commands.Result, string, error) {
				r, err := c.commands.Task(ctx, commands.TaskAsk{Key: o.Key, Thread: o.Thread, Workdir: o.Workdir, Text: o.Text})
				return r, r.Thread, err
			})
		}),
	}
	m.givingFlags(cmd, &g)
	return cmd
}

func (m *Main) turnCommand() *cobra.Command {
	var g giving
	var role, priority string
	cmd := &cobra.Command{
		Use:   "turn TEXT|@FILE|- --role ROLE",
		Short: "open one lone turn: no paired task, no follow-up",
		Example: `  enqueue turn "look at the last commit" --thread fix-login --role reviewer
  enqueue turn "sum up the day" --role owner --service codex-main --in 10m
  enqueue turn "try the other way" --role owner --thread fix-login~2 --parent fix-login/3`,
		Args: cobra.MinimumNArgs(1),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			if priority != "normal" && priority != "high" {
				return usage("use normal or high", "unknown priority %q", priority)
			}
			if role == "" {
				return usage("use --role owner, reviewer or arbiter", "turn needs --role")
			}
			g.order.Role, g.order.High = turns.Role(role), priority == "high"
			return m.give(ctx, c, args, &g, func(o commands.Order) (commands.Result, string, error) {
				r, err := c.commands.Turn(ctx, commands.TurnAsk(o))
				return r, r.Turn, err
			})
		}),
	}
	m.givingFlags(cmd, &g)
	set := cmd.Flags()
	set.StringVar(&role, "role", "", "owner, reviewer or arbiter")
	set.StringVar(&g.order.Service, "service", "", "service of the first attempt; the role's first one when left out")
	set.StringVar(&priority, "priority", "normal", "high goes before the others that wait for the service")
	set.StringVar(&g.order.Parent, "parent", "", "turn under which a child thread's turn hangs")
	m.completeFlag(cmd, "service", m.services)
	m.completeWords(cmd, "role", "owner", "reviewer", "arbiter")
	m.completeWords(cmd, "priority", "normal", "high")
	return cmd
}

// storeLater stores an order until its time.
func (m *Main) storeLater(ctx context.Context, c *connection, o commands.Order, at time.Time, w waiting) error {
	if w.wait || w.follow {
		return usage("", "--wait has nothing to wait for before --at or --in")
	}
	r, err := c.commands.Later(ctx, o, at)
	if err != nil {
		return err
	}
	return m.done(r, r.Thread)
}

func (m *Main) replyCommand() *cobra.Command {
	var a commands.ReplyAsk
	var w waiting
	var to string
	cmd := &cobra.Command{
		Use:   "reply THREAD TEXT|@FILE|-",
		Short: "say something to a thread, or answer what it asks of you",
		Example: `  enqueue reply fix-login "use the new API"
  enqueue reply fix-login "leave it, do it this way" --to owner
  enqueue reply fix-login "not that file" --steer`,
		Args: cobra.MinimumNArgs(2),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) (err error) {
			if err := w.check(); err != nil {
				return err
			}
			if to != "" && to != string(turns.Owner) {
				return usage("only --to owner moves the work", "--to %q", to)
			}
			a.Key, a.Thread, a.ToOwner = m.ownKey(), args[0], to != ""
			if a.Text, err = m.text(args[1:]); err != nil {
				return err
			}
			r, err := c.commands.Reply(ctx, a)
			if err != nil {
				return err
			}
			if r, err = m.heard(ctx, c, r, a.Key); err != nil {
				return err
			}
			return m.opened(ctx, c, r, r.Thread, w)
		}),
		ValidArgsFunction: m.complete(m.threads),
	}
	cmd.Flags().StringVar(&to, "to", "", "owner: the owner follows up, whoever's turn failed")
	cmd.Flags().BoolVar(&a.Steer, "steer", false, "give it to the live run, when there is one")
	w.flags(cmd)
	m.completeWords(cmd, "to", "owner")
	return cmd
}

// turnsRole returns a valid role, or none.
func turnsRole(s string) turns.Role {
	r, err := turns.ParseRole(s)
	if err != nil {
		return ""
	}
	return r
}

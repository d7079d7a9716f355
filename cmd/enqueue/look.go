package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"rota/commands"
	"rota/turns"
)

func (m *Main) lsCommand() *cobra.Command {
	f := commands.Filter{}
	var state, role string
	limit := -1
	cmd := &cobra.Command{
		Use: "ls [THREAD]", Short: "list threads with their last turn",
		Example: `  enqueue ls --needs-human
  enqueue ls --state running --role reviewer --watch
  enqueue ls fix-login               every turn of a thread
  enqueue ls --all -o jsonl          every turn, one a line`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: m.complete(m.threads),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			f.State, f.Role = turns.State(state), turns.Role(role)
			switch {
			case state != "" && !f.State.Open() && !f.State.FinalForTurn():
				return usage("use queued, starting, running, completed, failed or cancelled", "unknown state %q", state)
			case role != "" && !f.Role.Valid():
				return usage("use owner, reviewer or arbiter", "unknown role %q", role)
			case limit < -1:
				return usage("0 looks at all threads", "--limit %d", limit)
			}
			filtered := f.All || f.NeedsHuman || f.State != "" || f.Role != "" || f.Service != ""
			if f.Limit = limit; limit < 0 && filtered {
				f.Limit = 0
			} else if limit < 0 {
				f.Limit = recent
			}
			if len(args) > 0 {
				f.Thread = args[0]
			}
			return m.show(ctx, c, func(w io.Writer) error { return m.printTurns(ctx, c, w, f) })
		}),
	}
	set := cmd.Flags()
	set.BoolVar(&f.NeedsHuman, "needs-human", false, "only what waits for a person")
	set.BoolVar(&f.All, "all", false, "every stored turn, not only the last of each thread")
	set.StringVar(&state, "state", "", "only turns in this state")
	set.StringVar(&role, "role", "", "only turns of this role")
	set.StringVar(&f.Service, "service", "", "only turns on this service")
	set.IntVar(&limit, "limit", -1, fmt.Sprintf("look at so many threads, the last changed ones; 0 for all (%d, with a filter all)", recent))
	m.watchFlag(cmd)
	m.completeFlag(cmd, "service", m.services)
	m.completeWords(cmd, "role", "owner", "reviewer", "arbiter")
	m.completeWords(cmd, "state", "queued", "starting", "running", "completed", "failed", "cancelled")
	return cmd
}

// recent is how many threads ls looks at when nobody says more.
const recent = 50

func (m *Main) printTurns(ctx context.Context, c *connection, w io.Writer, f commands.Filter) error {
	f.Questions, f.Texts = true, m.output != "table"
	rows, err := c.commands.Ls(ctx, f)
	if err != nil {
		return err
	}
	if m.output != "table" {
		return printList(m, w, rows)
	}
	if len(rows) == 0 {
		fmt.Fprintln(m.err, "nothing to list")
		if !f.All && f.Thread == "" && (f.State != "" || f.Role != "" || f.Service != "") {
			m.say("only the last turn of each thread was looked at; --all looks at every turn")
		}
		return nil
	}
	t := m.table("TURN", "TASK", "ROLE", "STATE", "SERVICE", "AGE", "SAYS")
	for _, v := range rows {
		t.add(v.ID, dash(v.Status), string(v.Role), string(v.State), dash(v.Service), age(v.Updated), says(v))
	}
	t.print(w)
	return nil
}

// says is the last word of a turn, what it asks, or why its paired task needs a person.
func says(v commands.TurnView) string {
	switch {
	case v.State == turns.Running && v.Question != "":
		return "asks: " + oneLine(v.Question)
	case v.Paired.Status == turns.NeedsHuman && v.Paired.Reason != "" && v.Reason == v.Paired.Reason:
		return oneLine(v.Reason)
	case v.Outcome != "":
		return string(v.Outcome)
	case v.Error != "":
		return oneLine(v.Error)
	}
	return dash(oneLine(v.Reason))
}

func (m *Main) showCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "show a thread or turn with its attempts",
		Example: `  enqueue show fix-login
  enqueue show fix-login/3 -o json`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: m.complete(m.ids),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			ref, err := c.commands.Resolve(ctx, args[0])
			if err != nil {
				return err
			}
			return m.show(ctx, c, func(w io.Writer) error {
				if ref.Turn != "" {
					v, err := c.showTurn(ctx, args[0])
					if err != nil || m.output != "table" {
						return or(err, func() error { return m.printJSON(w, v) })
					}
					m.printTurn(w, v)
					return nil
				}
				v, err := c.showThread(ctx, ref.Thread)
				if err != nil || m.output != "table" {
					return or(err, func() error { return m.printJSON(w, v) })
				}
				m.printThread(w, v)
				return nil
			})
		}),
	}
	m.watchFlag(cmd)
	return cmd
}

func (m *Main) printThread(w io.Writer, v commands.ThreadView) {
	fmt.Fprintf(w, "thread   %s\n", v.Thread)
	if p := v.PairedTask; p != nil {
		fmt.Fprintf(w, "task     %s, %s (version %d, rounds %d, arbitrations %d)\n", p.ID, p.Status, p.Version, p.Rounds, p.Arbitrations)
		if v.Reason != "" && p.Status == string(turns.NeedsHuman) {
			fmt.Fprintf(w, "needs    %s\n", oneLine(v.Reason))
		}
	}
	if v.Ref != "" {
		fmt.Fprintf(w, "result   %s\n", v.Ref)
	}
	fmt.Fprintf(w, "created  %s\n\n", local(v.Created))
	if len(v.Turns) == 0 && v.Parent != "" {
		fmt.Fprintf(w, "It has no turns: a sub-agent of %s works in it, or it had some and they were removed.\n", v.Parent)
		return
	}
	if len(v.Turns) == 0 {
		fmt.Fprintln(w, "Its turns were removed, or their retention has ended. Their numbers are not used again.")
		return
	}
	t := m.table("ATTEMPT", "ROLE", "INTENT", "STATE", "SERVICE", "CAUSE", "AGE", "SAYS")
	for _, turn := range v.Turns {
		for i, a := range turn.Attempts {
			text := failure(a.Class, a.Error)
			if a.State == turns.Completed {
				text = "" // why an earlier delivery failed is no word of its end
			}
			if i == len(turn.Attempts)-1 && text == "" {
				text = says(commands.TurnView{Outcome: turn.Outcome, Error: turn.Error, Reason: turn.Reason})
			}
			t.add(a.ID, string(turn.Role), string(turn.Intent), string(a.State), a.Service, string(a.Cause), age(a.Updated), dash(text))
		}
	}
	t.print(w)
	for _, message := range v.Waiting {
		fmt.Fprintf(w, "\nwaits for the owner: %s\n", oneLine(message.Text))
	}
}

func (m *Main) printTurn(w io.Writer, v commands.TurnView) {
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "%-9s%s\n", name, value)
		}
	}
	line("turn", v.ID)
	line("role", string(v.Role)+", "+string(v.Intent))
	line("state", string(v.State))
	line("outcome", string(v.Outcome))
	line("result", v.Ref)
	line("task", v.Task)
	line("error", oneLine(v.Error))
	line("reason", oneLine(v.Reason))
	line("again", v.RetryOf)
	line("parent", v.Parent)
	line("created", local(v.Created))
	fmt.Fprintln(w)
	t := m.table("ATTEMPT", "STATE", "SERVICE", "AGENT", "CAUSE", "DELIVERIES", "AGE", "ERROR")
	for _, a := range v.Attempts {
		t.add(a.ID, string(a.State), a.Service, dash(a.Agent), string(a.Cause), fmt.Sprint(a.Deliveries), age(a.Updated),
			dash(oneLine(strings.TrimSpace(string(a.Class)+" "+a.Error))))
	}
	t.print(w)
	if v.Text != "" {
		fmt.Fprintf(w, "\n%s\n", v.Text)
	}
}

func (m *Main) whyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "why ID", Short: "say what a turn or thread waits for, until when, and what happens next",
		Example: "  enqueue why fix-login\n  enqueue why fix-login/3 --watch",
		Args:    cobra.ExactArgs(1), ValidArgsFunction: m.complete(m.ids),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			return m.show(ctx, c, func(w io.Writer) error {
				text, err := c.commands.Why(ctx, args[0])
				if err != nil {
					return err
				}
				if m.output != "table" {
					return m.printJSON(w, struct {
						Schema int    `json:"schema"`
						ID     string `json:"id"`
						Why    string `json:"why"`
					}{commands.Schema, args[0], text})
				}
				fmt.Fprintln(w, text)
				return nil
			})
		}),
	}
	m.watchFlag(cmd)
	return cmd
}

func (m *Main) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "verify [THREAD]", Short: "check the ten invariants of the store, on a live system too",
		Example: "  enqueue verify\n  enqueue verify fix-login",
		Args:    cobra.MaximumNArgs(1), ValidArgsFunction: m.complete(m.threads),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			thread := ""
			if len(args) > 0 {
				ref, err := c.commands.Resolve(ctx, args[0])
				if err != nil {
					return err
				}
				thread = ref.Thread
			}
			found, err := c.store.Verify(ctx, thread)
			if err != nil {
				return err
			}
			type violation struct {
				Invariant int    `json:"invariant"`
				ID        string `json:"id"`
				Text      string `json:"text"`
			}
			list := make([]violation, len(found))
			for i, v := range found {
				list[i] = violation{v.Invariant, v.ID, v.Text}
			}
			switch {
			case m.output != "table":
				if err := printList(m, m.out, list); err != nil {
					return err
				}
			case len(found) > 0:
				t := m.table("INVARIANT", "ID", "VIOLATION")
				for _, v := range found {
					t.add(fmt.Sprint(v.Invariant), v.ID, v.Text)
				}
				t.print(m.out)
			default:
				fmt.Fprintln(m.err, "all invariants hold")
			}
			if len(found) > 0 {
				return &exit{code: exitError, text: fmt.Sprintf("%d violations of the invariants", len(found)), hint: "`enqueue log ID` shows the moves"}
			}
			return nil
		}),
	}
}

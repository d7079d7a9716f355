package store_test

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"rota/turns"
	"rota/turns/store"
)

// open opens a lone turn or a paired task, or answers one that waits for a person.
func (d *driver) open(rt *rapid.T) {
	thread := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "thread")
	n := newTurn(thread, rapid.SampledFrom(turns.Roles).Draw(rt, "role"))
	n.Command = fmt.Sprint("open-", d.steps)
	th := d.tw.threads[thread]
	switch {
	case th != nil && th.paired.Status == turns.NeedsHuman:
		p := th.paired
		p.Version, p.Status, p.From, p.Rounds, p.Arbitrations, p.Turns, p.Accepted = p.Version+1, turns.Active, "", 0, 0, 1, ""
		n.Role, n.Intent, n.Seat, n.Paired, n.Take = turns.Owner, turns.FollowUp, crew[turns.Owner], &p, len(th.messages)
	case (th == nil || th.paired.ID == "") && rapid.Bool().Draw(rt, "paired"):
		n.Role, n.Intent, n.Seat, n.New = turns.Owner, turns.Work, crew[turns.Owner], true
		n.Paired = &turns.Paired{ID: turns.PairedID(thread, 1), Version: 1, Status: turns.Active, Turns: 1}
	}
	d.do(rt, call{"open " + thread, func() error {
		o, err := d.s.OpenTurn(d.ctx, n)
		return d.seen(o.Attempt, err)
	}, func() string {
		if take := len(d.waiting(thread)); n.Take > take && !d.tw.threads[thread].commands[n.Command] && d.tw.threads[thread].open == nil {
			return "refused"
		}
		return d.tw.open(n)
	}})
}

func (d *driver) waiting(thread string) []string {
	if th := d.tw.threads[thread]; th != nil {
		return th.messages
	}
	return nil
}

// seen remembers an attempt that was opened.
func (d *driver) seen(attempt string, err error) error {
	if err == nil && attempt != "" {
		d.attempts = append(d.attempts, attempt)
	}
	return err
}

// claimAny claims an attempt as its message says, or as a copy in another queue would.
func (d *driver) claimAny(rt *rapid.T) {
	if len(d.attempts) == 0 {
		rt.Skip("no attempt yet")
	}
	c := claimOf(d.entry(d.recent(rt)))
	if rapid.IntRange(0, 9).Draw(rt, "queue") == 0 {
		c.Service = "codex-main"
	}
	_, _, a := d.tw.find(c.Attempt)
	answer := store.ClaimAnswer{}
	d.do(rt, call{"claim " + c.Attempt, func() (err error) {
		if a.Deliveries >= turns.DefaultLimits.Deliveries {
			return nil
		}
		answer, err = d.s.Claim(d.ctx, c)
		return err
	}, func() string {
		if a.Deliveries >= turns.DefaultLimits.Deliveries {
			return ""
		}
		want := d.tw.claim(c, 30_000)
		if want == store.Claimed {
			if answer.Run.ID == "" || !d.tw.fenced(answer.Run) {
				return "a higher fence"
			}
			d.runs = append(d.runs, answer.Run)
		}
		if got := answer.Answer; got != want && (got != store.Already || want != store.Claimed) {
			return "answer " + string(want) + " instead of " + string(got)
		}
		return ""
	}})
}

// recent prefers the attempts and runs that are still of interest.
func (d *driver) recent(rt *rapid.T) string {
	return d.attempts[pick(rt, len(d.attempts))]
}

func pick(rt *rapid.T, n int) int {
	if back := rapid.IntRange(1, 8).Draw(rt, "back"); back <= min(n, 4) {
		return n - back
	}
	return rapid.IntRange(0, n-1).Draw(rt, "any")
}

// byRun makes a command of a run, which may have ended long ago.
func (d *driver) byRun(name string) func(*rapid.T) {
	return func(rt *rapid.T) {
		if len(d.runs) == 0 {
			rt.Skip("no run yet")
		}
		r := d.runs[pick(rt, len(d.runs))]
		_, t, a := d.tw.find(r.Attempt)
		e := ending{attempt: r.Attempt, by: r.ID, run: &r}
		d.do(rt, d.runCall(rt, name, r, t, a, e))
	}
}

func (d *driver) runCall(rt *rapid.T, name string, r store.Run, t *twinTurn, a *twinAttempt, e ending) call {
	c := call{name: name + " " + r.Attempt}
	switch name {
	case "start":
		c.store = func() error { return d.s.Start(d.ctx, r, "", "", "tree-1") }
		c.twin = func() string { return d.tw.start(r) }
	case "requeue":
		uncounted := rapid.Bool().Draw(rt, "given back")
		c.store = func() error { return d.s.Requeue(d.ctx, r, store.Requeue{Uncounted: uncounted}) }
		c.twin = func() string { return d.tw.requeue(r, uncounted) }
	case "release":
		c.store = func() error { _, err := d.s.Release(d.ctx, r); return err }
		c.twin = func() string { return d.release(r) }
	case "item":
		id := fmt.Sprint("i", d.steps)
		c.store = func() error {
			_, err := d.s.Item(d.ctx, r, turns.Item{ID: id, Kind: turns.ItemTool, State: turns.ItemOpen, Turn: r.Turn})
			return err
		}
		c.twin = func() string {
			if _, _, a := d.tw.held(r); a == nil {
				return "refused"
			}
			d.tw.items[id] = r.Attempt
			return ""
		}
	case "steer":
		ask := store.Ask{ID: fmt.Sprint("steer-", d.steps), Kind: "steer", Text: fmt.Sprint("steer ", d.steps)}
		c.store = func() error { return d.s.Ask(d.ctx, r.Attempt, ask) }
		c.twin = func() string { return steer(t, a, ask) }
	case "settle":
		e.verb, e.to = turns.VerbSettle, turns.Completed
		outcome := rapid.SampledFrom(turns.Outcomes(t.turn.Role)).Draw(rt, "outcome")
		how := turns.Ending{State: turns.Completed, Outcome: outcome, Tree: rapid.SampledFrom([]string{"tree-1", "tree-2"}).Draw(rt, "tree")}
		c.store = func() error { ended, err := d.s.Settle(d.ctx, r, how); return d.seen(ended.Outbox.Attempt, err) }
		c.twin = func() string { return d.tw.finish(e, how) }
	case "fail", "compensate":
		e.verb, e.to = turns.VerbSettle, turns.Failed
		write := d.s.Settle
		if name == "compensate" {
			e.verb, write = turns.VerbCompensate, d.s.Compensate
		}
		c.store = func() error { _, err := write(d.ctx, r, failed()); return err }
		c.twin = func() string { return d.tw.finish(e, failed()) }
	case "give back", "lose":
		return d.loseCall(c, r, t, a, e, name == "lose")
	default:
		return d.goOnCall(rt, c, name, r, t, a, e)
	}
	return c
}

func (d *driver) release(r store.Run) string {
	th, _, a := d.tw.find(r.Attempt)
	if a.State.Held() && a.Fence == r.Fence {
		return "refused"
	}
	th.free(r.Fence)
	return ""
}

func steer(t *twinTurn, a *twinAttempt, ask store.Ask) string {
	switch {
	case t.asked[ask.ID]:
		return ""
	case a != t.current() || !a.State.Held():
		return "refused"
	}
	t.asked[ask.ID] = true
	t.steers = append(t.steers, ask.Text)
	return ""
}

// loseCall is a loss, which ends the turn when the budget is used.
func (d *driver) loseCall(c call, r store.Run, t *twinTurn, a *twinAttempt, e ending, lease bool) call {
	e.verb, e.to, e.lease = turns.VerbLose, turns.Lost, lease
	n := store.Successor{Service: a.Service, Cause: turns.CauseLost}
	how := turns.Ending{State: turns.Failed, Class: turns.ClassLost}
	c.store = func() error {
		if t.turn.Losses >= turns.DefaultLimits.Losses {
			_, err := d.s.LoseLast(d.ctx, r, !lease, how)
			return err
		}
		on, err := d.s.Lose(d.ctx, r, !lease, n)
		return d.seen(on.Attempt, err)
	}
	c.twin = func() string {
		if t.turn.Losses >= turns.DefaultLimits.Losses {
			return d.tw.finish(e, how)
		}
		return d.tw.goOn(e, n)
	}
	return c
}

// goOnCall is a replacement or handoff by the run, within the budgets.
func (d *driver) goOnCall(rt *rapid.T, c call, name string, r store.Run, t *twinTurn, a *twinAttempt, e ending) call {
	n := store.Successor{Service: a.Service, Cause: rapid.SampledFrom([]turns.Cause{
		turns.CauseRetry, turns.CauseRotate, turns.CauseFreshSession, turns.CauseReminder, turns.CauseWait}).Draw(rt, "cause")}
	e.verb, e.to = turns.VerbReplace, turns.Failed
	write := d.s.Replace
	if name == "delegate" {
		e.verb, e.to, write = turns.VerbDelegate, turns.Delegated, d.s.Delegate
		n.Cause, n.Service = turns.CauseHandoff, rapid.SampledFrom(t.turn.Services).Draw(rt, "service")
	}
	spent := func() bool {
		return n.Cause.Counted() && t.turn.Opened >= turns.DefaultLimits.Attempts ||
			n.Cause == turns.CauseReminder && t.turn.Reminders >= turns.DefaultLimits.Reminders
	}
	c.store = func() error {
		if spent() {
			return nil
		}
		on, err := write(d.ctx, r, n)
		return d.seen(on.Attempt, err)
	}
	c.twin = func() string {
		if spent() {
			return ""
		}
		return d.tw.goOn(e, n)
	}
	return c
}

// byCommand makes a person's or the net's command about an attempt or its turn.
func (d *driver) byCommand(name string) func(*rapid.T) {
	return func(rt *rapid.T) {
		if len(d.attempts) == 0 {
			rt.Skip("no attempt yet")
		}
		attempt := d.recent(rt)
		_, t, a := d.tw.find(attempt)
		command := fmt.Sprint(name, "-", d.steps)
		e := ending{attempt: attempt, by: command, keep: true}
		c := call{name: name + " " + attempt}
		switch name {
		case "end":
			e.verb, e.to = turns.VerbEnd, turns.Failed
			c.store = func() error { _, err := d.s.End(d.ctx, attempt, command, failed()); return err }
			c.twin = func() string { return d.tw.finish(e, failed()) }
		case "cancel":
			e.verb, e.to = turns.VerbCancel, turns.Cancelled
			c.store = func() error { _, err := d.s.Cancel(d.ctx, t.turn.ID, command, ""); return err }
			c.twin = func() string {
				e.attempt = t.current().ID
				return strings.Replace(d.tw.finish(e, turns.Ending{State: turns.Cancelled}), "refused", "final", 1)
			}
		case "handoff":
			e.verb, e.to = turns.VerbDelegate, turns.Delegated
			n := store.Successor{Service: rapid.SampledFrom(t.turn.Services).Draw(rt, "service"), Cause: turns.CauseOperator}
			c.store = func() error {
				on, err := d.s.DelegateAttempt(d.ctx, attempt, command, n)
				return d.seen(on.Attempt, err)
			}
			c.twin = func() string { return d.tw.goOn(e, n) }
		case "restart":
			e.verb, e.to = turns.VerbReplace, turns.Failed
			n := store.Successor{Service: a.Service, Cause: turns.CauseRestart}
			c.store = func() error {
				on, err := d.s.RestartAttempt(d.ctx, attempt, command, n)
				return d.seen(on.Attempt, err)
			}
			c.twin = func() string { return d.tw.goOn(e, n) }
		}
		d.do(rt, c)
	}
}

func (d *driver) sayAny(rt *rapid.T) {
	thread := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "thread")
	text := fmt.Sprint("say-", d.steps)
	d.do(rt, call{"say " + thread, func() error {
		_, err := d.s.Say(d.ctx, thread, text, turns.Message{ID: text, Text: text})
		return err
	}, func() string {
		th := d.tw.threads[thread]
		switch {
		case th != nil && th.commands[text]:
			return ""
		case th == nil || th.open == nil:
			return "no turn"
		}
		th.commands[text] = true
		th.messages = append(th.messages, text)
		return ""
	}})
}

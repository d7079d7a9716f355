package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// ReplyAsk is what a person says to a thread.
type ReplyAsk struct {
	Key     string
	Thread  string
	Text    string
	ToOwner bool // after a failed or cancelled turn: the owner follows up instead
	Steer   bool // to the live run, when there is one
}

// Reply says something to a thread with a paired task. While its turn is open the
// message waits for the owner; with Steer it goes to the live run at once. When
// the paired task waits for a person, the reply opens the next turn by the rules
// of pairs.Reply and resets the budgets.
func (c *Commands) Reply(ctx context.Context, a ReplyAsk) (Result, error) {
	a.Key = keyed(a.Key)
	if err := checkText("message", a.Text); err != nil {
		return Result{}, err
	}
	ref, err := c.Resolve(ctx, a.Thread)
	if err != nil {
		return Result{}, err
	}
	if ref.Turn != "" && strings.Contains(a.Thread, "#") {
		return Result{}, refuse(Conflict, "`enqueue reply "+ref.Thread+" TEXT` speaks to the one that is there now", "%s is over", a.Thread)
	}
	what := "reply to " + ref.Thread
	return until(what, func() (Result, error) {
		s, err := c.scene(ctx, ref.Thread)
		if err != nil {
			return Result{}, err
		}
		if r, ok, err := c.before(ctx, ref.Thread, a.Key); ok || err != nil {
			return r, err
		}
		switch {
		case s.thread.OpenTurn != "":
			return c.say(ctx, s, a)
		case s.paired.ID == "":
			return Result{}, refuse(Conflict, fmt.Sprintf("start one with `enqueue task TEXT --thread %s`", ref.Thread),
				"thread %s has no paired task", ref.Thread)
		case s.paired.Status.Finished():
			return Result{}, refuse(Conflict, fmt.Sprintf("start another one with `enqueue task TEXT --thread %s`", ref.Thread),
				"%s is %s", s.paired.ID, s.paired.Status)
		}
		plan, err := pairs.Reply(s.paired, s.last, a.ToOwner, c.Store.Crew())
		if err != nil {
			return Result{}, &Error{Conflict, err.Error(), "", err}
		}
		now, err := c.now(ctx, ref.Thread)
		if err != nil {
			return Result{}, err
		}
		message := turns.Message{ID: a.Key, Text: a.Text, At: now.UTC()}
		return c.reopen(ctx, s, plan, store.NewTurn{Command: a.Key, Reason: "reply"}, &message)
	})
}

// say leaves a message to the open turn of a paired task.
func (c *Commands) say(ctx context.Context, s scene, a ReplyAsk) (Result, error) {
	open := s.thread.OpenTurn
	r, err := c.Store.Records(ctx, open, 0)
	if errors.Is(err, store.ErrNotFound) || err == nil && !r.Turn.State.Open() {
		return Result{}, errAgain
	}
	if err != nil {
		return Result{}, err
	}
	if a.Steer && r.Attempt.State.Held() {
		result, err := c.ask(ctx, r, store.Ask{ID: a.Key, Kind: "steer", Text: a.Text})
		if errors.Is(err, store.ErrMoved) {
			return Result{}, errAgain
		}
		return result, err
	}
	if r.Turn.Paired == "" {
		return Result{}, refuse(Conflict, fmt.Sprintf("wait for its end; a live run hears `enqueue steer %s TEXT`", open),
			"%s is a lone turn: nobody would read a message to it", open)
	}
	now, err := c.now(ctx, s.thread.Name)
	if err != nil {
		return Result{}, err
	}
	turn, err := c.Store.Say(ctx, s.thread.Name, a.Key, turns.Message{ID: a.Key, Text: a.Text, At: now.UTC()})
	if errors.Is(err, store.ErrNoTurn) {
		return Result{}, errAgain
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Thread: s.thread.Name, Turn: turn, Text: fmt.Sprintf("the message waits: the owner gets it after %s", turn)}, nil
}

// reopen opens the turn of a plan that answers the last one. It takes over what
// the last turn was asked and told; an owner's turn also gets what waits.
func (c *Commands) reopen(ctx context.Context, s scene, plan turns.Plan, n store.NewTurn, reply *turns.Message) (Result, error) {
	last, next := s.last, plan.Next
	repeats := next.Role == last.Role && next.Intent == last.Intent && (reply == nil || last.State != turns.Completed)
	if err := c.room(ctx, next.Services[0]); err != nil {
		return Result{}, err
	}
	var err error
	if repeats {
		if n.Prompt, err = c.Store.Prompt(ctx, last.ID); err != nil {
			return Result{}, err
		}
		if n.Said, err = c.Store.Said(ctx, last.ID); err != nil {
			return Result{}, err
		}
	}
	if next.Role == turns.Owner && plan.Moved {
		waiting, err := c.Store.Waiting(ctx, s.thread.Name)
		if err != nil {
			return Result{}, err
		}
		room := store.MaxSaid - size(n.Said...)
		if reply != nil {
			room -= size(*reply)
		}
		n.Take = fits(waiting, room)
		n.Said = append(n.Said, waiting[:n.Take]...)
	}
	if reply != nil {
		n.Said = append(n.Said, *reply)
	}
	if told := size(n.Said...); told > store.MaxSaid {
		return Result{}, refuse(Conflict, fmt.Sprintf("`enqueue retry %s` takes it again as it is; put what is long into a file and name the file", last.ID),
			"with this reply %s would be told %d bytes, at most %d go into a turn", last.ID, told, store.MaxSaid)
	}
	n.Thread, n.Role, n.Intent = s.thread.Name, next.Role, next.Intent
	n.Seat = turns.Seat{Services: next.Services, Limits: next.Limits}
	n.Prior, n.Parent, n.High = last.ID, last.Parent, last.High && repeats
	if repeats {
		n.RetryOf = last.ID
	}
	if plan.Moved {
		n.Paired = &plan.Paired
	}
	o, err := c.Store.OpenTurn(ctx, n)
	if again(err) {
		return Result{}, errAgain
	}
	if err != nil {
		return Result{}, err
	}
	text := ""
	if n.RetryOf != "" {
		text = ", again after " + n.RetryOf
	}
	return c.opened(ctx, o, s.thread.Name, text), nil
}

func size(list ...turns.Message) int {
	sum := 0
	for _, m := range list {
		sum += len(m.Text)
	}
	return sum
}

// fits returns how many messages from the front fit into so many bytes. The others
// go on waiting for the owner's next turn.
func fits(list []turns.Message, room int) int {
	for n, m := range list {
		if room -= size(m); room < 0 {
			return n
		}
	}
	return len(list)
}

// Retry makes a turn that waits due now. Of a failed or cancelled turn, or the
// last turn of a paired task that waits for a person, it opens a new turn with the
// same role, intent and prompt, linked to it, with fresh budgets.
func (c *Commands) Retry(ctx context.Context, key, id string) (Result, error) {
	key = keyed(key)
	return until("retry "+id, func() (Result, error) {
		r, ref, err := c.turnOf(ctx, id)
		if err != nil {
			return Result{}, err
		}
		s, err := c.scene(ctx, ref.Thread)
		if err != nil {
			return Result{}, err
		}
		if r, ok, err := c.before(ctx, ref.Thread, key); ok || err != nil {
			return r, err
		}
		if r.Turn.State.Open() {
			return c.dueNow(ctx, r)
		}
		if s.thread.OpenTurn != "" {
			return Result{}, refuse(Conflict, "see `enqueue why "+s.thread.OpenTurn+"`", "%s has ended, and %s is open in its thread", r.Turn.ID, s.thread.OpenTurn)
		}
		if !strings.Contains(id, "/") && s.unfinished() && s.last.ID != "" {
			r.Turn = s.last // the thread means what waits there, not a lone turn taken since
		}
		if r.Turn.Paired == "" {
			s.last, s.paired = r.Turn, turns.Paired{}
		}
		if s.last.ID != r.Turn.ID {
			return Result{}, refuse(Conflict, fmt.Sprintf("retry the last one: `enqueue retry %s`", named(s.last.ID, ref.Thread)),
				"%s is not the last turn of %s", r.Turn.ID, r.Turn.Paired)
		}
		plan, err := pairs.Retry(s.paired, s.last, c.Store.Crew())
		if err != nil {
			return Result{}, &Error{Conflict, err.Error(), s.afterEnd(), err}
		}
		return c.reopen(ctx, s, plan, store.NewTurn{Command: key, RetryOf: s.last.ID, Reason: "retry"}, nil)
	})
}

// afterEnd says what can be done in a thread whose work is over.
func (s scene) afterEnd() string {
	if s.unfinished() {
		return ""
	}
	return fmt.Sprintf("start new work with `enqueue task TEXT --thread %s`", s.thread.Name)
}

// dueNow ends the waiting of a queued attempt.
func (c *Commands) dueNow(ctx context.Context, r store.Records) (Result, error) {
	if r.Attempt.State.Held() {
		return Result{}, refuse(Conflict, fmt.Sprintf("`enqueue restart %s` begins it anew", r.Turn.ID), "%s is %s", r.Attempt.ID, r.Attempt.State)
	}
	err := c.Store.DueNow(ctx, r.Attempt.ID)
	if errors.Is(err, store.ErrMoved) {
		return Result{}, errAgain
	}
	if err != nil {
		return Result{}, err
	}
	e := entryOf(r)
	c.hand(ctx, e)
	return Result{Thread: r.Turn.Thread, Turn: r.Turn.ID, Attempt: r.Attempt.ID, Entry: e, Text: r.Attempt.ID + " is due now",
		Note: c.unserved(ctx, r.Attempt.Service)}, nil
}

func entryOf(r store.Records) turns.OutboxEntry {
	return turns.OutboxEntry{Thread: r.Turn.Thread, Turn: r.Turn.ID, Attempt: r.Attempt.ID, Role: r.Turn.Role, Intent: r.Turn.Intent,
		Service: r.Attempt.Service, Stamp: r.Attempt.Stamp, Cause: r.Attempt.Cause, Limits: r.Turn.Limits, High: r.Turn.High}
}

package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// Why says in a sentence or two what a turn or thread waits for, who holds it,
// until when, and what happens next or what to type.
func (c *Commands) Why(ctx context.Context, id string) (string, error) {
	ref, err := c.Resolve(ctx, id)
	if err != nil {
		return "", refusal("why "+id, err)
	}
	s, err := c.scene(ctx, ref.Thread)
	if err != nil {
		return "", err
	}
	if ref.Turn == "" {
		if ref.Turn = s.thread.OpenTurn; ref.Turn == "" {
			return c.whyIdle(ctx, s)
		}
	}
	r, err := c.Store.Records(ctx, ref.Turn, 0)
	if err != nil {
		return "", refusal("why "+id, err)
	}
	if err := ref.among(r.Attempt.Number); err != nil {
		return "", err
	}
	switch {
	case r.Turn.State == turns.Queued:
		return c.whyQueued(ctx, r)
	case r.Turn.State.Open():
		return c.whyLive(ctx, r)
	}
	return c.whyEnded(ctx, s, r)
}

// whyIdle explains a thread without an open turn.
func (c *Commands) whyIdle(ctx context.Context, s scene) (string, error) {
	name := s.thread.Name
	switch {
	case s.last.ID == "" && s.thread.Parent != "":
		return fmt.Sprintf("%s has no turn of its own: it is the thread of a sub-agent of %s. `enqueue why %s` says what that one does.",
			name, s.thread.Parent, s.thread.Parent), nil
	case s.last.ID == "" && s.thread.Turns > 0:
		return fmt.Sprintf("The turns of %s were removed, or their retention has ended. `enqueue task TEXT --thread %s` begins new work.", name, name), nil
	case s.last.ID == "":
		return fmt.Sprintf("Nothing has been asked in %s: `enqueue task TEXT --thread %s` begins.", name, name), nil
	case s.paired.ID == "":
		r, err := c.Store.Records(ctx, s.last.ID, 0)
		if err != nil {
			return "", refusal("why "+name, err)
		}
		return c.whyEnded(ctx, s, r)
	case s.unfinished():
		return c.needsHuman(ctx, s)
	case s.paired.Status == turns.PairCancelled:
		return fmt.Sprintf("%s was cancelled at %s. `enqueue task TEXT --thread %s` begins new work.",
			s.paired.ID, clock(s.paired.Updated), name), nil
	}
	return fmt.Sprintf("%s is completed since %s: the reviewer approved and %s finalized. Nothing is left to do.",
		s.paired.ID, clock(s.paired.Updated), s.last.ID), nil
}

// needsHuman says what a paired task asks of a person, and what to type.
func (c *Commands) needsHuman(ctx context.Context, s scene) (string, error) {
	name := s.thread.Name
	text := fmt.Sprintf("%s needs a human: %s.", s.paired.ID, strings.TrimRight(s.paired.Reason, "."))
	if e := s.last.Error; s.last.State == turns.Failed && e != "" && !strings.Contains(s.paired.Reason, e) {
		text += fmt.Sprintf(" %s said: %s.", s.last.ID, strings.TrimRight(e, "."))
	}
	text += fmt.Sprintf(" Type `enqueue reply %s TEXT` to answer", name)
	if s.last.State != turns.Completed && s.last.Role != turns.Owner {
		text += fmt.Sprintf(" the %s (with --to owner: the owner)", s.last.Role)
	}
	text += fmt.Sprintf(", `enqueue retry %s` to take the %s's turn again, or `enqueue cancel %s` to give it up.", s.last.ID, s.last.Role, name)
	waiting, err := c.Store.Waiting(ctx, name)
	if err != nil {
		return "", err
	}
	if n := len(waiting); n > 0 {
		text += fmt.Sprintf(" %s for the owner.", count(n, "message waits", "messages wait"))
	}
	return text, nil
}

func (c *Commands) whyQueued(ctx context.Context, r store.Records) (string, error) {
	a := r.Attempt
	times, err := c.Store.TimesOf(ctx, a.ID)
	if err != nil {
		return "", err
	}
	who := fmt.Sprintf("%s (%s, %s) is queued on %s", a.ID, r.Turn.Role, r.Turn.Intent, a.Service)
	switch {
	case a.Cause == turns.CauseWait:
		until := r.Turn.WaitSince.Add(r.Turn.Limits.Wait)
		return fmt.Sprintf("%s and waits for a login (%s%s): it is tried again at %s, and fails when none works until %s. `enqueue credential ls` shows the logins; `enqueue retry %s` tries at once.",
			who, named(a.Reason, "no usable one"), lastError(r), clock(a.Due), clock(until), r.Turn.ID), nil
	case r.Thread.Hold != 0 && r.Thread.HoldUntil.After(times.Now):
		holder, err := c.holder(ctx, r)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s and held by the run of %s (fence %d), whose agent may still be alive: it starts when that agent is gone, at %s at the latest.",
			who, holder, r.Thread.Hold, clock(r.Thread.HoldUntil)), nil
	case times.Held.After(times.Now):
		return fmt.Sprintf("%s. Redis was restarted or failed over and may have lost its last writes: no run begins before %s, so that none begins beside one that was forgotten.",
			who, clock(times.Held)), nil
	case a.Due.After(times.Now):
		return fmt.Sprintf("%s and not due before %s%s. `enqueue retry %s` makes it due now.", who, clock(a.Due), because(a), r.Turn.ID), nil
	}
	return c.whyDue(ctx, who, r, times)
}

// whyDue explains an attempt that nothing but a worker keeps from running.
func (c *Commands) whyDue(ctx context.Context, who string, r store.Records, times store.Times) (string, error) {
	a := r.Attempt
	next := "the relay looks again at " + clock(times.Look)
	if times.Look.IsZero() {
		next = "its outbox entry is missing: `enqueue verify " + r.Turn.Thread + "` reports it"
	} else if !times.Look.After(times.Now) {
		next = "its outbox entry is due: the next pass of any worker hands it over"
	}
	paused, err := tasks.Paused(ctx, c.Store.Redis(), a.Service)
	if err != nil {
		return "", err
	}
	if paused {
		return fmt.Sprintf("%s since %s, and the queue %s is paused: no worker takes it before somebody resumes the queue, in asynqmon of a `worker --admin`.",
			who, clock(a.Updated), tasks.Queue(a.Service)), nil
	}
	if c.Workers == nil {
		return fmt.Sprintf("%s since %s and waits for a worker; %s.", who, clock(a.Updated), next), nil
	}
	names, err := c.Workers(ctx, a.Service)
	if err != nil {
		return "", err
	}
	if len(names) > 0 {
		return fmt.Sprintf("%s since %s and waits for a free worker (%s of %s); %s.", who, clock(a.Updated), count(len(names), "is alive", "are alive"), a.Service, next), nil
	}
	text := fmt.Sprintf("%s since %s, and no worker serves %s: start one with `worker --service %s`", who, clock(a.Updated), a.Service, a.Service)
	for _, other := range r.Turn.Services {
		if names, err := c.Workers(ctx, other); other != a.Service && err == nil && len(names) > 0 {
			text += fmt.Sprintf(", or hand it over with `enqueue handoff %s --to %s`", r.Turn.ID, other)
			break
		}
	}
	return text + ".", nil
}

// holder returns the attempt whose run has the thread's hold.
func (c *Commands) holder(ctx context.Context, r store.Records) (string, error) {
	for n := r.Turn.Number; n > 0 && n > r.Turn.Number-10; n-- {
		list, err := c.Store.TurnsByID(ctx, []string{turns.TurnID(r.Turn.Thread, n)})
		if err != nil {
			return "", err
		}
		for _, t := range list {
			attempts, err := c.Store.Attempts(ctx, t)
			if err != nil {
				return "", err
			}
			for _, a := range attempts {
				if a.Fence == r.Thread.Hold {
					return a.ID, nil
				}
			}
		}
	}
	return "an earlier attempt", nil
}

func (c *Commands) whyLive(ctx context.Context, r store.Records) (string, error) {
	a := r.Attempt
	times, err := c.Store.TimesOf(ctx, a.ID)
	if err != nil {
		return "", err
	}
	state := "is running since " + clock(a.Started) + ": the agent accepted the prompt"
	if a.State == turns.Starting {
		state = "is starting since " + clock(a.Updated) + ": the agent has not accepted the prompt yet"
	}
	text := fmt.Sprintf("%s (%s, %s) %s. It is held by worker %s on %s (delivery %d of %d, fence %d)",
		a.ID, r.Turn.Role, r.Turn.Intent, state, named(a.Worker, "unknown"), a.Service, a.Deliveries, r.Turn.Limits.Deliveries, a.Fence)
	switch {
	case times.Lease.IsZero():
		text += fmt.Sprintf("; its lease entry is missing: `enqueue verify %s` reports it.", r.Turn.Thread)
	case times.Lease.After(times.Now):
		text += fmt.Sprintf(", lease until %s; the run must end by %s.", clock(times.Lease), clock(a.Deadline))
	default:
		text += fmt.Sprintf(". Its lease ran out at %s: the next pass of a worker calls the run lost and opens the next attempt.", clock(times.Lease))
	}
	items, err := c.Store.OpenItems(ctx, r.Turn.Thread)
	if err != nil {
		return "", err
	}
	for _, i := range items {
		if i.Kind == turns.ItemRequest && i.Attempt == a.ID {
			text += fmt.Sprintf(" It asks: %q; answer with `enqueue respond %s:%s ANSWER`.", i.Title, r.Turn.ID, i.ID)
		}
	}
	return text, nil
}

// whyEnded explains a turn that has ended, and what came after it.
func (c *Commands) whyEnded(ctx context.Context, s scene, r store.Records) (string, error) {
	t := r.Turn
	text := ""
	switch t.State {
	case turns.Completed:
		text = fmt.Sprintf("%s (%s) completed at %s", t.ID, t.Role, clock(t.Ended))
		if t.Outcome != "" {
			text += " with " + string(t.Outcome)
		}
	case turns.Failed:
		text = fmt.Sprintf("%s (%s) failed at %s on %s: %s", t.ID, t.Role, clock(t.Ended), r.Attempt.Service, named(string(t.Class), "no class"))
		if t.Error != "" {
			text += ": " + t.Error
		}
		if how := deadLetter(r.Attempt); how != "" {
			text += " (" + how + ")"
		}
	default:
		text = fmt.Sprintf("%s (%s) was cancelled at %s", t.ID, t.Role, clock(t.Ended))
		if t.Reason != "" {
			text += ": " + t.Reason
		}
	}
	text = strings.TrimRight(text, ".") + "."
	after, err := c.whyAfter(ctx, s, t)
	if err != nil || after == "" {
		return text, err
	}
	return text + " " + after, nil
}

func (c *Commands) whyAfter(ctx context.Context, s scene, t turns.Turn) (string, error) {
	switch {
	case t.Paired == "" && t.State == turns.Completed:
		return "It was a lone turn: nothing follows it.", nil
	case t.Paired == "":
		return fmt.Sprintf("`enqueue retry %s` opens it again, in the same role.", t.ID), nil
	case t.Paired != s.paired.ID:
		p, err := c.Store.Paired(ctx, t.Paired)
		if errors.Is(err, store.ErrNotFound) {
			return "", nil
		}
		return fmt.Sprintf("Its paired task %s is %s.", p.ID, p.Status), err
	case s.last.ID != t.ID:
		return fmt.Sprintf("The work went on with %s, which is %s.", s.last.ID, s.last.State), nil
	}
	return c.whyIdle(ctx, s)
}

// deadLetter says how an attempt became a dead letter, and nothing for one that
// ended otherwise.
func deadLetter(a turns.Attempt) string {
	if a.State != turns.Failed && a.State != turns.Lost || a.Next != "" {
		return ""
	}
	deliveries := count(a.Deliveries, "delivery", "deliveries")
	switch a.Ended {
	case turns.VerbCompensate:
		return "dead letter after " + deliveries + ": it never started"
	case turns.VerbEnd:
		return "dead letter after " + deliveries + ": ended while queued"
	case turns.VerbLose:
		return "dead letter after " + deliveries + ": its workers were lost"
	}
	return ""
}

func lastError(r store.Records) string {
	if r.Attempt.Class == "" {
		return ""
	}
	return ", " + string(r.Attempt.Class)
}

func because(a turns.Attempt) string {
	if a.Class == "" {
		return ""
	}
	return fmt.Sprintf(", after %s (%s)", count(a.Deliveries, "delivery", "deliveries"), a.Class)
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// clock shows a time as people read it, in their own zone: without the day when it is today.
func clock(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	t = t.Local()
	if t.Format(time.DateOnly) == time.Now().Format(time.DateOnly) {
		return t.Format(time.TimeOnly)
	}
	return t.Format(time.DateTime)
}

package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// Cancel ends a turn, or with a thread's id the thread's open turn and its paired
// task, as cancelled. It always wins or finds the end there already: what was
// completed or failed stays so and is a conflict, what was cancelled is fine.
func (c *Commands) Cancel(ctx context.Context, key, id string) (Result, error) {
	ref, err := c.resolveWhole(ctx, id)
	if err != nil {
		return Result{}, refusal("cancel "+id, err)
	}
	if ref.Turn == "" {
		return c.cancelThread(ctx, key, ref.Thread)
	}
	r, err := c.cancelTurn(ctx, keyed(key), ref, "cancelled by a person", false)
	return r, refusal("cancel "+ref.Turn, err)
}

// cancelTurn cancels a turn, with whole its paired task in the same write.
func (c *Commands) cancelTurn(ctx context.Context, key string, ref Ref, reason string, whole bool) (Result, error) {
	turn := ref.Turn
	r := Result{Thread: ref.Thread, Turn: turn, Text: "cancelled " + turn}
	rec, err := c.Store.Records(ctx, turn, 0)
	if err != nil {
		return Result{}, err
	}
	if err := ref.among(rec.Attempt.Number); err != nil {
		return Result{}, err
	}
	cancel := c.Store.Cancel
	if whole {
		cancel = c.Store.GiveUp
	}
	ended, err := cancel(ctx, turn, key, reason)
	if final, ok := errors.AsType[*store.FinalError](err); ok {
		if final.State != turns.Cancelled {
			return Result{}, err
		}
		r.Already, r.Text = true, turn+" is cancelled already"
		return r, nil
	}
	if err != nil {
		return Result{}, err
	}
	r.Already = ended.Already
	if ended.Freed != 0 {
		c.hurry(ctx, rec.Attempt, store.Ask{ID: key, Kind: "cancel"})
	}
	if rec.Paired.ID != "" {
		r.Note = fmt.Sprintf("its paired task waits for you: `enqueue retry %s`, `enqueue reply %s TEXT` or `enqueue cancel %s`", turn, r.Thread, r.Thread)
	}
	return r, nil
}

// cancelThread cancels the open turn with its paired task, or one of them where the
// other is not there, until both hold: the workflow may open a turn in between. A
// repeat with the same key cancels nothing that was begun after it.
func (c *Commands) cancelThread(ctx context.Context, key, thread string) (Result, error) {
	var did []string
	turn, by, aimed := "", keyed(key), false
	return until("cancel "+thread, func() (Result, error) {
		s, err := c.scene(ctx, thread)
		if err != nil {
			return Result{}, err
		}
		open := s.thread.OpenTurn
		if !aimed {
			something := open != "" || s.unfinished()
			if r, done, err := c.aim(ctx, thread, key, named(open, s.last.ID), "", something); done || err != nil {
				return r, err
			}
			aimed = true
		}
		if open != "" {
			_, err := c.cancelTurn(ctx, by, Ref{Thread: thread, Turn: open}, "cancelled by a person", true)
			if _, final := errors.AsType[*store.FinalError](err); err != nil && !final {
				return Result{}, err
			}
			if err == nil {
				did, turn = append(did, open), open
				if s.unfinished() && s.last.ID == open {
					did = append(did, s.paired.ID)
				}
			}
			return Result{}, errAgain
		}
		if s.unfinished() {
			plan := pairs.CancelPaired(s.paired)
			err := c.Store.Park(ctx, plan.Paired)
			if errors.Is(err, store.ErrMoved) {
				return Result{}, errAgain
			}
			if err != nil {
				return Result{}, err
			}
			did = append(did, s.paired.ID)
		}
		r, err := s.cancelled(did)
		r.Turn = named(turn, r.Turn)
		if err == nil {
			r.Note = c.comes(ctx, thread)
		}
		return r, err
	})
}

// cancelled is the answer of a cancelled thread, by what was there to cancel.
func (s scene) cancelled(did []string) (Result, error) {
	r := Result{Thread: s.thread.Name, Turn: s.last.ID}
	switch {
	case len(did) > 0:
		r.Text = "cancelled " + strings.Join(did, " and ")
	case s.paired.Status == turns.PairCancelled || s.paired.ID == "" && s.last.State == turns.Cancelled:
		r.Already, r.Text = true, s.thread.Name+" is cancelled already"
	case s.paired.ID != "":
		return Result{}, refuse(Conflict, "see `enqueue show "+s.thread.Name+"`", "%s has ended: %s", s.paired.ID, s.paired.Status)
	default:
		return Result{}, refuse(Conflict, "see `enqueue show "+s.thread.Name+"`", "nothing is open in thread %s", s.thread.Name)
	}
	return r, nil
}

// live reads the open turn that a command is about, and the attempt the person
// saw: the one that the id names, else the current one. A turn that has ended,
// or an attempt that is not the current one any more, is a conflict.
func (c *Commands) live(ctx context.Context, verb, key, id string) (store.Records, Result, error) {
	r, ref, err := c.turnOf(ctx, id)
	if err != nil {
		return store.Records{}, Result{}, refusal(verb+" "+id, err)
	}
	if key != "" { // else nobody repeats the command
		if done, ok, err := c.liveBefore(ctx, verb, key, r); ok || err != nil {
			return r, done, err
		}
	}
	switch {
	case !r.Turn.State.Open():
		return store.Records{}, Result{}, refuse(Conflict, "see `enqueue show "+r.Turn.ID+"`", "%s %s: it has ended (%s)", verb, r.Turn.ID, r.Turn.State)
	case ref.Attempt != "" && ref.Attempt != r.Attempt.ID:
		return store.Records{}, Result{}, refuse(Conflict, "see `enqueue why "+r.Turn.ID+"`", "%s %s: the turn has moved on to %s", verb, ref.Attempt, r.Attempt.ID)
	}
	return r, Result{}, nil
}

// liveBefore answers a repeated command about a live turn. One that only noted its aim
// goes on while that is the attempt which it finds; else the attempt has moved on by
// another hand.
func (c *Commands) liveBefore(ctx context.Context, verb, key string, now store.Records) (Result, bool, error) {
	note, ok, err := c.Store.Command(ctx, now.Turn.Thread, key)
	if err != nil {
		return Result{}, false, err
	}
	if ok && !note.Aim {
		return noted(now.Turn.Thread, note), true, nil
	}
	t := now.Turn
	if ok && note.Turn != t.ID {
		t, err = c.Store.Turn(ctx, note.Turn)
		if errors.Is(err, store.ErrNotFound) {
			return noted(now.Turn.Thread, note), true, nil // its retention has ended
		}
		if err != nil {
			return Result{}, false, err
		}
	}
	ended, did, err := c.Store.EndedBy(ctx, t, key)
	switch {
	case err != nil:
		return Result{}, false, err
	case did:
		return Result{Thread: t.Thread, Turn: t.ID, Attempt: named(ended.Next, ended.ID), Already: true, Text: doneBefore}, true, nil
	case ok && note.Attempt != now.Attempt.ID:
		return Result{}, false, refuse(Conflict, "see `enqueue show "+t.ID+"`", "%s %s: it moved on in the meantime", verb, note.Attempt)
	}
	return Result{}, false, nil
}

// movedOn turns a refused write into a conflict that names the attempt.
func movedOn(verb string, a turns.Attempt, err error) error {
	if store.Refused(err) {
		return &Error{Conflict, fmt.Sprintf("%s %s: it moved on in the meantime", verb, a.ID), "see `enqueue why " + a.Turn + "`", err}
	}
	return refusal(verb+" "+a.ID, err)
}

// Handoff closes the current attempt as delegated and opens the next one of the
// same turn on another service of its role.
func (c *Commands) Handoff(ctx context.Context, key, id, to string) (Result, error) {
	r, done, err := c.live(ctx, "hand off", key, id)
	if err != nil || done.Already {
		return done, err
	}
	switch {
	case !slices.Contains(r.Turn.Services, to):
		return Result{}, refuse(Invalid, fmt.Sprintf("the %s has %s", r.Turn.Role, strings.Join(r.Turn.Services, ", ")), "service %q does not serve the %s of %s", to, r.Turn.Role, r.Turn.ID)
	case to == r.Attempt.Service:
		return Result{}, refuse(Conflict, fmt.Sprintf("`enqueue restart %s` begins it anew there", r.Turn.ID), "%s is on %s already", r.Attempt.ID, to)
	}
	if before, ok, err := c.aim(ctx, r.Turn.Thread, key, r.Turn.ID, r.Attempt.ID, true); ok || err != nil {
		return before, err
	}
	on, err := c.Store.DelegateAttempt(ctx, r.Attempt.ID, keyed(key), store.Successor{Service: to, Cause: turns.CauseOperator, Reason: "handed off by a person"})
	if err != nil {
		return Result{}, movedOn("hand off", r.Attempt, err)
	}
	return c.continued(ctx, r, on, fmt.Sprintf("handed %s to %s as %s", r.Attempt.ID, to, on.Attempt)), nil
}

// Restart ends a live run and begins the turn anew with the next attempt, which
// waits until the old agent is gone.
func (c *Commands) Restart(ctx context.Context, key, id string) (Result, error) {
	r, done, err := c.live(ctx, "restart", key, id)
	if err != nil || done.Already {
		return done, err
	}
	if !r.Attempt.State.Held() {
		return Result{}, refuse(Conflict, fmt.Sprintf("`enqueue retry %s` makes it due now", r.Turn.ID), "restart %s: it is %s, nothing runs yet", r.Attempt.ID, r.Attempt.State)
	}
	if before, ok, err := c.aim(ctx, r.Turn.Thread, key, r.Turn.ID, r.Attempt.ID, true); ok || err != nil {
		return before, err
	}
	on, err := c.Store.RestartAttempt(ctx, r.Attempt.ID, keyed(key), store.Successor{Service: r.Attempt.Service, Cause: turns.CauseRestart, Reason: "restarted by a person"})
	if err != nil {
		return Result{}, movedOn("restart", r.Attempt, err)
	}
	return c.continued(ctx, r, on, fmt.Sprintf("restarted %s as %s", r.Attempt.ID, on.Attempt)), nil
}

// continued is the result of a command that opened the turn's next attempt. While
// the old run's agent may be alive the attempt waits: the worker that stops the
// agent hands it over, or else the relay when the hold ends.
func (c *Commands) continued(ctx context.Context, r store.Records, on store.Continued, text string) Result {
	if on.Freed == 0 {
		c.hand(ctx, on.Outbox)
	} else {
		c.hurry(ctx, r.Attempt, store.Ask{Kind: "cancel"})
	}
	return Result{Thread: r.Turn.Thread, Turn: r.Turn.ID, Attempt: on.Attempt, Already: on.Already, Text: text, Entry: on.Outbox,
		Note: c.unserved(ctx, on.Outbox.Service)}
}

// Interrupt asks the agent of a live run to stop and keeps its text; the turn ends
// as cancelled. Before an agent runs it ends the turn at once.
func (c *Commands) Interrupt(ctx context.Context, key, id string) (Result, error) {
	key = keyed(key)
	r, done, err := c.live(ctx, "interrupt", key, id)
	if err != nil || done.Already {
		return done, err
	}
	if r.Attempt.State == turns.Queued {
		done, err := c.cancelTurn(ctx, key, Ref{Thread: r.Turn.Thread, Turn: r.Turn.ID}, "interrupted before the agent ran", false)
		return done, refusal("interrupt "+r.Turn.ID, err)
	}
	done, err = c.ask(ctx, r, store.Ask{ID: key, Kind: "interrupt"})
	return done, movedOn("interrupt", r.Attempt, err)
}

// Steer gives a text to the live run of a turn. When the run ends before it took
// the text, the text becomes the next human message.
func (c *Commands) Steer(ctx context.Context, key, id, text string) (Result, error) {
	key = keyed(key)
	if err := checkText("text", text); err != nil {
		return Result{}, err
	}
	r, done, err := c.live(ctx, "steer", key, id)
	if err != nil || done.Already {
		return done, err
	}
	if r.Attempt.State == turns.Queued {
		return Result{}, refuse(Conflict, fmt.Sprintf("`enqueue reply %s TEXT` leaves a message", r.Turn.Thread), "steer %s: it is queued, nothing runs yet", r.Attempt.ID)
	}
	done, err = c.ask(ctx, r, store.Ask{ID: key, Kind: "steer", Text: text})
	return done, movedOn("steer", r.Attempt, err)
}

// ask stores a request to a live run and hurries it.
func (c *Commands) ask(ctx context.Context, r store.Records, ask store.Ask) (Result, error) {
	now, err := c.now(ctx, r.Turn.Thread)
	if err != nil {
		return Result{}, err
	}
	ask.At = now.UTC()
	if err := c.Store.Ask(ctx, r.Attempt.ID, ask); err != nil {
		return Result{}, err
	}
	c.hurry(ctx, r.Attempt, ask)
	return Result{Thread: r.Turn.Thread, Turn: r.Turn.ID, Attempt: r.Attempt.ID, Asked: ask.Kind,
		Text: fmt.Sprintf("asked the run of %s (%s)", r.Attempt.ID, ask.Kind)}, nil
}

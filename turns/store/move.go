package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"rota/turns"
)

// Requeue keeps an attempt whose run failed in a way that another delivery may
// mend, or that was given back.
type Requeue struct {
	After     time.Duration // not due before
	Margin    time.Duration // the relay looks this much later, because asynq's own retry comes first
	Class     turns.Class   // empty when given back
	Error     string        // redacted and bounded
	Uncounted bool          // the delivery does not count: shutdown, a failed probe
	Progress  turns.Progress
	Reason    string
}

// Requeue ends a run and keeps its attempt queued. The run's agent must be gone.
func (s *Store) Requeue(ctx context.Context, r Run, q Requeue) error {
	k := s.of(r.Turn)
	uncounted := "0"
	if q.Uncounted {
		uncounted = "1"
	}
	a, err := s.run(ctx, scriptRequeue,
		[]string{k.attempt(r.Attempt), k.turn(r.Turn), k.thread(r.Thread), k.outbox(), k.leases(), k.log(r.Turn), k.stream(),
			k.items(r.Thread), k.links(r.Thread), k.done(r.Turn), k.live(r.Thread)},
		r.Attempt, r.Turn, r.ID, r.fence(), ms(q.After), ms(q.Margin), string(q.Class), q.Error, uncounted, string(q.Progress),
		q.Reason, origins(turns.VerbRequeue), closedKinds)
	if err != nil {
		return err
	}
	switch a.word {
	case "requeued", "already":
		return nil
	case "stale":
		return fmt.Errorf("requeue %s: %w", r.Attempt, ErrStale)
	}
	return unexpected(scriptRequeue, a)
}

// Successor is the next attempt of a turn that goes on.
type Successor struct {
	Service string
	Cause   turns.Cause
	Reason  string        // for a wait: cooldown or needs_login; else for the log
	Delay   time.Duration // not due before
	// Class and Error say why the attempt before ended; redacted and bounded.
	Class    turns.Class
	Error    string
	Progress turns.Progress
	// Inherit leaves the attempt's open items to its successor (restart).
	Inherit bool
	// Keep leaves the thread's hold, because the agent of the run that is ended
	// may be alive; whoever stops it calls Release.
	Keep bool
}

func (n Successor) counter() string {
	switch {
	case n.Cause.Counted():
		return "opened"
	case n.Cause == turns.CauseLost:
		return "losses"
	case n.Cause == turns.CauseReminder:
		return "reminders"
	}
	return ""
}

// Continued is what a move that keeps the turn open came to.
type Continued struct {
	Already bool
	Attempt string            // the successor's id
	Outbox  turns.OutboxEntry // to be handed to asynq; zero when Already
	Freed   int64             // fence of the run that was ended, 0 for none
}

// Replace ends a run's attempt as failed and opens the next one on the same
// service.
func (s *Store) Replace(ctx context.Context, r Run, n Successor) (Continued, error) {
	return s.goOn(ctx, scriptReplace, turns.VerbReplace, r.Attempt, r.ID, &r, "", n)
}

// Delegate ends a run's attempt as delegated and opens the next one on another
// service.
func (s *Store) Delegate(ctx context.Context, r Run, n Successor) (Continued, error) {
	return s.goOn(ctx, scriptDelegate, turns.VerbDelegate, r.Attempt, r.ID, &r, "", n)
}

// DelegateAttempt is a person's handoff of an attempt in any open state.
func (s *Store) DelegateAttempt(ctx context.Context, attempt, command string, n Successor) (Continued, error) {
	n.Keep = true
	return s.goOn(ctx, scriptDelegate, turns.VerbDelegate, attempt, command, nil, "", n)
}

// RestartAttempt is a person's restart of a starting or running attempt: the
// next one waits until the old agent is gone and inherits what is still open.
func (s *Store) RestartAttempt(ctx context.Context, attempt, command string, n Successor) (Continued, error) {
	n.Keep, n.Inherit = true, true
	return s.goOn(ctx, scriptReplace, turns.VerbReplace, attempt, command, nil, "", n)
}

// Lose declares a run dead and opens the next attempt on the same service. With
// own, the run is given back by its own guard, whose agent is gone; without, its
// lease must have run out (else ErrAlive) outside an amnesty (else ErrAmnesty).
func (s *Store) Lose(ctx context.Context, r Run, own bool, n Successor) (Continued, error) {
	return s.goOn(ctx, scriptLose, turns.VerbLose, r.Attempt, r.ID, &r, loseMode(own), n)
}

func loseMode(own bool) string {
	if own {
		return "own"
	}
	return "lease"
}

func (s *Store) goOn(ctx context.Context, sc *script, verb turns.Verb, attempt, by string, r *Run, mode string, n Successor) (Continued, error) {
	if err := turns.CheckService(n.Service); err != nil {
		return Continued{}, err
	}
	turn, num, err := turns.ParseAttempt(attempt)
	if err != nil {
		return Continued{}, err
	}
	t, err := s.Turn(ctx, turn)
	if err != nil {
		return Continued{}, err
	}
	if num >= turns.AttemptCap {
		return Continued{}, fmt.Errorf("%s %s: the turn has used all of its %d attempts", verb, attempt, turns.AttemptCap)
	}
	if !slices.Contains(t.Services, n.Service) {
		return Continued{}, fmt.Errorf("%s %s: %w", verb, attempt, outside(n.Service, t.Role, t.Services))
	}
	thread := t.Thread
	k := s.of(turn)
	next := turns.AttemptID(turn, num+1)
	stamp := turns.NewToken()
	runID, fence := "", ""
	if r != nil {
		runID, fence = r.ID, r.fence()
	}
	fields := s.attemptRecord(ctx, n.Service, stamp, n.Cause)
	wait := "stop"
	if n.Cause == turns.CauseWait {
		fields = append(fields, "reason", n.Reason)
		wait = "start"
	}
	hold, kinds := "free", closedKinds
	if n.Keep {
		hold = "keep"
	}
	if n.Inherit {
		kinds = ""
	}
	a, err := s.run(ctx, sc,
		[]string{k.attempt(attempt), k.turn(turn), k.thread(thread), k.outbox(), k.leases(), k.log(turn), k.stream(), k.attempt(next),
			k.items(thread), k.links(thread), k.done(turn), k.live(thread), k.clock()},
		attempt, turn, by, runID, fence, origins(verb), mode, next, num+1, record(fields...), ms(n.Delay), ms(s.grace),
		string(n.Class), n.Error, string(n.Progress), n.counter(), wait, hold, kinds, n.Reason)
	if err != nil {
		return Continued{}, err
	}
	switch a.word {
	case "done":
		return Continued{Attempt: next, Freed: number64(a.at(1)), Outbox: turns.OutboxEntry{
			Thread: thread, Turn: turn, Attempt: next, Role: t.Role, Intent: t.Intent, Service: n.Service, Stamp: stamp,
			Cause: n.Cause, Delay: n.Delay, Limits: t.Limits, Trace: s.traceOf(ctx), High: t.High,
		}}, nil
	case "already":
		return Continued{Already: true, Attempt: a.at(0)}, nil
	}
	return Continued{}, fmt.Errorf("%s %s: %w", verb, attempt, refusal(sc, a))
}

// refusal turns the words of scripts that change nothing into errors.
func refusal(sc *script, a answer) error {
	switch a.word {
	case "stale":
		return ErrStale
	case "moved":
		return ErrMoved
	case "unknown":
		return ErrNotFound
	case "alive":
		return ErrAlive
	case "amnesty":
		return ErrAmnesty
	}
	return unexpected(sc, a)
}

// Refused reports whether err says that a write changed nothing because the run
// or the attempt is not what it was: nothing is left to do for this caller.
func Refused(err error) bool {
	return errors.Is(err, ErrStale) || errors.Is(err, ErrMoved) || errors.Is(err, ErrNotFound)
}

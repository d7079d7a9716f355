package handlers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/credentials"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// refusedError says that a message contradicted the stored turn. Nothing was
// executed and the turn is untouched; asynq archives the message.
type refusedError struct{ cause string }

func (e *refusedError) Error() string { return tasks.RefusedPrefix + e.cause }

func (e *refusedError) Unwrap() error { return asynq.SkipRetry }

// notClaimed is a failure before the claim: it counts nowhere.
type notClaimed struct{ err error }

func (e *notClaimed) Error() string { return e.err.Error() }

func (e *notClaimed) Unwrap() error { return e.err }

// errDraining sends a task on to another worker.
var errDraining = errors.New("this worker takes nothing new")

// unresolvable says why a stored turn can't be carried out by anybody.
func unresolvable(r store.Records) error {
	if err := turns.CheckRole(r.Turn.Role, r.Turn.Intent); err != nil {
		return err
	}
	if !slices.Contains(r.Turn.Services, r.Attempt.Service) {
		return fmt.Errorf("service %s is not one of the %s's services", r.Attempt.Service, r.Turn.Role)
	}
	return nil
}

// contradiction names the first field of the message that is not the stored one.
func contradiction(m tasks.Payload, r store.Records, service string) string {
	switch {
	case m.Role != r.Turn.Role:
		return "role"
	case m.Intent != r.Turn.Intent:
		return "intent"
	case m.Stamp != r.Attempt.Stamp:
		return "stamp"
	case m.Service != r.Attempt.Service || r.Attempt.Service != service:
		return "service"
	}
	return "mismatch"
}

// reject answers a message that contradicts the stored turn: the message is refused.
// A stored turn that contradicts itself is ended visibly. There is no default role
// anywhere.
func (h *Handler) reject(ctx context.Context, m tasks.Payload, r store.Records) error {
	if r.Attempt.ID == "" {
		return h.refuse(ctx, m, r, "unknown", fmt.Errorf("attempt %s: %w", m.Attempt, store.ErrNotFound))
	}
	if err := unresolvable(r); err != nil {
		return h.failClosed(ctx, m, r, err)
	}
	return h.refuse(ctx, m, r, contradiction(m, r, h.Service), nil)
}

// refuse logs and counts a message that must not be carried out, and lets the net
// issue the right task again where there is one.
func (h *Handler) refuse(ctx context.Context, m tasks.Payload, r store.Records, cause string, err error) error {
	h.Log.Error("message refused", "thread", m.Thread, "turn", m.Turn, "attempt", m.Attempt, "payload_role", string(m.Role),
		"stored_role", string(r.Turn.Role), "intent", string(m.Intent), "service", h.Service, "target_service", r.Attempt.Service,
		"cause", cause, "err", err)
	h.Metrics.Refused(h.Service, cause)
	if r.Attempt.State == turns.Queued {
		if err := h.Store.DueNow(ctx, r.Attempt.ID); err != nil && !store.Refused(err) {
			h.Log.Warn("right task not issued again: the next look does it", "attempt", r.Attempt.ID, "err", err)
		}
	}
	return &refusedError{cause}
}

// failClosed ends a stored turn that can't be resolved: visibly, with nothing
// executed.
func (h *Handler) failClosed(ctx context.Context, m tasks.Payload, r store.Records, cause error) error {
	h.Log.Error("stored turn can't be resolved", "thread", m.Thread, "turn", m.Turn, "attempt", m.Attempt, "payload_role", string(m.Role),
		"stored_role", string(r.Turn.Role), "intent", string(r.Turn.Intent), "service", h.Service, "target_service", r.Attempt.Service,
		"cause", "unresolvable", "err", cause)
	h.Metrics.Refused(h.Service, "unresolvable")
	if r.Attempt.State == turns.Queued {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		ended, err := retry(bound, func() (store.Ended, error) {
			return h.Store.End(bound, r.Attempt.ID, "unresolvable:"+r.Attempt.ID, turns.Ending{
				Class: turns.ClassUnresolvable, Error: cause.Error(), Reason: "can't be resolved: " + cause.Error(),
			})
		})
		if err != nil && !store.Refused(err) {
			return &notClaimed{err}
		}
		if err == nil {
			h.Metrics.DeadLetter(h.Service, string(tasks.TurnStart), "end")
			h.follow(bound, r.Turn.ID, ended)
		}
	}
	return &refusedError{"unresolvable"}
}

// taken is an attempt that a run has claimed, with what was read in the same round
// trip.
type taken struct {
	run     store.Run // zero when the message is done with
	sent    time.Time // when the claim was sent: its lease counts from there
	again   bool      // an earlier run had the attempt
	records store.Records
	asking  *store.Asking
	ahead   *credentials.Ahead
}

// claimTime bounds a claim, with the reading that goes along, while Redis is away: a
// claim that was answered to nobody must be heard of in time to be carried out.
func (h *Handler) claimTime() time.Duration {
	if h.Lease == 0 {
		return turns.DefaultLimits.Lease / 2
	}
	return h.Lease / 2
}

// claim takes the attempt for a new run, and reads in the same round trip what the
// run needs. The script holds the message against the stored turn. Without a run the
// message is done with: it is refused, somebody else has the attempt, or it has moved
// on.
func (h *Handler) claim(ctx context.Context, m tasks.Payload) (taken, error) {
	_, number, err := turns.ParseAttempt(m.Attempt)
	if err != nil {
		return taken{}, h.refuse(ctx, m, store.Records{}, "malformed", err)
	}
	reading, err := h.Store.Reading(m.Turn, number)
	if err != nil {
		return taken{}, h.refuse(ctx, m, store.Records{}, "malformed", err)
	}
	if m.Service != h.Service {
		r, err := reading.Records(ctx)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return taken{}, &notClaimed{err}
		}
		return taken{}, h.reject(ctx, m, r)
	}
	c := store.Claim{
		Attempt: m.Attempt, Service: h.Service, Role: m.Role, Intent: m.Intent, Stamp: m.Stamp, Run: turns.NewToken(),
		Worker: h.Worker, Agent: h.Agent.Kind(),
	}
	bound, cancel := context.WithTimeout(ctx, h.claimTime())
	defer cancel()
	t := taken{asking: h.Store.Asking(m.Turn, m.Intent, historyTurns)}
	along := []func(redis.Pipeliner){reading.Along, t.asking.Along}
	if h.Credentials != nil {
		if t.ahead = h.Credentials.Ahead(bound, h.Service, c.Run); t.ahead != nil {
			along = append(along, t.ahead.Along)
		}
	}
	answer, err := retry(bound, func() (answer store.ClaimAnswer, err error) {
		if t.sent.IsZero() {
			// A repeat may be answered for the first try, so its lease counts from there.
			t.sent = time.Now()
		}
		if answer, err = h.Store.Claim(bound, c, along...); err != nil {
			return answer, err
		}
		t.run = answer.Run
		t.records, err = reading.Records(bound)
		return answer, err
	})
	if errors.Is(err, store.ErrNotFound) {
		return taken{}, h.reject(ctx, m, store.Records{})
	}
	if err != nil {
		if t.run.ID != "" {
			h.giveUp(ctx, m, t.run, err)
		}
		return taken{}, &notClaimed{err}
	}
	h.Metrics.Claim(h.Service, string(answer.Answer))
	switch r := t.records; answer.Answer {
	case store.Claimed, store.Already:
		h.Metrics.Queued(h.Service, answer.At.Sub(r.Attempt.Created))
		h.moved(turns.VerbClaim, r, turns.Starting)
		h.Log.Info("attempt claimed", append(h.attrs(r, answer.Run), "delivery", answer.Deliveries)...)
		t.again = answer.Deliveries > 1
		return t, nil
	case store.Mismatch, store.WrongService, store.Unknown:
		return taken{}, h.reject(ctx, m, r)
	}
	h.Log.Info("attempt not claimed", "thread", m.Thread, "turn", m.Turn, "attempt", m.Attempt, "service", h.Service, "role", m.Role,
		"answer", string(answer.Answer), "detail", answer.Detail)
	return taken{}, nil
}

// unreadTime is how long an attempt rests whose turn can't be read: a hand has to
// mend it.
const unreadTime = time.Minute

// giveUp gives a claim back whose turn can't be read, uncounted: nothing was done.
func (h *Handler) giveUp(ctx context.Context, m tasks.Payload, run store.Run, cause error) {
	h.Log.Error("claimed turn can't be read", "thread", m.Thread, "turn", m.Turn, "attempt", m.Attempt, "fence", run.Fence, "service", h.Service,
		"role", m.Role, "err", cause)
	h.Metrics.Refused(h.Service, "unreadable")
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	_, err := retry(bound, func() (struct{}, error) {
		return struct{}{}, h.Store.Requeue(bound, run, store.Requeue{After: unreadTime, Uncounted: true, Reason: "can't be read"})
	})
	if err != nil && !store.Refused(err) {
		h.Log.Error("claim not given back: its lease decides", "attempt", m.Attempt, "fence", run.Fence, "err", err)
	}
}

package store_test

import (
	"testing"
	"time"

	"rota/turns"
	"rota/turns/store"
)

// asynq may bring a retry minutes before its time, by a worker whose clock is wrong.
// The attempt is not claimed; it is due when it was to be.
func TestNobodyClaimsLongBeforeTheTime(t *testing.T) {
	each(t, func(w *world) {
		e := w.lone("fix", turns.Owner)
		w.must(w.s.Requeue(w.ctx, w.claim(e), store.Requeue{After: time.Hour, Margin: time.Minute, Class: turns.ClassRateLimited}))
		due := w.attempt(e.Attempt).Due
		a, err := w.s.Claim(w.ctx, claimOf(e))
		if err != nil || a.Answer != store.Held || !a.HeldUntil.Equal(due) {
			w.Errorf("a claim an hour before its time: %+v, %v", a, err)
		}
		if score, ok := w.score("outbox", e.Attempt); !ok || int64(score) != due.UnixMilli() {
			w.Errorf("looked at %.0f, due at %d", score, due.UnixMilli())
		}
		if n := w.attempt(e.Attempt).Deliveries; n != 1 {
			w.Errorf("%d deliveries", n)
		}
		w.must(w.s.DueNow(w.ctx, e.Attempt))
		w.claim(e)
		w.sound()
	})
}

// asynq's times are whole seconds, so a retry comes up to one second early. That is
// in time.
func TestAClaimInTheSecondBeforeTheTime(t *testing.T) {
	each(t, func(w *world) {
		e := w.lone("fix", turns.Owner)
		w.must(w.s.Requeue(w.ctx, w.claim(e), store.Requeue{After: 1200 * time.Millisecond, Margin: time.Minute, Class: turns.ClassServer}))
		w.claim(e)
	})
}

// The answer to a claim tells Redis' time, with which what is stored can be compared.
func TestAClaimTellsTheTime(t *testing.T) {
	each(t, func(w *world) {
		e := w.lone("fix", turns.Owner)
		a, err := w.s.Claim(w.ctx, claimOf(e))
		w.must(err)
		now, err := w.s.Now(w.ctx, "fix")
		w.must(err)
		if a.At.Before(w.attempt(e.Attempt).Created) || a.At.After(now) {
			w.Errorf("claimed at %s, opened at %s, now it is %s", a.At, w.attempt(e.Attempt).Created, now)
		}
	})
}

// Who waits for a hold and for a time of its own waits for both.
func TestReleaseKeepsATimeOfItsOwn(t *testing.T) {
	each(t, func(w *world) {
		e := w.lone("fix", turns.Owner)
		old := w.claim(e)
		next, err := w.s.RestartAttempt(w.ctx, e.Attempt, "again", store.Successor{Cause: turns.CauseRestart, Service: e.Service, Delay: time.Hour, Keep: true})
		w.must(err)
		waiter, err := w.s.Release(w.ctx, old)
		if err != nil || waiter != "" {
			w.Errorf("%q is handed on, %v", waiter, err)
		}
		due := w.attempt(next.Outbox.Attempt).Due
		if score, ok := w.score("outbox", next.Outbox.Attempt); !ok || int64(score) != due.UnixMilli() || time.Until(due) < 50*time.Minute {
			w.Errorf("looked at %.0f, due at %d", score, due.UnixMilli())
		}
	})
}

package store_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// Every answer that a claim may get; all but the first two change nothing, except
// that a held attempt is due when the hold ends.
func TestAnswersToAClaim(t *testing.T) {
	each(t, func(w *world) {
		ask := func(c store.Claim, want store.Answer) store.ClaimAnswer {
			w.Helper()
			before := w.dump()
			a, err := w.s.Claim(w.ctx, c)
			w.must(err)
			if a.Answer != want {
				w.Fatalf("claim of %s: %+v, want %s", c.Attempt, a, want)
			}
			if want != store.Claimed && want != store.Held {
				w.unchanged(before, string(want))
			}
			return a
		}
		e := w.paired("fix")
		c := claimOf(e)

		other := c
		other.Service = "claude"
		if a := ask(other, store.WrongService); a.Detail != "codex-main" {
			w.Errorf("wrong service: %+v", a)
		}
		for _, change := range []func(c *store.Claim){
			func(c *store.Claim) { c.Role = turns.Reviewer },
			func(c *store.Claim) { c.Role = "" },
			func(c *store.Claim) { c.Intent = turns.Finalize },
			func(c *store.Claim) { c.Intent = "" },
			func(c *store.Claim) { c.Stamp = turns.NewToken() },
			func(c *store.Claim) { c.Stamp = "" },
			func(c *store.Claim) { c.Role, c.Intent, c.Service = turns.Reviewer, turns.Review, "claude" },
		} {
			wrong := c
			change(&wrong)
			ask(wrong, store.Mismatch)
		}
		// A stored turn whose role has lost the attempt's service can be carried out by nobody.
		services := w.s.Key("turn", e.Turn)
		was, err := w.rdb.HGet(w.ctx, services, "services").Result()
		w.must(err)
		for _, stored := range []string{"", "claude", "codex-main-2,codex"} {
			w.must(w.rdb.HSet(w.ctx, services, "services", stored).Err())
			ask(c, store.Mismatch)
		}
		w.must(w.rdb.HSet(w.ctx, services, "services", was).Err())
		unknown := c
		unknown.Attempt = "fix/1.2"
		ask(unknown, store.Unknown)
		unknown.Attempt = "fix/2.1"
		ask(unknown, store.Unknown)

		first := ask(c, store.Claimed)
		again := ask(c, store.Already)
		if first.Run != again.Run || first.Deliveries != 1 || again.Deliveries != 1 || !first.Deadline.Equal(again.Deadline) {
			w.Errorf("first %+v, again %+v", first, again)
		}
		second := claimOf(e)
		ask(second, store.Busy)
		w.start(first.Run)
		ask(second, store.Busy)
		ask(c, store.Already)

		on, err := w.s.Replace(w.ctx, first.Run, w.next(e.Attempt, turns.CauseRetry))
		w.must(err)
		ask(c, store.Superseded)
		ask(second, store.Superseded)
		run := ask(claimOf(on.Outbox), store.Claimed).Run
		_, err = w.s.Cancel(w.ctx, run.Turn, "k", "enough")
		w.must(err)
		ask(claimOf(on.Outbox), store.Final)

		next := w.lone("fix", turns.Owner)
		if a := ask(claimOf(next), store.Held); a.HeldUntil.Before(time.Now()) {
			w.Errorf("held until %s", a.HeldUntil)
		}
		if _, err := w.s.Claim(w.ctx, store.Claim{Attempt: "fix/1"}); err == nil {
			w.Error("claimed a turn's id")
		}
	})
}

// A claim that was delayed on its way and arrives after its run has given the
// attempt back starts nothing.
func TestClaimThatArrivesAfterItsRunGaveUp(t *testing.T) {
	each(t, func(w *world) {
		e := w.lone("fix", turns.Owner)
		c := claimOf(e)
		a, err := w.s.Claim(w.ctx, c)
		w.must(err)
		w.must(w.s.Requeue(w.ctx, a.Run, store.Requeue{}))
		before := w.dump()
		if a, err = w.s.Claim(w.ctx, c); err != nil || a.Answer != store.Busy {
			w.Errorf("%+v, %v", a, err)
		}
		w.unchanged(before, "the late claim")
		w.claim(e)
	})
}

// The hold of a run that was cancelled, handed off or restarted by a person stays
// until its agent is gone; only then the thread goes on.
func TestHoldOutlivesItsRunUntilReleased(t *testing.T) {
	each(t, func(w *world) {
		for _, stop := range []string{"cancel", "operator's handoff", "restart"} {
			w.must(w.rdb.FlushDB(w.ctx).Err())
			old := w.runs(w.lone("fix", turns.Reviewer))
			if _, err := w.s.Release(w.ctx, old); !errors.Is(err, store.ErrHeld) || w.thread("fix").Hold != old.Fence {
				w.Errorf("a release while the run has its attempt: %v", err)
			}
			w.must(actNamed(stop).do(w, old, "k"))
			if th := w.thread("fix"); th.Hold != old.Fence {
				w.Fatalf("%s: the hold is %d, want %d", stop, th.Hold, old.Fence)
			}
			var next turns.OutboxEntry
			if stop == "cancel" {
				next = w.lone("fix", turns.Reviewer)
			} else {
				next = w.entry("fix/1.2")
				if score, ok := w.score("outbox", next.Attempt); !ok || score < float64(w.thread("fix").HoldUntil.UnixMilli()) {
					w.Errorf("%s: the successor is looked at at %.0f, before the hold ends", stop, score)
				}
			}
			a, err := w.s.Claim(w.ctx, claimOf(next))
			w.must(err)
			if a.Answer != store.Held || !a.HeldUntil.Equal(w.thread("fix").HoldUntil) {
				w.Fatalf("%s: %+v", stop, a)
			}
			if score, _ := w.score("outbox", next.Attempt); score != float64(a.HeldUntil.UnixMilli()) {
				w.Errorf("%s: a held attempt is due at %.0f, its hold ends at %d", stop, score, a.HeldUntil.UnixMilli())
			}
			w.must(w.s.KeepHold(w.ctx, old, time.Hour))
			if until := w.thread("fix").HoldUntil; until.Sub(a.HeldUntil) < 50*time.Minute {
				w.Errorf("%s: the hold was kept until %s", stop, until)
			}
			stranger := old
			stranger.Fence++
			w.wants(w.s.KeepHold(w.ctx, stranger, time.Hour), store.ErrStale)
			if waiter, err := w.s.Release(w.ctx, stranger); err != nil || waiter != "" || w.thread("fix").Hold != old.Fence {
				w.Errorf("%s: a stranger's release: %q, %v", stop, waiter, err)
			}
			waiter, err := w.s.Release(w.ctx, old)
			w.must(err)
			if waiter != next.Attempt {
				w.Errorf("%s: %q waited, want %q", stop, waiter, next.Attempt)
			}
			w.sound()
			if run := w.claim(next); run.Fence <= old.Fence {
				w.Errorf("%s: fence %d after %d", stop, run.Fence, old.Fence)
			}
			if waiter, err := w.s.Release(w.ctx, old); err != nil || waiter != "" || w.thread("fix").Hold == 0 {
				w.Errorf("%s: a late release freed the next run: %q, %v", stop, waiter, err)
			}
			w.sound()
		}
	})
}

// A move by the run itself, whose agent is gone, frees the thread in the same write.
func TestHoldEndsWithItsRun(t *testing.T) {
	each(t, func(w *world) {
		for _, a := range acts {
			if !a.byRun || a.verb == turns.VerbStart {
				continue
			}
			w.must(w.rdb.FlushDB(w.ctx).Err())
			r := w.claim(w.lone("fix", turns.Reviewer))
			w.must(a.do(w, r, ""))
			if th := w.thread("fix"); th.Hold != 0 || !th.HoldUntil.IsZero() {
				w.Errorf("%s: hold %d until %s", a.name, th.Hold, th.HoldUntil)
			}
		}
	})
}

func TestExpiredHoldDoesNotBind(t *testing.T) {
	each(t, func(w *world) {
		old := w.claimFor(w.lone("fix", turns.Owner), time.Millisecond)
		_, err := w.s.Cancel(w.ctx, old.Turn, "k", "")
		w.must(err)
		e := w.lone("fix", turns.Owner)
		w.until("the hold to end", func() bool {
			a, err := w.s.Claim(w.ctx, claimOf(e))
			w.must(err)
			return a.Answer == store.Claimed
		})
	})
}

// Fences grow in a thread over its turns, when Redis' clock jumps back, and when a
// failover lost the last writes.
func TestFencesOnlyGrow(t *testing.T) {
	server, rdb := redistest.MiniServer(t)
	w := newWorld(t, rdb)
	now := time.Now()
	last := int64(0)
	claims := func(jump time.Duration) {
		w.Helper()
		now = now.Add(jump)
		server.SetTime(now)
		r := w.claim(w.lone("fix", turns.Owner))
		if r.Fence <= last {
			w.Errorf("fence %d after %d, the clock moved by %s", r.Fence, last, jump)
		}
		last = r.Fence
		_, err := w.s.Settle(w.ctx, r, completed())
		w.must(err)
	}
	for _, jump := range []time.Duration{0, 0, time.Second, -time.Hour, 0, -time.Second, time.Microsecond, 2 * time.Hour} {
		claims(jump)
	}
	// The failover: the thread is as it was before the last two claims.
	w.must(w.rdb.HSet(w.ctx, w.s.Key("thread", "fix"), "fence", last-1000).Err())
	claims(time.Millisecond)
}

func TestOneOfManyClaimsWins(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		w := plain(t, rdb)
		for range 30 {
			e := w.lone("fix", turns.Owner)
			answers := make([]store.ClaimAnswer, 32)
			var racers sync.WaitGroup
			for i := range answers {
				racers.Go(func() {
					var err error
					if answers[i], err = w.s.Claim(context.Background(), claimOf(e)); err != nil {
						t.Error(err)
					}
				})
			}
			racers.Wait()
			var winner store.Run
			count := map[store.Answer]int{}
			for _, a := range answers {
				count[a.Answer]++
				if a.Answer == store.Claimed {
					winner = a.Run
				}
			}
			if count[store.Claimed] != 1 || count[store.Busy] != 31 {
				t.Fatalf("answers %v", count)
			}
			_, err := w.s.Settle(w.ctx, winner, completed())
			w.must(err)
		}
		w.sound()
	})
}

func TestRefusedWritesAreHeard(t *testing.T) {
	each(t, func(w *world) {
		heard := map[string]int{}
		s, err := store.Open(w.ctx, w.rdb, store.Options{Plan: pairs.Plan, Crew: crew,
			Rejected: func(script, answer string) { heard[script+" "+answer]++ }})
		w.must(err)
		e := w.lone("fix", turns.Owner)
		c := claimOf(e)
		c.Service = "claude"
		_, err = s.Claim(w.ctx, c)
		w.must(err)
		r := w.runs(e)
		r.Fence--
		w.wants(s.Start(w.ctx, r, "", "", ""), store.ErrStale)
		_, err = s.Settle(w.ctx, r, completed())
		w.wants(err, store.ErrStale)
		_, err = s.Renew(w.ctx, []store.Renewal{{Run: r, Lease: time.Second}})
		w.must(err)
		for _, want := range []string{"claim wrong_service", "start stale", "settle stale", "renew stale"} {
			if heard[want] != 1 {
				w.Errorf("heard %v, want %q once", heard, want)
			}
		}
	})
}

package store_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// A lease entry that somebody deletes is no proof of a death: as long as the run's
// hold lasts, nobody may call it lost. Its next renewal writes the entry again.
func TestDeletedLeaseEntryKillsNobody(t *testing.T) {
	each(t, func(w *world) {
		r := w.runs(w.paired("fix"))
		zrem("leases", r.Attempt)(w)
		_, _, err := w.s.LoseOrEnd(w.ctx, w.attempt(r.Attempt), false, "its lease entry is gone")
		w.wants(err, store.ErrAlive)
		if a := w.renew(store.Renewal{Run: r, Lease: time.Minute}); !a.OK {
			w.Errorf("%+v", a)
		}
		w.sound()

		zrem("leases", r.Attempt)(w)
		hset("thread", "fix", "hold_until", "1")(w)
		next, _, err := w.s.LoseOrEnd(w.ctx, w.attempt(r.Attempt), false, "its lease entry is gone")
		w.must(err)
		if next.Attempt != turns.AttemptID(r.Turn, 2) {
			w.Errorf("%+v", next)
		}
		w.sound()
	})
}

// Between a failover and the first pass that sees it, a claim that was lost with the
// old server may have left an agent: nobody claims until a pass has judged.
func TestNobodyClaimsBeforeAPassHasSeenTheServer(t *testing.T) {
	server := redistest.Start(t)
	w := newWorld(t, server.Client())
	id := server.Client().InfoMap(w.ctx, "server").Val()["Server"]["run_id"]
	look := func(durable bool) {
		_, err := w.s.LookAll(w.ctx, store.LookOptions{Gap: time.Hour, Amnesty: time.Hour, Server: func(int) (string, bool) { return id, durable }})
		w.must(err)
	}
	look(true)
	e := w.paired("fix")
	before := func(seen, redisID string) {
		hset("clock", e.Turn, "seen", seen)(w)
		hset("clock", e.Turn, "redis", redisID)(w)
	}
	before("1", "another")
	a, err := w.s.Claim(w.ctx, claimOf(e))
	w.must(err)
	if a.Answer != store.Held || time.Until(a.HeldUntil) > 2*time.Second {
		t.Fatalf("%+v", a)
	}
	w.sound()
	before("1", id) // the same server, merely not looked at: no reason to wait
	r := w.claim(e)
	w.must(w.s.Requeue(w.ctx, r, store.Requeue{}))

	before("1", "another")
	look(true) // every write is on disk, and the pass says so
	w.claim(e)
	w.sound()
}

// A pass that has read an attempt a moment ago may not take its net: in between the
// run was requeued, or the queued attempt was claimed.
func TestADropOutOfDateTakesNoNet(t *testing.T) {
	each(t, func(w *world) {
		r := w.runs(w.paired("fix"))
		w.must(w.s.Requeue(w.ctx, r, store.Requeue{Reason: "given back", Uncounted: true}))
		w.must(w.s.DropEntry(w.ctx, r.Attempt)) // seen as running, before the requeue
		if _, ok := w.score("outbox", r.Attempt); !ok {
			w.Error("the outbox entry of a queued attempt was dropped")
		}
		w.runs(w.entry(r.Attempt))
		w.must(w.s.DropLease(w.ctx, r.Attempt)) // seen as queued, before the claim
		if _, ok := w.score("leases", r.Attempt); !ok {
			w.Error("the lease entry of a running attempt was dropped")
		}
		w.sound()

		w.rdb.ZAdd(w.ctx, w.s.Key("outbox", r.Attempt), redis.Z{Score: 1, Member: r.Attempt})
		w.must(w.s.DropEntry(w.ctx, r.Attempt))
		if _, ok := w.score("outbox", r.Attempt); ok {
			w.Error("the outbox entry of a running attempt stays")
		}
		w.sound()
	})
}

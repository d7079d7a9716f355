package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// history leaves two threads: fix, whose paired task is with the reviewer in its
// second attempt after a handoff, running; and wait, with a queued turn.
func history(w *world) {
	w.Helper()
	owner := w.runs(w.paired("fix"))
	e := completed()
	e.Outcome = turns.Done
	ended, err := w.s.Settle(w.ctx, owner, e)
	w.must(err)
	reviewer := w.runs(ended.Outbox)
	on, err := w.s.Delegate(w.ctx, reviewer, w.next(reviewer.Attempt, turns.CauseHandoff))
	w.must(err)
	w.runs(on.Outbox)
	w.lone("wait", turns.Owner)
}

// Each corruption breaks one invariant by hand.
var corruptions = []struct {
	name      string
	invariant int
	spoil     func(w *world)
}{
	{"role rewritten", 1, hset("turn", "fix/2", "role", "owner")},
	{"role and intent rewritten", 1, hset("turn", "fix/2", "role", "owner", "intent", "work")},
	{"role emptied", 1, hset("turn", "fix/2", "role", "")},
	{"second open turn", 2, hset("turn", "fix/1", "state", "queued")},
	{"open turn forgotten by its thread", 2, hset("thread", "fix", "open", "")},
	{"open turn forgotten by the root's index", 2, func(w *world) {
		w.lone("fix~2", turns.Owner)
		w.must(w.rdb.HDel(w.ctx, w.s.Key("live", "fix"), "fix~2").Err())
	}},
	{"ended turn in the root's index", 2, hset("live", "fix", "fix", "fix/1")},
	{"open turn out of the index of open turns", 2, zrem("open", "fix/2")},
	{"ended turn in the index of open turns", 2, zadd("open", "fix/1")},
	{"index names a turn that never was", 2, zadd("open", "fix/9")},
	{"thread out of the index of threads", 2, zrem("threads", "fix")},
	{"thread of ended turns removed", 2, func(w *world) {
		_, err := w.s.Settle(w.ctx, w.runs(w.lone("gone", turns.Owner)), completed())
		w.must(err)
		w.sound()
		w.must(w.rdb.Del(w.ctx, w.s.Key("thread", "gone")).Err())
		if found, err := w.s.Verify(w.ctx, "gone"); err != nil || len(found) == 0 {
			w.Errorf("verify of the thread alone: %v, %v", found, err)
		}
	}},
	{"second open attempt", 2, hset("attempt", "fix/2.1", "state", "queued")},
	{"queued attempt without its outbox entry", 3, zrem("outbox", "wait/1.1")},
	{"running attempt without its lease", 3, zrem("leases", "fix/2.2")},
	{"running attempt in the outbox too", 3, zadd("outbox", "fix/2.2")},
	{"ended attempt with a lease", 3, zadd("leases", "fix/2.1")},
	{"outbox names an attempt that never was", 3, zadd("outbox", "fix/7.1")},
	{"outbox names a thread that never was", 3, zadd("outbox", "ghost/1.1")},
	{"move with another run's fence", 4, logLine("fix/2", "1|requeue|2|running|queued|7|codex-review|r|")},
	{"illegal move", 4, logLine("fix/2", "1|start|2|queued|running|0|codex-review|r|")},
	{"state without a move", 4, hset("turn", "wait/1", "state", "starting")},
	{"log removed", 4, func(w *world) { w.must(w.rdb.Del(w.ctx, w.s.Key("log", "fix/2")).Err()) }},
	{"fence of the thread set back", 5, hset("thread", "fix", "fence", "5")},
	{"fence of the attempt changed", 5, hset("attempt", "fix/2.2", "fence", "5")},
	{"late write on a delegated attempt", 6, hset("attempt", "fix/2.1", "state", "completed")},
	{"final turn flipped", 6, hset("turn", "fix/1", "state", "failed", "class", "crash")},
	{"move after the end", 6, logLine("fix/1", "1|cancel|1|completed|cancelled|0|codex-main|o|")},
	{"successor forgotten", 6, hset("attempt", "fix/2.1", "next", "")},
	{"two successors", 6, func(w *world) { hset("attempt", "fix/2.3", "state", "delegated", "service", "claude")(w) }},
	{"successor removed", 6, func(w *world) { w.must(w.rdb.Del(w.ctx, w.s.Key("attempt", "fix/2.2")).Err()) }},
	{"claimed by another service", 7, hset("attempt", "fix/2.2", "service", "claude")},
	{"service outside the role", 7, hset("attempt", "wait/1.1", "service", "claude")},
	{"next turn after a failure", 8, hset("turn", "fix/1", "outcome", "")},
	{"next turn from another role's word", 8, hset("turn", "fix/1", "outcome", "approve")},
	{"next turn skips a number", 8, hset("turn", "fix/1", "next", "fix/3")},
	{"next turn does not know its origin", 8, hset("turn", "fix/2", "prior", "")},
	{"hold of a running run cleared", 9, hset("thread", "fix", "hold", "0")},
	{"hold of nobody", 9, hset("thread", "wait", "hold", "7", "fence", "7")},
	{"loss not counted", 10, hset("turn", "fix/2", "losses", "1")},
	{"handoff not counted", 10, hset("turn", "fix/2", "opened", "0")},
	{"budget exceeded", 10, hset("attempt", "fix/2.2", "deliveries", "6")},
	{"paired task at work without a turn", 10, func(w *world) {
		_, err := w.s.Cancel(w.ctx, "fix/2", "k", "")
		w.must(err)
		w.sound()
		hset("paired", "fix#1", "status", "review_ready")(w)
	}},
	{"turn overwritten", 10, overwritten("turn", "fix/1")},
	{"attempt overwritten", 10, overwritten("attempt", "fix/2.1")},
	{"thread overwritten", 10, overwritten("thread", "wait")},
	{"end without a time", 10, func(w *world) { w.must(w.rdb.HDel(w.ctx, w.s.Key("turn", "fix/1"), "ended").Err()) }},
}

func hset(kind, id string, fields ...any) func(w *world) {
	return func(w *world) { w.must(w.rdb.HSet(w.ctx, w.s.Key(kind, id), fields...).Err()) }
}

// overwritten puts something into a key that is no record.
func overwritten(kind, id string) func(w *world) {
	return func(w *world) { w.must(w.rdb.Set(w.ctx, w.s.Key(kind, id), "no record", 0).Err()) }
}

func zadd(index, member string) func(w *world) {
	return func(w *world) {
		w.must(w.rdb.ZAdd(w.ctx, w.s.Key(index, member), redis.Z{Member: member, Score: 1}).Err())
	}
}

func zrem(index, member string) func(w *world) {
	return func(w *world) { w.must(w.rdb.ZRem(w.ctx, w.s.Key(index, member), member).Err()) }
}

func logLine(turn, line string) func(w *world) {
	return func(w *world) { w.must(w.rdb.RPush(w.ctx, w.s.Key("log", turn), line).Err()) }
}

func TestVerifyFindsEveryCorruption(t *testing.T) {
	store.LookQuickly(t)
	w := newWorld(t, redistest.Mini(t))
	for _, c := range corruptions {
		w.must(w.rdb.FlushDB(w.ctx).Err())
		history(w)
		w.sound()
		c.spoil(w)
		before := w.dump()
		found, err := w.s.Verify(w.ctx, "")
		w.must(err)
		hit := false
		for _, v := range found {
			hit = hit || v.Invariant == c.invariant
		}
		if !hit {
			t.Errorf("%s: want invariant %d, found %v", c.name, c.invariant, found)
		}
		w.unchanged(before, "Verify")
	}
}

// A record that something else was written over is named, and hides no other one.
func TestAnOverwrittenRecordHidesNoOther(t *testing.T) {
	each(t, func(w *world) {
		history(w)
		overwritten("turn", "fix/1")(w)
		list, err := w.s.TurnsByID(w.ctx, []string{"fix/1", "fix/2", "wait/1"})
		w.must(err)
		if len(list) != 2 || list[0].ID != "fix/2" || list[1].ID != "wait/1" {
			t.Errorf("listed %v", list)
		}
		found, err := w.s.Verify(w.ctx, "fix")
		w.must(err)
		named := false
		for _, v := range found {
			named = named || v.Invariant == 10 && v.ID == "fix" && strings.HasPrefix(v.Text, w.s.Key("turn", "fix/1")+" ")
		}
		if !named {
			t.Errorf("verify says %v", found)
		}
		if found, err := w.s.Verify(w.ctx, "wait"); err != nil || len(found) != 0 {
			t.Errorf("of wait: %v, %v", found, err)
		}
	})
}

// A Redis that refuses writes can still be opened and looked into.
func TestAStoreThatTakesNoWritesIsRead(t *testing.T) {
	server := redistest.Start(t)
	w := plain(t, server.Client())
	history(w)
	for setting, value := range map[string]string{"min-replicas-to-write": "1", "maxmemory": "1"} {
		server.ConfigSet(setting, value)
		again, err := store.Open(w.ctx, server.Client(), store.Options{Plan: pairs.Plan, Crew: crew})
		w.must(err)
		if found, err := again.Verify(w.ctx, ""); err != nil || len(found) > 0 {
			t.Errorf("%s: verify %v, %v", setting, found, err)
		}
		if _, err := again.Cancel(w.ctx, "wait/1", "k", ""); err == nil {
			t.Errorf("%s: cancelled", setting)
		}
		server.ConfigSet(setting, "0")
	}
	if a := w.attempt("wait/1.1"); a.State != turns.Queued {
		t.Errorf("the turn is %s", a.State)
	}
}

func TestVerifyOfOneThread(t *testing.T) {
	each(t, func(w *world) {
		history(w)
		zadd("outbox", "fix/2.2")(w)
		zadd("outbox", "ghost/1.1")(w)
		found, err := w.s.Verify(w.ctx, "fix")
		w.must(err)
		if len(found) != 1 || found[0].ID != "fix/2.2" || found[0].String() != `invariant 3, fix/2.2: is "running", and in the outbox: true` {
			t.Errorf("of fix: %v", found)
		}
		if found, err := w.s.Verify(w.ctx, "wait"); err != nil || len(found) != 0 {
			t.Errorf("of wait: %v, %v", found, err)
		}
		if found, err := w.s.Verify(w.ctx, "ghost"); err != nil || len(found) != 1 {
			t.Errorf("of ghost: %v, %v", found, err)
		}
		_, err = w.s.Verify(w.ctx, "nobody")
		w.wants(err, store.ErrNotFound)
		if _, err := w.s.Verify(w.ctx, "no such name"); err == nil {
			t.Error("a bad name is accepted")
		}
	})
}

// Verify says nothing about turns that move while it reads them.
func TestVerifyOnALiveStore(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		w := plain(t, rdb)
		ctx, stop := context.WithCancel(w.ctx)
		var workers sync.WaitGroup
		for i := range 4 {
			workers.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					if err := live(w.s, fmt.Sprintf("live-%d", i)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		for range 4 {
			if found, err := w.s.Verify(w.ctx, ""); err != nil || len(found) > 0 {
				t.Errorf("%v %v", found, err)
			}
		}
		stop()
		workers.Wait()
		w.sound()
	})
}

// live takes a turn through a handoff to its end.
func live(s *store.Store, thread string) error {
	ctx := context.Background()
	o, err := s.OpenTurn(ctx, newTurn(thread, turns.Reviewer))
	if err != nil {
		return err
	}
	entry := o.Outbox
	for _, service := range []string{"codex-review", "claude", ""} {
		a, err := s.Claim(ctx, claimOf(entry))
		if err != nil {
			return err
		}
		if err := s.Start(ctx, a.Run, "", "", ""); err != nil {
			return err
		}
		if service == "" {
			_, err = s.Settle(ctx, a.Run, completed())
			return err
		}
		on, err := s.Delegate(ctx, a.Run, store.Successor{Service: service, Cause: turns.CauseHandoff})
		if err != nil {
			return err
		}
		entry = on.Outbox
	}
	return nil
}

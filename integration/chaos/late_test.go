package chaos

import (
	"context"
	"fmt"
	"time"

	"rota/turns"
	"rota/turns/store"
)

// lateWrites sends what a run would send that has given its attempt back, and whose
// last write was held up on its way: the end of its turn. Meanwhile another run has
// the attempt, so only the fence is between the two.
func (f *field) lateWrites(threads []string) {
	for _, thread := range threads {
		a, ok := f.current(thread)
		if !ok || !a.State.Held() || a.Deliveries < 2 {
			continue
		}
		if before, ok := f.before(a); ok {
			f.late(before)
		}
	}
}

// late ends the turn of a run that is over, which must be refused.
func (f *field) late(r store.Run) {
	ctx, cancel := context.WithTimeout(f.ctx, time.Second)
	defer cancel()
	ended, err := f.store.Settle(ctx, r, turns.Ending{State: turns.Completed, Outcome: turns.Done, Text: "too late"})
	switch {
	case store.Refused(err):
		f.count("late write refused")
	case err == nil && !ended.Already:
		f.t.Errorf("a late write of %s with fence %d was taken", r.Attempt, r.Fence)
	}
}

// before is the run that gave an attempt back before the present one claimed it.
func (f *field) before(a turns.Attempt) (store.Run, bool) {
	ctx, cancel := context.WithTimeout(f.ctx, time.Second)
	defer cancel()
	r := store.Run{Thread: turns.ThreadOf(a.Turn), Turn: a.Turn, Attempt: a.ID}
	key := fmt.Sprintf("rota:{s%s}:attempt:%s", pad(f.store.ShardOf(r.Thread)), a.ID)
	r.ID, _ = f.rdb.HGet(ctx, key, "last_run").Result()
	log, _ := f.store.Log(ctx, a.Turn)
	for _, e := range log {
		if e.Verb == turns.VerbRequeue && e.Attempt == a.ID {
			r.Fence = e.Fence
		}
	}
	return r, r.ID != "" && r.Fence != 0 && r.ID != a.Run
}

package store_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// crowd leaves a thread with everything a turn may leave behind: a paired task that
// has ended, a lone turn, attempts, items, links to children, requests, messages,
// texts, and a child thread with an ended turn.
func crowd(w *world) {
	w.Helper()
	r := w.runs(w.paired("fix"))
	child := w.subAgent(r, "fix", "a")
	w.tool(r, child, "t")
	w.must(w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: "a1", Kind: "steer", Text: "left"}))
	w.must(w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: "a2", Kind: "interrupt"}))
	w.must(w.s.Taken(w.ctx, r, store.Ask{ID: "a2"}, "stopped"))
	w.say("fix", "more")
	ended, err := w.s.Settle(w.ctx, r, done())
	w.must(err)
	on, err := w.s.Replace(w.ctx, w.runs(ended.Outbox), w.next(ended.Outbox.Attempt, turns.CauseRetry))
	w.must(err)
	_, err = w.s.Settle(w.ctx, w.runs(on.Outbox), failed())
	w.must(err)
	p, err := w.s.Paired(w.ctx, "fix#1")
	w.must(err)
	w.must(w.s.Park(w.ctx, pairs.CancelPaired(p).Paired))
	for _, thread := range []string{"fix", child} {
		_, err = w.s.Settle(w.ctx, w.runs(w.lone(thread, turns.Owner)), done())
		w.must(err)
	}
	w.sound()
}

// kinds are the kinds of keys that exist, without the shards' streams and clocks.
func (w *world) kinds() []string {
	w.Helper()
	kinds := map[string]bool{}
	for key := range w.dump() {
		_, rest, _ := strings.Cut(strings.TrimPrefix(key, "rota:"), ":")
		kinds[rest] = true
	}
	for key := range kinds {
		if slices.Contains([]string{"", "stream", "clock"}, key) || strings.HasPrefix(key, "command:") {
			delete(kinds, key)
		}
	}
	return slices.Sorted(maps.Keys(kinds))
}

func TestRemoveLeavesOnlyTheThreads(t *testing.T) {
	each(t, func(w *world) {
		crowd(w)
		w.must(w.s.Remove(w.ctx, "fix"))
		if got := w.kinds(); !slices.Equal(got, []string{"thread:fix", "thread:fix~2"}) {
			w.Errorf("left: %v", got)
		}
		if th := w.thread("fix"); th.Turns != 3 || th.Pairs != 1 || th.Children != 2 {
			w.Errorf("%+v", th)
		}
		w.sound()
		w.must(w.s.Remove(w.ctx, "fix"))
		// Ids are not used again.
		if e := w.lone("fix", turns.Owner); e.Turn != "fix/4" {
			w.Errorf("the next turn is %s", e.Turn)
		}
		w.sound()
	})
}

// A child thread that a person opened above the counter of its root goes too, and
// so does nothing of a thread that is only called alike.
func TestRemoveFindsEveryChild(t *testing.T) {
	each(t, func(w *world) {
		crowd(w)
		for _, thread := range []string{"fix~9", "fix2", "fix~12", "a"} {
			_, err := w.s.Settle(w.ctx, w.runs(w.lone(thread, turns.Owner)), done())
			w.must(err)
		}
		w.must(w.s.Remove(w.ctx, "fix~12"))
		w.must(w.s.Remove(w.ctx, "fix"))
		for thread, want := range map[string]int{"fix": 0, "fix~2": 0, "fix~9": 0, "fix~12": 0, "fix2": 1, "a": 1} {
			list, err := w.s.TurnsByID(w.ctx, []string{turns.TurnID(thread, 1)})
			w.must(err)
			if len(list) != want {
				w.Errorf("%s has %d turns, want %d", thread, len(list), want)
			}
		}
		names, err := w.s.Threads(w.ctx, 0)
		w.must(err)
		if slices.Sort(names); !slices.Equal(names, []string{"a", "fix2"}) {
			w.Errorf("listed: %v", names)
		}
		w.lone("fix~9", turns.Owner)
		var busy *store.BusyError
		if err := w.s.Remove(w.ctx, "fix"); !errors.As(err, &busy) || busy.Turn != "fix~9/2" {
			w.Errorf("%v", err)
		}
		w.sound()
	})
}

func TestRemoveRefusesAnOpenTurnInOrBelow(t *testing.T) {
	each(t, func(w *world) {
		crowd(w)
		w.lone("fix~2", turns.Owner)
		before := w.dump()
		var busy *store.BusyError
		if err := w.s.Remove(w.ctx, "fix"); !errors.As(err, &busy) || busy.Turn != "fix~2/2" {
			w.Errorf("%v", err)
		}
		if err := w.s.Remove(w.ctx, "fix~2"); !errors.As(err, &busy) {
			w.Errorf("%v", err)
		}
		w.wants(w.s.Remove(w.ctx, "nobody"), store.ErrNotFound)
		w.unchanged(before, "refused removals")
	})
}

// Retention begins with the end of a paired task or lone turn and takes all that
// belongs to it, not before it is due; nothing else of the thread.
func TestRetention(t *testing.T) {
	server, rdb := redistest.MiniServer(t)
	w := newWorld(t, rdb)
	now := time.Now()
	server.SetTime(now)
	crowd(w)
	ended := func() []string {
		glances, err := w.s.LookAll(w.ctx, store.LookOptions{Gap: time.Hour, Amnesty: time.Hour})
		w.must(err)
		var ids []string
		for _, g := range glances {
			ids = append(ids, g.Ended...)
		}
		slices.Sort(ids)
		return ids
	}
	before := w.dump()
	for _, id := range []string{"fix#1", "fix/3", "fix~2/1"} {
		w.wants(w.s.Retire(w.ctx, id), store.ErrMoved)
	}
	w.unchanged(before, "retiring what is not due")
	if ids := ended(); len(ids) != 0 {
		t.Errorf("due at once: %v", ids)
	}

	server.SetTime(now.Add(7*24*time.Hour + time.Second))
	if ids := ended(); !slices.Equal(ids, []string{"fix#1", "fix/3", "fix~2/1"}) {
		t.Errorf("due after seven days: %v", ids)
	}
	e := w.lone("fix", turns.Owner) // an open turn does not keep the others
	w.must(w.s.Retire(w.ctx, "fix#1"))
	w.sound()
	if _, err := w.s.Turn(w.ctx, "fix/1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("fix/1: %v", err)
	}
	w.turn("fix/3")
	for _, id := range []string{"fix/3", "fix~2/1", "fix#1", "fix#1"} {
		w.must(w.s.Retire(w.ctx, id))
	}
	w.sound()
	_, err := w.s.Cancel(w.ctx, e.Turn, "k", "")
	w.must(err)
	w.wants(w.s.Retire(w.ctx, e.Turn), store.ErrMoved)
	server.SetTime(now.Add(15 * 24 * time.Hour))
	server.FastForward(15 * 24 * time.Hour)
	w.must(w.s.Retire(w.ctx, e.Turn))
	if ids := ended(); len(ids) != 0 {
		t.Errorf("still due: %v", ids)
	}
	if got := w.kinds(); !slices.Equal(got, []string{"thread:fix", "thread:fix~2", "threads"}) {
		t.Errorf("left: %v", got)
	}
	w.sound()
}

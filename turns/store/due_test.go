package store_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

func TestStoredCommandIsTakenOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		s := open(t, rdb)
		id := store.StoredID("nightly", "k1")
		past := time.Now().Add(-time.Minute).Truncate(time.Millisecond).UTC()
		c := store.Stored{ID: id, At: past, Body: `{"verb":"task"}`}
		if added, err := s.AddStored(ctx, c); err != nil || !added {
			t.Fatal(added, err)
		}
		c.Body = `{"verb":"other"}`
		if added, err := s.AddStored(ctx, c); err != nil || added {
			t.Fatal("a repeat added another one", err)
		}
		later := store.Stored{ID: store.StoredID("other", "k2"), Body: `{}`}
		if _, err := s.AddStored(ctx, later); err != nil {
			t.Fatal(err)
		}
		all, err := s.StoredCommands(ctx)
		if err != nil || len(all) != 2 || all[0].ID != id || !all[0].At.Equal(past) || all[0].Body != `{"verb":"task"}` || !all[1].At.IsZero() {
			t.Fatal(all, err)
		}
		if due := dueIDs(t, s); len(due) != 1 || due[0] != id {
			t.Fatal(due)
		}
		var taken atomic.Int32
		var all10 sync.WaitGroup
		for range 10 {
			all10.Go(func() {
				switch err := s.TakeStored(ctx, id, 1); {
				case err == nil:
					taken.Add(1)
				case !errors.Is(err, store.ErrNotFound):
					t.Error(err)
				}
			})
		}
		all10.Wait()
		if taken.Load() != 1 {
			t.Fatalf("taken %d times", taken.Load())
		}
		if due := dueIDs(t, s); len(due) != 0 {
			t.Fatal(due)
		}
	})
}

func TestStoredCommandMovesByCompareAndSet(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		s := open(t, rdb)
		id := store.StoredID("nightly", "cron")
		if _, err := s.AddStored(ctx, store.Stored{ID: id, At: time.UnixMilli(1000), Body: `1`}); err != nil {
			t.Fatal(err)
		}
		var moved atomic.Int32
		var all10 sync.WaitGroup
		for range 10 {
			all10.Go(func() {
				switch err := s.MoveStored(ctx, store.Stored{ID: id, Revision: 1, Body: `2`}); {
				case err == nil:
					moved.Add(1)
				case !errors.Is(err, store.ErrMoved):
					t.Error(err)
				}
			})
		}
		all10.Wait()
		c, err := s.StoredCommand(ctx, id)
		if err != nil || moved.Load() != 1 || c.Revision != 2 || c.Body != `2` || !c.At.IsZero() {
			t.Fatal(moved.Load(), c, err)
		}
		if err := s.TakeStored(ctx, id, 1); !errors.Is(err, store.ErrMoved) {
			t.Fatal(err)
		}
		if due := dueIDs(t, s); len(due) != 0 {
			t.Fatalf("never due by itself, but due: %v", due)
		}
		if err := s.MoveStored(ctx, store.Stored{ID: store.StoredID("nightly", "gone"), Revision: 1, Body: `2`}); !errors.Is(err, store.ErrMoved) {
			t.Fatal(err)
		}
	})
}

func dueIDs(t *testing.T, s *store.Store) []string {
	t.Helper()
	glances, err := s.LookAll(context.Background(), store.LookOptions{Gap: time.Minute, Amnesty: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var due []string
	for _, g := range glances {
		due = append(due, g.Due...)
	}
	return due
}

func TestTailAndLists(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		s := open(t, rdb)
		all, err := s.Tail(ctx)
		if err != nil {
			t.Fatal(err)
		}
		one, err := s.Tail(ctx, s.ShardOf("b"))
		if err != nil {
			t.Fatal(err)
		}
		for _, thread := range []string{"a", "b"} {
			if _, err := s.OpenTurn(ctx, store.NewTurn{Command: "c", Thread: thread, Role: turns.Owner, Intent: turns.Work, Seat: crew[turns.Owner], Prompt: "x"}); err != nil {
				t.Fatal(err)
			}
		}
		seen := map[string]turns.Verb{}
		for len(seen) < 2 {
			moves, err := all.Next(ctx, time.Second)
			if err != nil || len(moves) == 0 {
				t.Fatal(moves, err)
			}
			for _, m := range moves {
				seen[m.Turn] = m.Verb
			}
		}
		if seen["a/1"] != turns.VerbOpen || seen["b/1"] != turns.VerbOpen {
			t.Fatal(seen)
		}
		if moves, err := one.Next(ctx, time.Second); err != nil || moves[len(moves)-1].Turn != "b/1" {
			t.Fatal(moves, err)
		}
		if moves, err := one.Next(ctx, time.Millisecond); err != nil || len(moves) != 0 {
			t.Fatal("seen twice", moves, err)
		}
		list, err := s.TurnsByID(ctx, []string{"b/1", "b/2", "a/1"})
		if err != nil || len(list) != 2 || list[0].ID != "b/1" || list[1].ID != "a/1" {
			t.Fatal(list, err)
		}
		times, err := s.TimesOf(ctx, "a/1.1")
		if err != nil || times.Look.Before(times.Now.Add(-time.Second)) || !times.Lease.IsZero() {
			t.Fatal(times, err)
		}
	})
}

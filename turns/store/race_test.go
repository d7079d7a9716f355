package store_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// Whoever ends a running attempt first wins; all others are told so and change
// nothing: the run itself, its guard, a person's cancel and handoff at once.
func TestOneEndOfAnAttemptWins(t *testing.T) {
	rounds := 1500
	if testing.Short() {
		rounds = 200
	}
	race(t, redistest.Mini(t), 150)
	t.Run("redis", func(t *testing.T) { race(t, redistest.Start(t).Client(), rounds) })
}

func race(t *testing.T, rdb redis.UniversalClient, rounds int) {
	w := plain(t, rdb)
	wins := map[string]int{}
	for i := range rounds {
		w.oneRace(fmt.Sprintf("t%d", i%50), i, wins)
	}
	w.sound()
	if len(wins) < 3 {
		t.Errorf("winners %v: the race is none", wins)
	}
	t.Logf("winners in %d rounds: %v", rounds, wins)
}

func (w *world) oneRace(thread string, i int, wins map[string]int) {
	w.Helper()
	r := w.claim(w.lone(thread, turns.Reviewer))
	racers := map[string]func() error{
		"settle": func() error { _, err := w.s.Settle(w.ctx, r, completed()); return err },
		"lose": func() error {
			_, err := w.s.Lose(w.ctx, r, true, store.Successor{Service: "claude", Cause: turns.CauseLost})
			return err
		},
		"handoff": func() error {
			_, err := w.s.DelegateAttempt(w.ctx, r.Attempt, "h", store.Successor{Service: "codex-review", Cause: turns.CauseOperator})
			return err
		},
		"requeue": func() error { return w.s.Requeue(w.ctx, r, store.Requeue{}) },
		"cancel":  func() error { _, err := w.s.Cancel(w.ctx, r.Turn, "k", ""); return err },
	}
	if i%2 == 0 {
		delete(racers, "requeue") // keeps the attempt, so that more than one may follow
	}
	results := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for name, do := range racers {
		all.Go(func() {
			err := do()
			mu.Lock()
			defer mu.Unlock()
			results[name] = err
		})
	}
	all.Wait()

	var final *store.FinalError
	won := 0
	for name, err := range results {
		switch {
		case err == nil:
			won++
			wins[name]++
		case errors.Is(err, store.ErrStale) || errors.As(err, &final):
		default:
			w.Fatalf("%s: %v", name, err)
		}
	}
	ends := map[string]int{}
	for _, e := range w.log(r.Turn) {
		if e.To.Final() {
			ends[e.Attempt]++
		}
	}
	turn := w.turn(r.Turn)
	if won == 0 || !turn.State.FinalForTurn() {
		w.Fatalf("the turn is %s after %v", turn.State, results)
	}
	for n := 1; n <= turn.Attempt; n++ {
		if ends[turns.AttemptID(turn.ID, n)] != 1 {
			w.Fatalf("attempts end %v times after %v", ends, results)
		}
	}
	if (results["settle"] == nil) != (turn.State == turns.Completed) || results["cancel"] != nil && turn.State == turns.Cancelled {
		w.Fatalf("the turn is %s after %v", turn.State, results)
	}
	_, err := w.s.Release(w.ctx, r) // the agent is gone
	w.must(err)
}

package commands_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// The word of the run about a request is what the person sees: taken, not taken
// and why, or none, because the turn ended first.
func TestAnswered(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.task("a")
		run := d.start("a")
		for key, answer := range map[string]string{"k1": "taken", "k2": "not taken: it is deaf"} {
			d.must(d.c.Steer(d.ctx, key, "a/1", "say "+key))
			kind := map[string]string{"k1": "steer", "k2": "untaken"}[key]
			if err := d.s.Taken(d.ctx, run, store.Ask{ID: key, Kind: kind, Text: "say " + key}, answer); err != nil {
				t.Fatal(err)
			}
			if got, err := d.c.Answered(d.ctx, "a/1", key, time.Minute); err != nil || got != answer {
				t.Errorf("%s: %q, %v", key, got, err)
			}
		}
		d.must(d.c.Steer(d.ctx, "k3", "a/1", "too late"))
		if got, err := d.c.Answered(d.ctx, "a/1", "k3", 0); err != nil || got != "" {
			t.Errorf("an answer before any: %q, %v", got, err)
		}
		if _, err := d.s.Settle(d.ctx, run, turns.Ending{State: turns.Completed, Outcome: turns.Done, Text: "done", Tree: "t"}); err != nil {
			t.Fatal(err)
		}
		if got, err := d.c.Answered(d.ctx, "a/1", "k3", time.Hour); err != nil || got != "" {
			t.Errorf("after the end: %q, %v", got, err)
		}
	})
}

package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// world is a store on a Redis of the test's own, with short ways to bring a turn
// into a state. Every method fails the test instead of returning an error.
type world struct {
	*testing.T
	ctx context.Context
	rdb redis.UniversalClient
	s   *store.Store
}

// each runs a body on miniredis and on a real server, with a check that scripts
// declare their keys.
func each(t *testing.T, body func(w *world)) {
	t.Helper()
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) { body(newWorld(t, rdb)) })
}

func newWorld(t *testing.T, rdb redis.UniversalClient) *world {
	t.Helper()
	return &world{T: t, ctx: context.Background(), rdb: rdb, s: open(t, rdb)}
}

// plain is a world without the check of keys, for faults that aim at a script.
func plain(t *testing.T, rdb redis.UniversalClient) *world {
	t.Helper()
	s, err := store.Open(context.Background(), rdb, store.Options{Plan: pairs.Plan, Crew: crew})
	if err != nil {
		t.Fatal(err)
	}
	return &world{T: t, ctx: context.Background(), rdb: rdb, s: s}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// wants fails unless err is of the kind.
func (w *world) wants(err, kind error) {
	w.Helper()
	if !errors.Is(err, kind) {
		w.Fatalf("got %v, want %v", err, kind)
	}
}

func newTurn(thread string, role turns.Role) store.NewTurn {
	intent, err := turns.FirstIntent(role)
	if err != nil {
		panic(err)
	}
	return store.NewTurn{Command: turns.NewToken(), Thread: thread, Role: role, Intent: intent, Seat: crew[role], Prompt: "do " + thread}
}

// lone opens a turn without a paired task.
func (w *world) lone(thread string, role turns.Role) turns.OutboxEntry {
	w.Helper()
	return w.opens(newTurn(thread, role))
}

func (w *world) opens(n store.NewTurn) turns.OutboxEntry {
	w.Helper()
	o, err := w.s.OpenTurn(w.ctx, n)
	w.must(err)
	return o.Outbox
}

// paired opens a paired task with the owner's first turn.
func (w *world) paired(thread string) turns.OutboxEntry {
	w.Helper()
	n := newTurn(thread, turns.Owner)
	n.Paired = &turns.Paired{ID: turns.PairedID(thread, 1), Thread: thread, Version: 1, Status: turns.Active, Turns: 1}
	n.New = true
	return w.opens(n)
}

func (w *world) claim(e turns.OutboxEntry) store.Run {
	w.Helper()
	return claim(w.T, w.s, e)
}

// claimFor claims with a lease of the test's choice, shorter than any that may be asked for.
func (w *world) claimFor(e turns.OutboxEntry, lease time.Duration) store.Run {
	w.Helper()
	w.must(w.rdb.HSet(w.ctx, w.s.Key("turn", e.Turn), "limits", fmt.Sprintf("%dm", lease.Milliseconds())).Err())
	return w.claim(e)
}

func claimOf(e turns.OutboxEntry) store.Claim {
	return store.Claim{Attempt: e.Attempt, Service: e.Service, Role: e.Role, Intent: e.Intent, Stamp: e.Stamp,
		Run: turns.NewToken(), Worker: "w1", Agent: "scripted"}
}

func (w *world) start(r store.Run) store.Run {
	w.Helper()
	w.must(w.s.Start(w.ctx, r, "session-1", "login-1", "tree-1"))
	return r
}

func (w *world) runs(e turns.OutboxEntry) store.Run {
	w.Helper()
	return w.start(w.claim(e))
}

// entry is the stored attempt as a message of it.
func (w *world) entry(attempt string) turns.OutboxEntry {
	w.Helper()
	waits, err := w.s.Waiter(w.ctx, attempt)
	w.must(err)
	return waits.Entry
}

func (w *world) turn(id string) turns.Turn {
	w.Helper()
	t, err := w.s.Turn(w.ctx, id)
	w.must(err)
	return t
}

func (w *world) attempt(id string) turns.Attempt {
	w.Helper()
	a, err := w.s.Attempt(w.ctx, id)
	w.must(err)
	return a
}

func (w *world) thread(name string) turns.Thread {
	w.Helper()
	th, err := w.s.Thread(w.ctx, name)
	w.must(err)
	return th
}

func (w *world) log(turn string) []turns.Entry {
	w.Helper()
	log, err := w.s.Log(w.ctx, turn)
	w.must(err)
	return log
}

// score is an entry of an index, and whether it is there.
func (w *world) score(kind, member string) (float64, bool) {
	w.Helper()
	score, err := w.rdb.ZScore(w.ctx, w.s.Key(kind, member), member).Result()
	if errors.Is(err, redis.Nil) {
		return 0, false
	}
	w.must(err)
	return score, true
}

// dump is everything in Redis, key by key.
func (w *world) dump() map[string]string {
	w.Helper()
	names, err := w.rdb.Keys(w.ctx, "*").Result()
	w.must(err)
	all := map[string]string{}
	for _, name := range names {
		all[name] = w.value(name)
	}
	return all
}

func (w *world) value(key string) string {
	w.Helper()
	kind, err := w.rdb.Type(w.ctx, key).Result()
	w.must(err)
	var v any
	switch kind {
	case "string":
		v, err = w.rdb.Get(w.ctx, key).Result()
	case "hash":
		v, err = w.rdb.HGetAll(w.ctx, key).Result()
	case "list":
		v, err = w.rdb.LRange(w.ctx, key, 0, -1).Result()
	case "zset":
		v, err = w.rdb.ZRangeWithScores(w.ctx, key, 0, -1).Result()
	case "stream":
		v, err = w.rdb.XRange(w.ctx, key, "-", "+").Result()
	default:
		w.Fatalf("%s is a %s", key, kind)
	}
	w.must(err)
	return fmt.Sprint(v)
}

// unchanged fails when anything in Redis differs from before.
func (w *world) unchanged(before map[string]string, what string) {
	w.Helper()
	after := w.dump()
	if maps.Equal(before, after) {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if before[key] != after[key] {
			w.Errorf("%s changed %s\n  from %.400s\n  to   %.400s", what, key, before[key], after[key])
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			w.Errorf("%s removed %s", what, key)
		}
	}
	w.FailNow()
}

var (
	times  = regexp.MustCompile(`\d{13,}(-\d+)?|1\.\d+e\+\d+`)
	tokens = regexp.MustCompile(`\b[0-9a-f]{16}\b`)
)

// shape is a dump without times, fences and random words: what two runs of one
// story have in common.
func shape(dump map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range dump {
		all[tokens.ReplaceAllString(key, "T")] = times.ReplaceAllString(tokens.ReplaceAllString(value, "T"), "N")
	}
	return all
}

// until waits for a state.
func (w *world) until(what string, ok func() bool) {
	w.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("waited in vain: %s", what)
		}
	}
}

// sound fails when Verify finds something.
func (w *world) sound() {
	w.Helper()
	found, err := w.s.Verify(w.ctx, "")
	w.must(err)
	if len(found) > 0 {
		var text strings.Builder
		for _, v := range found {
			fmt.Fprintf(&text, "\n  %d %s: %s", v.Invariant, v.ID, v.Text)
		}
		w.Fatalf("Verify:%s", text.String())
	}
}

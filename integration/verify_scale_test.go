package integration

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

var verifyCrew = turns.Crew{
	turns.Owner:    {Services: []string{"codex-main", "codex-spare"}},
	turns.Reviewer: {Services: []string{"claude"}},
}

// Verify of a large store (100,000 turns with ROTA_SCALE=full), while turns are
// opened and settled beside it: it ends, finds nothing, reads each turn once, in
// pipelines and commands of a bounded size, and keeps none of it.
func TestVerifyOfALargeStore(t *testing.T) {
	n := scale(1_500, 100_000)
	server := redistest.Start(t)
	rdb := server.Client()
	t.Cleanup(func() { _ = rdb.Close() })
	s := verifyStore(t, rdb)
	stored := fill(t, s, n)
	server.ConfigSet("slowlog-log-slower-than", "500")
	server.ConfigSet("slowlog-max-len", "1000")

	// Its own client, whose commands are counted.
	looks := &bounds{}
	own := server.Client()
	t.Cleanup(func() { _ = own.Close() })
	verifier := verifyStore(t, own)
	own.AddHook(looks)

	stop := beside(t, s)
	began := time.Now()
	found, err := verifier.Verify(t.Context(), "")
	took := time.Since(began)
	rounds := stop()
	if err != nil || len(found) > 0 {
		t.Errorf("%d violations, such as %v; %v", len(found), found[:min(3, len(found))], err)
	}
	perTurn := float64(looks.commands.Load()) / float64(stored+3*rounds)
	t.Logf("%d turns stored, %d rounds settled beside it: %s, %d commands in %d trips, %.1f a turn; heap at most %d MiB more; slowest commands: %s",
		stored, rounds, took.Round(time.Millisecond), looks.commands.Load(), looks.trips.Load(), perTurn, looks.grown()>>20, slowest(t, rdb))
	if most := looks.pipeline.Load(); most > 500 {
		t.Errorf("a pipeline of %d commands", most)
	}
	if most := looks.words.Load(); most > 600 {
		t.Errorf("a command of %d words", most)
	}
	if looks.grown() > 64<<20 {
		t.Errorf("the heap grew by %d MiB", looks.grown()>>20)
	}
	if perTurn > 6 {
		t.Errorf("%.1f commands a turn: each turn should be read once", perTurn)
	}

	// One thread of many costs what it has, not what the store has.
	before := looks.commands.Load()
	if found, err := verifier.Verify(t.Context(), "paired-0"); err != nil || len(found) > 0 {
		t.Errorf("one thread: %v, %v", found, err)
	}
	t.Logf("one thread: %d commands", looks.commands.Load()-before)
}

func verifyStore(t *testing.T, rdb redis.UniversalClient) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), rdb, store.Options{Plan: pairs.Plan, Crew: verifyCrew})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bounds is a hook that remembers the most that was asked of Redis at once, and how
// far the heap grew meanwhile.
type bounds struct {
	commands, trips, pipeline, words atomic.Int64
	first, most                      atomic.Uint64
}

func (b *bounds) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *bounds) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b.see(cmd)
		return next(ctx, cmd)
	}
}

func (b *bounds) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b.see(cmds...)
		return next(ctx, cmds)
	}
}

func (b *bounds) see(cmds ...redis.Cmder) {
	raise(&b.pipeline, int64(len(cmds)))
	for _, cmd := range cmds {
		raise(&b.words, int64(len(cmd.Args())))
	}
	b.commands.Add(int64(len(cmds)))
	if b.trips.Add(1)%50 != 1 {
		return
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.first.CompareAndSwap(0, m.HeapAlloc)
	for old := b.most.Load(); m.HeapAlloc > old && !b.most.CompareAndSwap(old, m.HeapAlloc); old = b.most.Load() {
	}
}

func raise(most *atomic.Int64, n int64) {
	for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
	}
}

func (b *bounds) grown() uint64 { return b.most.Load() - b.first.Load() }

// slowest names the reads that took Redis longest.
func slowest(t *testing.T, rdb *redis.Client) string {
	t.Helper()
	logs, err := rdb.SlowLogGet(t.Context(), -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	longest := map[string]time.Duration{}
	for _, l := range logs {
		if name := strings.ToLower(l.Args[0]); slices.Contains([]string{"zscan", "hgetall", "hget", "lrange", "zmscore", "exists"}, name) {
			longest[name] = max(longest[name], l.Duration)
		}
	}
	if len(longest) == 0 {
		return "none above 0.5 ms"
	}
	return fmt.Sprint(longest)
}

// beside plays paired rounds, at least one before it returns, until stop is called,
// which returns their number.
func beside(t *testing.T, s *store.Store) (stop func() int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var rounds atomic.Int64
	var all sync.WaitGroup
	for w := range 3 {
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				h := &history{ctx: context.WithoutCancel(ctx), s: s}
				h.completed(fmt.Sprintf("beside-%d-%d", w, n))
				if h.err != nil {
					t.Error(h.err)
					return
				}
				rounds.Add(1)
			}
		})
	}
	for rounds.Load() == 0 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	return func() int64 {
		cancel()
		all.Wait()
		return rounds.Load()
	}
}

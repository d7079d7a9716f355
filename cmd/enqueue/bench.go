package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"rota/internal/config"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// benchService is served by nobody: the turns of a measurement are taken by it alone.
const benchService = "rota-bench"

func (m *Main) benchCommand() *cobra.Command {
	rounds, parallel := 200, 4
	cmd := &cobra.Command{Use: "bench", Short: "measure what the store on this Redis can do", Args: cobra.NoArgs,
		Long: "Measures the way to your Redis, then plays paired tasks (owner, reviewer, owner finalizes) with every\n" +
			"move of the store, without agents and without asynq, in threads of its own that are removed afterwards.\n" +
			"It begins no more rounds after 45 seconds.",
		Example: "  enqueue bench --rounds 1000 --parallel 8",
		RunE: m.run(func(ctx context.Context, c *connection, _ []string) error {
			if rounds < 1 || parallel < 1 || rounds > 1_000_000 || parallel > 1000 {
				return usage("use 1 to 1000000 rounds, 1 to 1000 in parallel", "--rounds %d --parallel %d", rounds, parallel)
			}
			return m.bench(ctx, c, rounds, parallel)
		})}
	cmd.Flags().IntVar(&rounds, "rounds", rounds, "paired tasks to play")
	cmd.Flags().IntVar(&parallel, "parallel", parallel, "so many at once")
	return cmd
}

// measured is what `bench` prints. Times are in milliseconds.
type measured struct {
	Schema      int               `json:"schema"`
	Redis       string            `json:"redis"`
	Persistence string            `json:"persistence"`
	Ping        timing            `json:"ping"`
	Rounds      int               `json:"rounds"`
	Parallel    int               `json:"parallel"`
	Seconds     float64           `json:"seconds"`
	Rate        float64           `json:"rounds_per_second"`
	Moves       map[string]timing `json:"moves"`
}

// timing is the middle and the end of some times.
type timing struct {
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
}

func timingOf(times []time.Duration) timing {
	if len(times) == 0 {
		return timing{}
	}
	slices.Sort(times)
	at := func(q float64) float64 { return float64(times[int(q*float64(len(times)-1))].Microseconds()) / 1000 }
	return timing{at(0.5), at(0.99)}
}

func (t timing) String() string { return fmt.Sprintf("p50 %.2f ms, p99 %.2f ms", t.P50, t.P99) }

// benchTime is how long rounds are begun: the whole report takes a minute at most.
const benchTime = 45 * time.Second

// benchMoves are the moves of a round, in the order they are printed.
var benchMoves = []string{"open", "claim", "start", "settle"}

func (m *Main) bench(ctx context.Context, c *connection, rounds, parallel int) error {
	r := measured{Schema: 1, Parallel: parallel, Moves: map[string]timing{}}
	var err error
	if r.Ping, err = pings(ctx, c.rdb, 300); err != nil {
		return err
	}
	r.Redis, r.Persistence = serverOf(ctx, c.rdb)
	// The connection of the commands ends with an interrupt, which comes before the end
	// of the rounds that have begun and before they are removed.
	rdb, err := config.RedisClient(c.config.Redis)
	if err != nil {
		return badConfig(err)
	}
	defer rdb.Close()
	lasting := context.WithoutCancel(ctx)
	seat := turns.Seat{Services: []string{benchService}}
	// The relay must not look at these turns while they are played.
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan, Grace: 10 * time.Minute,
		Crew: turns.Crew{turns.Owner: seat, turns.Reviewer: seat}})
	if err != nil {
		return err
	}
	b := &player{store: s, name: "bench-" + turns.NewToken(), queue: make(chan int), moves: map[string][]time.Duration{}}
	began := time.Now()
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() { b.play(lasting) })
	}
	for r.Rounds < rounds && time.Since(began) < benchTime && ctx.Err() == nil {
		b.queue <- r.Rounds
		r.Rounds++
	}
	close(b.queue)
	all.Wait()
	r.Seconds = time.Since(began).Seconds()
	if ctx.Err() != nil {
		m.say(fmt.Sprintf("interrupted: the threads of %d rounds are removed", r.Rounds))
	}
	for i := range r.Rounds {
		err := s.Remove(lasting, b.thread(i))
		if err != nil && b.err == nil {
			b.err = err
		}
		if err != nil && unreachable(err) {
			break
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if b.err != nil {
		return b.err
	}
	r.Rate = float64(r.Rounds) / r.Seconds
	for _, verb := range benchMoves {
		r.Moves[verb] = timingOf(b.moves[verb])
	}
	if m.output != "table" {
		return m.printJSON(m.out, r)
	}
	fmt.Fprintf(m.out, "redis %s, %s; round trip %s\n", r.Redis, r.Persistence, r.Ping)
	fmt.Fprintf(m.out, "%d paired rounds in %.2f s, %d at once: %.0f a second\n", r.Rounds, r.Seconds, r.Parallel, r.Rate)
	for _, verb := range benchMoves {
		fmt.Fprintf(m.out, "  %-7s %s\n", verb, r.Moves[verb])
	}
	return nil
}

// pings measures the way to Redis and back.
func pings(ctx context.Context, rdb redis.UniversalClient, n int) (timing, error) {
	var times []time.Duration
	for range n {
		began := time.Now()
		if err := rdb.Ping(ctx).Err(); err != nil {
			return timing{}, err
		}
		times = append(times, time.Since(began))
	}
	return timingOf(times), nil
}

// serverOf says which Redis it is and what it keeps through a crash, as far as it
// tells.
func serverOf(ctx context.Context, rdb redis.UniversalClient) (version, persistence string) {
	version, persistence = "of unknown version", "persistence unknown"
	text, err := rdb.Info(ctx, "server", "persistence").Result()
	if err != nil {
		return version, persistence
	}
	for line := range strings.Lines(text) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); {
		case name == "redis_version":
			version = value
		case name == "aof_enabled" && value == "1":
			persistence = "append-only file"
			if sync, err := rdb.ConfigGet(ctx, "appendfsync").Result(); err == nil && sync["appendfsync"] != "" {
				persistence += " synced " + sync["appendfsync"]
			}
		case name == "aof_enabled":
			persistence = "no append-only file"
		}
	}
	return version, persistence
}

// player plays paired tasks.
type player struct {
	store *store.Store
	name  string
	queue chan int

	mu    sync.Mutex
	moves map[string][]time.Duration // by verb
	err   error
}

func (b *player) thread(i int) string { return fmt.Sprintf("%s-%d", b.name, i) }

func (b *player) play(ctx context.Context) {
	for i := range b.queue {
		if err := b.round(ctx, b.thread(i)); err != nil {
			b.mu.Lock()
			b.err = err
			b.mu.Unlock()
		}
	}
}

func (b *player) timed(verb string, f func() error) error {
	began := time.Now()
	err := f()
	b.mu.Lock()
	b.moves[verb] = append(b.moves[verb], time.Since(began))
	b.mu.Unlock()
	return err
}

func (b *player) round(ctx context.Context, thread string) error {
	plan, err := pairs.Begin(thread, 1, b.store.Crew())
	if err != nil {
		return err
	}
	var next turns.OutboxEntry
	if err := b.timed("open", func() error {
		o, err := b.store.OpenTurn(ctx, store.NewTurn{Command: "bench", Thread: thread, Role: plan.Next.Role, Intent: plan.Next.Intent,
			Seat: turns.Seat{Services: plan.Next.Services}, Prompt: "bench", Paired: &plan.Paired, New: true})
		next = o.Outbox
		return err
	}); err != nil {
		return err
	}
	for _, o := range []turns.Outcome{turns.Done, turns.Approve, turns.Done} {
		var run store.Run
		for i, step := range []func() error{
			func() error {
				a, err := b.store.Claim(ctx, store.Claim{Attempt: next.Attempt, Service: benchService, Role: next.Role, Intent: next.Intent,
					Stamp: next.Stamp, Run: turns.NewToken(), Worker: "bench", Agent: "none"})
				if err == nil && a.Answer != store.Claimed {
					err = fmt.Errorf("claim %s: %s", next.Attempt, a.Answer)
				}
				run = a.Run
				return err
			},
			func() error { return b.store.Start(ctx, run, "", "", "tree") },
			func() error {
				e, err := b.store.Settle(ctx, run, turns.Ending{State: turns.Completed, Outcome: o, Tree: "tree"})
				next = e.Outbox
				return err
			},
		} {
			if err := b.timed(benchMoves[i+1], step); err != nil {
				return err
			}
		}
	}
	return nil
}

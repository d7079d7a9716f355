package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"rota/internal/metrics"
	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns/store"
)

func reconcilerOn(t *testing.T, rdb redis.UniversalClient, every time.Duration) *Reconciler {
	t.Helper()
	s, err := store.Open(context.Background(), rdb, store.Options{Plan: pairs.Plan})
	if err != nil {
		t.Fatal(err)
	}
	return NewReconciler(Config{Store: s, Relay: NewRelay(s, slog.New(slog.DiscardHandler), nil), Log: slog.New(slog.DiscardHandler), Every: every})
}

// Of many workers one makes the pass, then the next one whoever asks.
func TestWorkersShareThePasses(t *testing.T) {
	server := redistest.Start(t)
	ctx := context.Background()
	const every = time.Minute
	var all []*Reconciler
	for range 5 {
		all = append(all, reconcilerOn(t, server.Client(), every))
	}
	count := func() (n int) {
		for _, r := range all {
			if r.mine(ctx) {
				n++
			}
		}
		return n
	}
	if n := count(); n != 1 {
		t.Fatalf("%d of %d workers make the pass", n, len(all))
	}
	if n := count(); n != 0 {
		t.Fatalf("%d make it again at once", n)
	}
	rdb := server.Client()
	left, err := rdb.PTTL(ctx, "rota:{pass}:60000").Result()
	if err != nil || left <= 0 || left >= every {
		t.Fatalf("the next pass is %s away, want less than %s: a worker alone must make each of its own (%v)", left, every, err)
	}
	if err := rdb.Del(ctx, "rota:{pass}:60000").Err(); err != nil { // its time is over
		t.Fatal(err)
	}
	if n := count(); n != 1 {
		t.Fatalf("%d make the next pass", n)
	}
	if r := reconcilerOn(t, rdb, time.Second); !r.mine(ctx) {
		t.Fatal("a worker that looks more often waits for one that looks seldom")
	}
	server.Kill9()
	bound, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if !all[0].mine(bound) {
		t.Fatal("a worker that can't ask does not try")
	}
}

// Whoever made the last pass asks in one round trip whether the next one is its own too
// and who the server is. An answer that is not used at once is forgotten.
func TestTheNextPassIsAskedForTogetherWithItsServer(t *testing.T) {
	var counter redistest.Counter
	server := redistest.Start(t)
	ctx, rdb := context.Background(), server.Client()
	r := reconcilerOn(t, rdb, time.Minute)
	if _, err := r.Pass(ctx); err != nil { // the first one does more
		t.Fatal(err)
	}
	rdb.AddHook(&counter)
	const key = "rota:{pass}:60000"
	for n, tt := range []struct {
		mine, ahead bool
		trips       int // whose pass it is, the server, the looks
	}{{true, false, 3}, {true, true, 2}, {false, false, 1}, {true, false, 3}} {
		if tt.mine {
			if err := rdb.Del(ctx, key).Err(); err != nil {
				t.Fatal(err)
			}
		}
		counter.Reset()
		mine := r.mine(ctx)
		if ahead := r.servers.ahead != nil; mine != tt.mine || ahead != tt.ahead {
			t.Errorf("question %d: mine %v, asked ahead %v, want %+v", n, mine, ahead, tt)
		}
		if mine {
			if _, err := r.Pass(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if trips := counter.RoundTrips(); trips != tt.trips || mine && r.servers.ahead != nil {
			t.Errorf("question %d: %d round trips, want %d; an answer is left: %v", n, trips, tt.trips, r.servers.ahead != nil)
		}
	}
}

// A worker alone waits for nobody.
func TestWorkerAloneGoesOnMakingPasses(t *testing.T) {
	var counter redistest.Counter
	rdb := redistest.Start(t).Client()
	r := reconcilerOn(t, rdb, 40*time.Millisecond)
	rdb.AddHook(&counter)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = r.Run(ctx) }()
	for deadline := time.Now().Add(60 * time.Second); counter.ByName()["evalsha"] < 10*store.DefaultShards; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no ten passes in 20 s: %v", counter.ByName())
		}
	}
	cancel()
	<-done
}

// A problem that stays is logged once a minute, a new one at once.
func TestAProblemIsNoStorm(t *testing.T) {
	var log strings.Builder
	r := NewReconciler(Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
	start := time.Now()
	for n := range 120 {
		problems := []error{errors.New("one can't be read")}
		if n >= 90 {
			problems = append(problems, errors.New("two can't be read"))
		}
		r.complain(problems, start.Add(time.Duration(n)*time.Second))
	}
	if one, two := strings.Count(log.String(), "one can't"), strings.Count(log.String(), "two can't"); one != 2 || two != 1 {
		t.Errorf("logged %d and %d times:\n%s", one, two, log.String())
	}
}

// A service without a worker and a violation have lines of their own: nothing was
// mended.
func TestWhatIsOnlyFoundIsNotMended(t *testing.T) {
	var out strings.Builder
	registry := prometheus.NewRegistry()
	r := NewReconciler(Config{Log: slog.New(slog.NewTextHandler(&out, nil)), Metrics: metrics.New(registry)})
	r.tell(Report{Found: map[Finding]int{FoundUnserved: 1, FoundViolation: 1, FoundExpired: 2}})
	if !strings.Contains(out.String(), "finding=lease_expired count=2") || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("said: %s", out.String())
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "rota_reconciler_findings_total" && len(f.GetMetric()) != 3 {
			t.Errorf("counted %v", f)
		}
	}
}

package metrics_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/redis/go-redis/v9"

	"rota/credentials"
	"rota/internal/metrics"
	"rota/internal/presence"
	"rota/internal/redistest"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

var crew = turns.Crew{turns.Owner: {Services: []string{"codex-main", "claude"}}}

// everything is a registry with a sample of every metric.
func everything(t *testing.T, rdb redis.UniversalClient) (*prometheus.Registry, *store.Store) {
	t.Helper()
	s, err := store.Open(context.Background(), rdb, store.Options{Crew: crew})
	if err != nil {
		t.Fatal(err)
	}
	logins, err := credentials.New(rdb, credentials.Config{Services: map[string]credentials.Service{"codex-main": {Agent: "codex"}}})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	m := metrics.New(registry)
	registry.MustRegister(metrics.NewQueues(rdb, s, logins, []string{"codex-main", "claude"}))
	m.Move(turns.VerbClaim, turns.Owner, "codex-main", turns.Starting)
	m.Claim("codex-main", "claimed")
	m.Refused("codex-main", "role")
	m.Rejected("settle", "stale")
	m.Opened(turns.CauseInitial, "codex-main")
	m.Handoff("claude", "codex-review", turns.ClassAuth)
	m.Failure("claude", turns.ClassAuth)
	m.DeadLetter("claude", "turn:start", "compensate")
	m.HookFailed("claude")
	m.Finding("lost", 1)
	m.PassFailed()
	m.Amnesty()
	m.Violation("3")
	m.Queued("claude", time.Second)
	m.Ran("claude", turns.Reviewer, time.Minute)
	m.Running("claude", 1)
	m.Unserved("claude", true)
	return registry, s
}

// Every name keeps Prometheus' conventions.
func TestNamesKeepTheConventions(t *testing.T) {
	registry, _ := everything(t, redistest.Mini(t))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	name := regexp.MustCompile(`^rota_[a-z_]+$`)
	ids := []string{"thread", "turn", "attempt", "run", "fence", "worker", "credential", "session"}
	for _, f := range families {
		if !name.MatchString(f.GetName()) {
			t.Errorf("the name %q", f.GetName())
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if slices.Contains(ids, l.GetName()) {
					t.Errorf("%s has the label %s: an id is never a label", f.GetName(), l.GetName())
				}
			}
		}
	}
	if len(families) < 20 {
		t.Errorf("only %d metrics were looked at", len(families))
	}
}

func TestQueuesAreReadWhenAsked(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		registry, s := everything(t, rdb)
		client := asynq.NewClientFromRedisClient(rdb)
		for _, thread := range []string{"a", "b"} {
			o, err := s.OpenTurn(ctx, store.NewTurn{Command: thread, Thread: thread, Role: turns.Owner, Intent: turns.Work, Seat: crew[turns.Owner], Prompt: "work"})
			if err != nil {
				t.Fatal(err)
			}
			if err := tasks.Enqueue(ctx, client, o.Outbox, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := asynq.NewInspectorFromRedisClient(rdb).PauseQueue("codex-main"); err != nil {
			t.Fatal(err)
		}
		if err := presence.Announce(ctx, rdb, "claude", "w1"); err != nil {
			t.Fatal(err)
		}
		got := gather(t, registry)
		for sample, want := range map[string]float64{
			"rota_queue_tasks queue=codex-main state=pending":         2,
			"rota_queue_tasks queue=codex-main state=archived":        0,
			"rota_queue_tasks queue=codex-main.control state=pending": 0,
			"rota_queue_tasks queue=claude state=active":              0,
			"rota_queue_paused queue=codex-main":                      1,
			"rota_queue_paused queue=claude":                          0,
			"rota_service_workers service=claude":                     1,
			"rota_service_workers service=codex-main":                 0,
			"rota_credentials_resting state=cooling":                  0,
			"rota_oldest_queued_seconds service=claude":               0,
			"rota_redis_readable":                                     1,
		} {
			if v, ok := got[sample]; !ok || v != want {
				t.Errorf("%s is %v (there: %v), want %v", sample, v, ok, want)
			}
		}
	})
}

// The age of what waits is known also when asynq has lost the task.
func TestTheOldestQueuedAttemptNeedsNoTask(t *testing.T) {
	ctx := context.Background()
	server, rdb := redistest.MiniServer(t)
	registry, s := everything(t, rdb)
	began := time.Now().Add(-10 * time.Minute)
	server.SetTime(began)
	open := func(thread string, delay time.Duration) {
		t.Helper()
		if _, err := s.OpenTurn(ctx, store.NewTurn{Command: thread, Thread: thread, Role: turns.Owner, Intent: turns.Work, Seat: crew[turns.Owner], Prompt: "work", Delay: delay}); err != nil {
			t.Fatal(err)
		}
	}
	open("later", time.Hour)
	open("old", 0)
	server.SetTime(began.Add(90 * time.Second))
	open("young", 0)
	if got := gather(t, registry)["rota_oldest_queued_seconds service=codex-main"]; got < 90 || got > 91 {
		t.Errorf("the oldest waits %v s, want 90", got)
	}
}

func TestAScrapeSurvivesARedisThatIsAway(t *testing.T) {
	server, rdb := redistest.MiniServer(t)
	registry, _ := everything(t, rdb)
	server.SetError("LOADING Redis is loading the dataset in memory")
	got := gather(t, registry)
	if v, ok := got["rota_redis_readable"]; !ok || v != 0 {
		t.Errorf("rota_redis_readable is %v (there: %v)", v, ok)
	}
	if got["rota_amnesties_total"] != 1 {
		t.Error("the process's own metrics are gone too")
	}
}

// A scrape costs the same with one open turn and with a thousand.
func TestAScrapeIsBounded(t *testing.T) {
	ctx := context.Background()
	count := &redistest.Counter{}
	rdb := redistest.WithHooks(t, redistest.Mini(t), count)
	registry, s := everything(t, rdb)
	for i := range 1000 {
		thread := "t" + strings.Repeat("x", i%20) + turns.NewToken()
		if _, err := s.OpenTurn(ctx, store.NewTurn{Command: thread, Thread: thread, Role: turns.Owner, Intent: turns.Work, Seat: crew[turns.Owner], Prompt: "work"}); err != nil {
			t.Fatal(err)
		}
	}
	count.Reset()
	gather(t, registry)
	if n := count.Commands(); n > 16+2*16*10+40 {
		t.Errorf("%d commands: %v", n, count.ByName())
	}
	count.Reset()
	gather(t, registry)
	if n := count.Commands(); n != 0 {
		t.Errorf("a second scrape at once costs %d commands", n)
	}
}

// gather returns the gauges and counters by name and labels.
func gather(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			all[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return all
}

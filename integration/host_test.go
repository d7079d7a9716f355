package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"rota/agents/scripted"
	"rota/commands"
	"rota/handlers"
	"rota/internal/metrics"
	"rota/pairs"
	"rota/scheduler"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
	"rota/workspaces"
)

// plan is what a host needs: who takes which role, and what the agents do.
type plan struct {
	crew   turns.Crew
	script string
	dir    string // of workspaces
}

// host is a worker inside the test's own process, for all services, over one Redis
// client. Its agents are scripted. It has no reconciler unless it is told so.
type host struct {
	plan
	store    *store.Store
	relay    *scheduler.Relay
	runs     *handlers.Runs
	commands *commands.Commands
	byQueue  map[string]*handlers.Handler
	server   *asynq.Server
	registry *prometheus.Registry
	ctx      context.Context
	cancel   context.CancelFunc
}

func newHost(t testing.TB, rdb *redis.Client, p plan) *host {
	t.Helper()
	h := &host{plan: p, byQueue: map[string]*handlers.Handler{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	var err error
	if h.store, err = store.Open(h.ctx, rdb, store.Options{Shards: 1, Plan: pairs.Plan, Crew: p.crew}); err != nil {
		t.Fatal(err)
	}
	script, err := scripted.Parse(p.script)
	if err != nil {
		t.Fatal(err)
	}
	h.relay = scheduler.NewRelay(h.store, discard, nil)
	h.runs = handlers.NewRuns(h.store, discard)
	h.commands = &commands.Commands{Store: h.store, Hand: h.relay.Hand}
	h.registry = prometheus.NewRegistry()
	set := metrics.New(h.registry)
	queues := map[string]int{}
	for _, seat := range p.crew {
		for _, service := range seat.Services {
			queues[tasks.Queue(service)] = 1
			h.byQueue[tasks.Queue(service)] = &handlers.Handler{
				Service: service, Worker: "host", Agent: scripted.New(script, service), ReadOnly: true, Structured: true,
				Store: h.store, Hand: h.relay.Hand, Runs: h.runs, Workspaces: &workspaces.Workspaces{Dir: p.dir},
				Served: func(context.Context, string) (bool, error) { return true, nil }, Log: discard, Metrics: set,
			}
		}
	}
	h.server = asynq.NewServerFromRedisClient(rdb, asynq.Config{
		Concurrency: 2, Queues: queues, ErrorHandler: asynq.ErrorHandlerFunc(h.failed), IsFailure: handlers.IsFailure,
		RetryDelayFunc: handlers.RetryDelay, TaskCheckInterval: 20 * time.Millisecond, DelayedTaskCheckInterval: 100 * time.Millisecond,
		ShutdownTimeout: time.Second, Logger: silent{}, LogLevel: asynq.FatalLevel,
	})
	return h
}

// counted returns the sum of a counter over all its labels.
func (h *host) counted(t testing.TB, name string) float64 {
	t.Helper()
	families, err := h.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// work takes turns until end.
func (h *host) work(t testing.TB) {
	t.Helper()
	go h.runs.Run(h.ctx)
	if err := h.server.Start(asynq.HandlerFunc(h.process)); err != nil {
		t.Fatal(err)
	}
}

// reconcile makes passes until end.
func (h *host) reconcile() {
	r := scheduler.NewReconciler(scheduler.Config{Store: h.store, Relay: h.relay, Log: discard, Lease: turns.MinLease, Every: 50 * time.Millisecond})
	go r.Run(h.ctx)
}

func (h *host) end() {
	h.cancel()
	h.server.Shutdown()
}

func (h *host) handler(ctx context.Context) *handlers.Handler {
	queue, _ := asynq.GetQueueName(ctx)
	return h.byQueue[queue]
}

func (h *host) process(ctx context.Context, task *asynq.Task) error {
	return h.handler(ctx).ProcessTask(ctx, task)
}

func (h *host) failed(ctx context.Context, task *asynq.Task, err error) {
	h.handler(ctx).HandleError(ctx, task, err)
}

// silent drops asynq's own log.
type silent struct{}

func (silent) Debug(...any) {}
func (silent) Info(...any)  {}
func (silent) Warn(...any)  {}
func (silent) Error(...any) {}
func (silent) Fatal(...any) {}

// scratchDir is a folder that may be in use by abandoned goroutines at the end.
func scratchDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rota-host-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "workspaces")
}

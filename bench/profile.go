package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"rota/agents/scripted"
	"rota/commands"
	"rota/credentials"
	"rota/handlers"
	"rota/internal/config"
	"rota/internal/metrics"
	"rota/internal/redistest"
	"rota/pairs"
	"rota/scheduler"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
	"rota/workspaces"
)

// profileRun is where the time of one turn goes: a handler in this process, called
// without asynq's server, one turn after the other. CPU times do not depend on
// what else the machine does.
type profileRun struct {
	Turns     int     `json:"turns"`
	Trips     float64 `json:"round_trips_per_turn"`
	ClientCPU float64 `json:"client_cpu_us_per_turn"`
	StoreCPU  float64 `json:"store_cpu_us_per_turn"`
	Commands  float64 `json:"redis_commands_per_turn"`
	Calls     string  `json:"redis_calls"`
	ByClient  string  `json:"asked_by_client"`
}

// measureProfile plays rounds in one process and one after the other.
func measureProfile(ctx context.Context, b *bench) error {
	h, err := openRedis(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	h.mode = together
	stage, err := newStage(ctx, h)
	if err != nil {
		return err
	}
	defer stage.rdb.Close()
	const rounds = 1500
	if err := stage.play(ctx, 0, 100); err != nil {
		return err
	}
	if b.pprof != "" {
		f, err := os.Create(b.pprof)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	stage.counter.Reset()
	before, err := h.commandTimes(ctx)
	if err != nil {
		return err
	}
	client, server := selfCPU(), serverCPU(ctx, stage.rdb)
	if err := stage.play(ctx, 100, 100+rounds); err != nil {
		return err
	}
	n := float64(rounds * steps)
	r := profileRun{Turns: rounds * steps, Trips: float64(stage.counter.RoundTrips()) / n,
		ClientCPU: float64((selfCPU() - client).Nanoseconds()) / 1000 / n, StoreCPU: (serverCPU(ctx, stage.rdb) - server) / n,
		ByClient: fmt.Sprint(stage.counter.ByName())}
	after, err := h.commandTimes(ctx)
	if err != nil {
		return err
	}
	r.Commands, _, r.Calls = after.since(before).perTurn(n)
	fmt.Fprintf(os.Stderr, "  %+v\n", r)
	b.report.Profile = append(b.report.Profile, r)
	return nil
}

// serverCPU is the CPU time of a Redis server so far, in µs.
func serverCPU(ctx context.Context, rdb redis.UniversalClient) float64 {
	text, err := rdb.Info(ctx, "cpu").Result()
	if err != nil {
		return 0
	}
	sum := 0.0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			v, _ := strconv.ParseFloat(value, 64)
			sum += v
		}
	}
	return sum * 1e6
}

// stage is a handler with all that it needs, in this process.
type stage struct {
	rdb      redis.UniversalClient
	counter  *redistest.Counter
	handler  *handlers.Handler
	commands *commands.Commands
	queue    []turns.OutboxEntry
}

func newStage(ctx context.Context, h *house) (*stage, error) {
	file, err := rotaConfig(h)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(file, config.Flags{})
	if err != nil {
		return nil, err
	}
	rdb, err := config.RedisClient(cfg.Redis)
	if err != nil {
		return nil, err
	}
	st := &stage{rdb: rdb, counter: &redistest.Counter{}}
	rdb.AddHook(st.counter)
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan, Crew: cfg.Crew(), Rules: cfg.Rules()})
	if err != nil {
		return nil, err
	}
	log := slog.New(slog.NewJSONHandler(nowhere{}, nil))
	script, err := scripted.Parse("")
	if err != nil {
		return nil, err
	}
	logins, err := credentials.New(rdb, credentials.Config{Services: map[string]credentials.Service{both: {Agent: "scripted"}}})
	if err != nil {
		return nil, err
	}
	relay := scheduler.NewRelay(s, log, nil)
	hand := func(ctx context.Context, e turns.OutboxEntry) error {
		if e.Attempt != "" {
			st.queue = append(st.queue, e)
		}
		return relay.Hand(ctx, e)
	}
	st.commands = &commands.Commands{Store: s, Hand: hand}
	st.handler = &handlers.Handler{Service: both, Worker: "bench", Agent: scripted.New(script, both), ReadOnly: true, Structured: true,
		Store: s, Hand: hand, Runs: handlers.NewRuns(s, log), Workspaces: &workspaces.Workspaces{Dir: h.fast},
		Credentials: logins, Log: log, Metrics: metrics.New(prometheus.NewRegistry())}
	return st, nil
}

// nowhere is written to, so that lines are made, and keeps nothing.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// play opens rounds, with the counter off, and carries out their turns.
func (s *stage) play(ctx context.Context, from, to int) error {
	for n := from; n < to; n++ {
		if _, err := s.commands.Task(ctx, commands.TaskAsk{Key: "bench", Thread: thread(n), Text: "do the work"}); err != nil {
			return err
		}
		for len(s.queue) > 0 {
			e := s.queue[0]
			s.queue = s.queue[1:]
			if err := s.handler.ProcessTask(ctx, asynq.NewTask(string(tasks.TurnStart), tasks.PayloadOf(e).Encode())); err != nil {
				return err
			}
		}
	}
	return nil
}

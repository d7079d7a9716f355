package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"rota/handlers"
	"rota/internal/config"
	"rota/internal/presence"
	"rota/pairs"
	"rota/scheduler"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// served is one service of a worker: an asynq server on the service's queue, and
// one on its control queue.
type served struct {
	name    string
	handler *handlers.Handler
	server  *asynq.Server
	mux     *asynq.ServeMux
	pickup  *tasks.Pickup
	control *control
}

func (w *worker) newServed(name string) (*served, error) {
	service, err := w.cfg.Service(name)
	if err != nil {
		return nil, err
	}
	b, err := buildAgent(name, service)
	if err != nil {
		return nil, err
	}
	_, longest := leases(w.cfg)
	h := &handlers.Handler{
		Service: name, Worker: w.name, Agent: b.agent, ReadOnly: b.readOnly, Structured: b.structured,
		Store: w.store, Hand: w.relay.Hand, Runs: w.runs, Workspaces: w.places, Credentials: w.logins, Prompts: w.cfg.Prompts, Lease: longest,
		Served:    func(ctx context.Context, s string) (bool, error) { return presence.Served(ctx, w.rdb, s) },
		LoginBack: w.loginBack, Ended: w.ended, Log: w.log, Metrics: w.metrics,
	}
	if b.process {
		h.GiveBack = func(r store.Run) []byte { return giveBackOf(w.cfg, name, r) }
		h.Deployment = deployment(w.cfg.Redis)
	}
	if err := tasks.Check(tasks.TurnStart, tasks.TurnRestart); err != nil {
		return nil, err
	}
	mux := asynq.NewServeMux()
	mux.Handle(string(tasks.TurnStart), h)
	mux.Handle(string(tasks.TurnRestart), h)

	// asynq's server gets a client of its own, so that the hook holds nobody else.
	client, err := config.RedisClient(w.cfg.Redis)
	if err != nil {
		return nil, err
	}
	pickup := tasks.NewPickup(tasks.Queue(name), 0)
	client.AddHook(pickup)
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: service.Concurrency, Queues: map[string]int{tasks.Queue(name): 1},
		ErrorHandler: h, IsFailure: handlers.IsFailure, RetryDelayFunc: handlers.RetryDelay,
		TaskCheckInterval: tasks.CheckInterval, DelayedTaskCheckInterval: tasks.ForwardInterval,
		ShutdownTimeout: w.grace() + killTime, Logger: asynqLog{w.log.With("service", name)}, LogLevel: asynq.WarnLevel,
	})
	c, err := w.newControl(name, client)
	if err != nil {
		return nil, err
	}
	return &served{name: name, handler: h, server: server, mux: mux, pickup: pickup, control: c}, nil
}

// asynqLog passes asynq's own log lines on.
type asynqLog struct{ log *slog.Logger }

func (l asynqLog) Debug(args ...any) { l.log.Debug("asynq", "text", fmt.Sprint(args...)) }
func (l asynqLog) Info(args ...any)  { l.log.Debug("asynq", "text", fmt.Sprint(args...)) }
func (l asynqLog) Warn(args ...any)  { l.log.Warn("asynq", "text", fmt.Sprint(args...)) }
func (l asynqLog) Error(args ...any) { l.log.Warn("asynq", "text", fmt.Sprint(args...)) }
func (l asynqLog) Fatal(args ...any) { l.log.Error("asynq", "text", fmt.Sprint(args...)) }

// lifeline is what a guard needs to give its run back when its worker is dead. It
// travels over a pipe, never in arguments or the environment.
type lifeline struct {
	Redis   string `json:"redis"`
	Thread  string `json:"thread"`
	Turn    string `json:"turn"`
	Attempt string `json:"attempt"`
	Run     string `json:"run"`
	Fence   int64  `json:"fence"`
	Service string `json:"service"`
	// Escalate is run when the loss was the turn's last.
	Escalate []string `json:"escalate,omitempty"`
	// Retention is that of a turn which the loss ends.
	Retention time.Duration `json:"retention,omitempty"`
}

func giveBackOf(cfg config.Config, service string, r store.Run) []byte {
	b, err := json.Marshal(lifeline{cfg.Redis, r.Thread, r.Turn, r.Attempt, r.ID, r.Fence, service, cfg.Escalate, cfg.Retention()})
	if err != nil {
		panic("worker: " + err.Error())
	}
	return b
}

// giveBack is the guard's last act: the agent's tree is gone, its worker is dead
// or silent, and the turn goes on at once.
func giveBack(ctx context.Context, raw json.RawMessage) error {
	var l lifeline
	if err := json.Unmarshal(raw, &l); err != nil {
		return err
	}
	rdb, err := config.RedisClient(l.Redis)
	if err != nil {
		return err
	}
	defer rdb.Close()
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan, Retention: l.Retention})
	if err != nil {
		return err
	}
	next, ended, err := s.LoseOrEnd(ctx, turns.Attempt{
		ID: l.Attempt, Turn: l.Turn, Service: l.Service, Run: l.Run, Fence: l.Fence,
	}, true, "given back by its guard")
	relay := scheduler.NewRelay(s, slog.New(slog.DiscardHandler), nil)
	if store.Refused(err) {
		return letGo(ctx, s, relay, store.Run{Thread: l.Thread, Turn: l.Turn, Attempt: l.Attempt, ID: l.Run, Fence: l.Fence})
	}
	if err != nil {
		return err
	}
	if ended != nil && !ended.Already && ended.Plan.Moved && ended.Plan.Paired.Status == turns.NeedsHuman {
		// Nobody hears of its failure; the paired task is listed all the same.
		_ = escalate(l.Escalate, l.Turn, ended.Plan.Paired)
	}
	return relay.Hand(ctx, next)
}

// letGo ends the hold of a run that a person ended before its worker died: the
// tree is gone, and who waits for the thread need not wait for the hold's end.
func letGo(ctx context.Context, s *store.Store, relay *scheduler.Relay, run store.Run) error {
	waiter, err := s.Release(ctx, run)
	if err != nil || waiter == "" {
		return err
	}
	w, err := s.Waiter(ctx, waiter)
	if err != nil || w.State != turns.Queued {
		return err
	}
	return relay.Hand(ctx, w.Entry)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/redis/go-redis/v9"

	"rota/agents/guard"
	"rota/commands"
	"rota/credentials"
	"rota/handlers"
	"rota/internal/config"
	"rota/internal/metrics"
	"rota/internal/presence"
	"rota/internal/tracing"
	"rota/pairs"
	"rota/scheduler"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
	"rota/workspaces"
)

type workerOptions struct {
	services     []string
	name         string
	admin        bool
	token        string
	http         string
	httpExplicit bool
	log          *slog.Logger
	every        time.Duration // between two passes; 0 for the default
}

// worker is one process: handlers for its services, the relay, the reconciler and
// the HTTP side over one store.
type worker struct {
	cfg        config.Config
	options    workerOptions
	name       string
	log        *slog.Logger
	rdb        redis.UniversalClient
	store      *store.Store
	relay      *scheduler.Relay
	runs       *handlers.Runs
	logins     *credentials.Credentials
	places     *workspaces.Workspaces
	commands   *commands.Commands
	registry   *prometheus.Registry
	metrics    *metrics.Set
	served     []*served
	escalating sync.WaitGroup // commands that ask people
	httpAddr   string
	ready      chan struct{} // closed when every server pulls
	draining   atomic.Bool
}

func newWorker(ctx context.Context, cfg config.Config, o workerOptions) (*worker, error) {
	w := &worker{cfg: cfg, options: o, name: o.name, log: o.log, ready: make(chan struct{})}
	if w.name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "worker"
		}
		w.name = fmt.Sprintf("%s:%d", host, os.Getpid())
	}
	w.registry = prometheus.NewRegistry()
	w.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	w.metrics = metrics.New(w.registry)

	var err error
	if w.rdb, err = config.RedisClient(cfg.Redis); err != nil {
		return nil, &codedError{exitConfig, err, ""}
	}
	if err := w.open(ctx); err != nil {
		w.rdb.Close()
		return nil, err
	}
	for _, name := range o.services {
		s, err := w.newServed(name)
		if err != nil {
			w.rdb.Close()
			return nil, &codedError{exitConfig, fmt.Errorf("service %s: %w", name, err), ""}
		}
		w.served = append(w.served, s)
	}
	return w, nil
}

// open agrees with the store and builds what hangs on it.
func (w *worker) open(ctx context.Context) error {
	if err := reachable(ctx, w.rdb); err != nil {
		return unreached(w.cfg.Redis, err, "is it running? worker --embedded brings its own")
	}
	var err error
	w.store, err = store.Open(ctx, w.rdb, store.Options{
		Shards: w.cfg.Shards, Plan: pairs.Plan, Crew: w.cfg.Crew(), Rules: w.cfg.Rules(), Retention: w.cfg.Retention(), Rejected: w.metrics.Rejected,
		Trace: tracing.Parent,
	})
	if err != nil {
		return &codedError{exitConfig, err, "worker doctor says what to do"}
	}
	w.relay = scheduler.NewRelay(w.store, w.log, w.metrics)
	w.relay.Ended = w.ended
	w.runs = handlers.NewRuns(w.store, w.log)
	w.places = &workspaces.Workspaces{Dir: w.cfg.Workspaces}
	w.logins, err = credentials.New(w.rdb, loginConfig(w.cfg))
	if err != nil {
		return &codedError{exitConfig, err, ""}
	}
	controls := tasks.NewControls(w.rdb)
	w.commands = &commands.Commands{
		Store: w.store, Hand: w.relay.Hand, Order: controls.Order, Room: scheduler.Room(w.rdb, w.cfg.Bounds()),
		Hurry: func(ctx context.Context, a turns.Attempt, ask store.Ask) error {
			return controls.Hurry(ctx, a, ask.Kind, ask.ID)
		},
	}
	return nil
}

func loginConfig(cfg config.Config) credentials.Config {
	c := credentials.Config{Services: map[string]credentials.Service{}, Credentials: map[string]credentials.Source{}}
	for name, s := range cfg.Services {
		c.Services[name] = credentials.Service{
			Agent: s.Agent, Model: s.Model, Host: s.Host, SignIn: s.SignInDir(), Credentials: s.Credentials,
		}
	}
	for id, s := range cfg.Credentials {
		c.Credentials[id] = credentials.Source{
			Env: s.Env, File: s.File, Command: s.Command, Variable: s.Variable, Organisation: s.Organisation,
		}
	}
	return c
}

// run works until ctx ends, then drains: nothing new is taken, runs may finish
// within the grace, and what is left is given back without counting a failure.
func (w *worker) run(ctx context.Context) error {
	defer w.rdb.Close()
	if n, err := guard.SweepLeftovers(ctx, deployment(w.cfg.Redis)); err != nil {
		w.log.Warn("left-over agents not swept", "err", err)
	} else if n > 0 {
		w.log.Warn("left-over agents of an earlier worker were ended", "count", n)
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	start := w.starter(background, &group)
	server, err := w.listen()
	if err != nil {
		return &codedError{exitError, err, "choose another address with --http"}
	}
	start("reconciler", w.reconciler().Run)
	if server != nil {
		start("http", server)
	}
	if err := w.serve(start); err != nil {
		return err
	}
	close(w.ready)
	start("systemd", w.notify)
	<-ctx.Done()
	stopping()
	w.drain()
	return nil
}

// serve begins to carry out the turns of the worker's services.
func (w *worker) serve(start func(name string, run func(context.Context) error)) error {
	start("renewals", w.runs.Run)
	start("presence", w.announce)
	start("wake-ups", w.hear)
	start("logins", w.watchLogins)
	for _, s := range w.served {
		err := s.server.Start(s.mux)
		if err == nil {
			err = s.control.server.Start(s.control.mux)
		}
		if err != nil {
			return &codedError{exitError, fmt.Errorf("service %s: %w", s.name, err), ""}
		}
		w.log.Info("service served", "service", s.name, "agent", s.handler.Agent.Kind(), "worker", w.name, "redis", redisName(w.cfg.Redis))
	}
	return nil
}

// drain stops taking, lets runs finish within the grace and gives the rest back.
func (w *worker) drain() {
	w.draining.Store(true)
	grace := w.grace()
	w.log.Info("draining", "runs", w.runs.Len(), "grace", grace)
	w.runs.Drain()
	for _, s := range w.served {
		s.pickup.Stop()
		s.server.Stop()
	}
	bound, cancel := context.WithTimeout(context.Background(), grace)
	err := w.runs.Wait(bound)
	cancel()
	if err != nil {
		w.log.Warn("grace is over: runs are given back", "runs", w.runs.Len())
		w.runs.Stop()
		bound, cancel = context.WithTimeout(context.Background(), killTime)
		defer cancel()
		if err := w.runs.Wait(bound); err != nil {
			w.log.Error("runs did not end: their leases decide", "runs", w.runs.Len())
		}
	}
	for _, s := range w.served {
		s.server.Shutdown()
		s.control.pickup.Stop()
		s.control.server.Shutdown()
		if err := presence.Leave(context.Background(), w.rdb, s.name, w.name); err != nil {
			w.log.Debug("presence not taken back", "err", err)
		}
	}
	w.escalating.Wait()
	w.log.Info("stopped")
}

// killTime is how long the agents' trees and the last writes may take.
const killTime = 30 * time.Second

func (w *worker) grace() time.Duration {
	longest := time.Duration(0)
	for _, role := range turns.Roles {
		longest = max(longest, w.cfg.LimitsFor(role).Grace)
	}
	return longest
}

func (w *worker) reconciler() *scheduler.Reconciler {
	shortest, longest := leases(w.cfg)
	return scheduler.NewReconciler(scheduler.Config{
		Store: w.store, Relay: w.relay, Log: w.log, Metrics: w.metrics, Every: w.options.every, Lease: longest, Shortest: shortest,
		Services: w.cfg.ServiceNames(),
		Fire: func(ctx context.Context, id string) error {
			_, err := w.commands.Fire(ctx, id)
			return err
		},
		Retired: w.retired, Ended: w.ended,
	})
}

// leases returns the shortest and the longest lease of any role.
func leases(cfg config.Config) (shortest, longest time.Duration) {
	for _, role := range turns.Roles {
		l := cfg.LimitsFor(role).Lease
		longest = max(longest, l)
		if shortest == 0 || l < shortest {
			shortest = l
		}
	}
	return shortest, longest
}

// announce says which services this worker serves until ctx ends.
func (w *worker) announce(ctx context.Context) error {
	tick := time.NewTicker(presence.Life / 3)
	defer tick.Stop()
	for {
		for _, s := range w.served {
			if err := presence.Announce(ctx, w.rdb, s.name, w.name); err != nil && ctx.Err() == nil {
				w.log.Debug("not announced", "service", s.name, "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// hear acts on what is published for this worker: that a queue has something new,
// and that a person's request was stored. A lost message only delays: until the next
// look at the queue, and until the next renewal.
func (w *worker) hear(ctx context.Context) error {
	heard := map[string]func(){tasks.HurryChannel: w.runs.Kick}
	for _, s := range w.served {
		heard[tasks.WakeChannel(tasks.Queue(s.name))] = s.pickup.Wake
		heard[tasks.WakeChannel(tasks.ControlQueue(s.name))] = s.control.pickup.Wake
	}
	return tasks.Listen(ctx, w.rdb, heard)
}

// watchLogins makes waiting attempts due when a login has changed.
func (w *worker) watchLogins(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		changed, err := w.logins.Changed(ctx)
		if err != nil && ctx.Err() == nil {
			w.log.Debug("logins not looked at", "err", err)
		}
		for _, id := range changed {
			w.loginBack(ctx, w.logins.ServicesOf(id))
		}
	}
}

func (w *worker) loginBack(ctx context.Context, services []string) {
	n, err := scheduler.WakeWaiting(ctx, w.store, w.relay, services)
	if err != nil {
		w.log.Warn("waiting attempts not woken: their due time brings them", "services", services, "err", err)
		return
	}
	if n > 0 {
		w.log.Info("a login is back: waiting attempts are due", "services", services, "count", n)
	}
}

// starter returns what begins a part of the worker in the background. One that ends
// by itself is logged.
func (w *worker) starter(ctx context.Context, group *sync.WaitGroup) func(name string, run func(context.Context) error) {
	return func(name string, run func(context.Context) error) {
		group.Go(func() {
			if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				w.log.Error(name+" ended", "err", err)
			}
		})
	}
}

package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"rota/commands"
	"rota/credentials"
	"rota/internal/config"
	"rota/internal/presence"
	"rota/pairs"
	"rota/scheduler"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

//go:embed chaos/rota.yaml chaos/play.jsonl
var chaosFiles embed.FS

const (
	// chaosTasks is how many paired tasks are at work at a time.
	chaosTasks = 6
	// chaosPatience bounds the time until everything has ended without faults.
	chaosPatience = 2 * time.Minute
)

func (p *Program) chaosCommand(f *flags) *cobra.Command {
	var minutes float64
	var seed uint64
	c := &cobra.Command{
		Use:   "chaos",
		Short: "faults on purpose, beside your own work: kills, doubled and lost deliveries",
		Long: `chaos gives paired tasks with scripted agents to your own Redis, kills and stops the
workers it started for them, doubles and deletes their deliveries, and looks whether
every promise held. Its threads are named chaos-RUN-N, its services chaos-owner,
chaos-critic and chaos-spare; it disturbs nothing else, and Redis itself least of all.
It removes what it brought, prints a report, and exits with 1 when a promise was broken.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !(minutes > 0 && minutes <= 24*60) {
				return &codedError{exitUsage, fmt.Errorf("--minutes %v is not above 0 and at most a day", minutes), "--minutes 0.5 is half a minute"}
			}
			return p.chaos(cmd.Context(), *f, seed, time.Duration(minutes*float64(time.Minute)))
		},
	}
	c.Flags().Float64Var(&minutes, "minutes", 5, "how long faults are made; fractions are fine")
	c.Flags().Uint64Var(&seed, "seed", 1, "chooses the faults")
	c.AddCommand(p.chaosWorkCommand(f))
	return c
}

// campaign is a running chaos.
type campaign struct {
	ctx       context.Context
	out       io.Writer
	folder    string
	run       string // part of its threads' names
	cfg       config.Config
	rdb       redis.UniversalClient
	store     *store.Store
	relay     *scheduler.Relay
	commands  *commands.Commands
	logins    *credentials.Credentials
	client    *asynq.Client
	inspector *asynq.Inspector
	random    *rand.Rand
	workers   []*actor
	names     []string // of all worker processes so far
	threads   []string
	struck    map[string]time.Time // when the worker of an attempt was killed, by Redis' clock
	report    report
}

func (p *Program) chaos(ctx context.Context, f flags, seed uint64, length time.Duration) error {
	own, err := p.load(f)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "rota-chaos-")
	if err != nil {
		return &codedError{exitError, err, ""}
	}
	defer os.RemoveAll(folder)
	log := slog.New(slog.DiscardHandler)
	if f.logs != "" {
		log = p.logger(f)
	}
	c := &campaign{
		ctx: ctx, out: p.stdout, folder: folder, run: turns.NewToken()[:6], struck: map[string]time.Time{}, random: rand.New(rand.NewPCG(seed, 2)),
		report: report{Seed: seed, Length: length, Counts: map[string]int{}},
	}
	if err := c.open(own, log); err != nil {
		return err
	}
	defer c.rdb.Close()
	if err := c.free(own); err != nil {
		return err
	}
	shortest, longest := leases(own)
	pass := scheduler.NewReconciler(scheduler.Config{Store: c.store, Relay: c.relay, Log: log, Lease: longest, Shortest: shortest, Only: c.mine})
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		_ = pass.Run(background)
	}()
	err = c.play(length)
	stop()
	<-passed
	if cleared := c.clear(); cleared != nil {
		err = errors.Join(err, cleared)
	}
	if err != nil {
		return &codedError{exitError, fmt.Errorf("chaos: %w", err), ""}
	}
	c.report.write(c.out)
	if len(c.report.Violations) > 0 {
		return &codedError{exitError, fmt.Errorf("chaos: %d violations with seed %d", len(c.report.Violations), seed), ""}
	}
	return nil
}

// open connects to the deployment's Redis with a crew of its own.
func (c *campaign) open(own config.Config, log *slog.Logger) (err error) {
	file := filepath.Join(c.folder, "rota.yaml")
	for _, name := range []string{"rota.yaml", "play.jsonl"} {
		text, err := chaosFiles.ReadFile("chaos/" + name)
		if err != nil {
			return &codedError{exitError, err, ""}
		}
		if name == "rota.yaml" {
			text = fmt.Appendf(text, "shards: %d\n", own.Shards)
		}
		if err := os.WriteFile(filepath.Join(c.folder, name), text, 0o600); err != nil {
			return &codedError{exitError, err, ""}
		}
	}
	if c.cfg, err = config.Load(file, config.Flags{Data: c.folder}); err != nil {
		return &codedError{exitError, err, ""}
	}
	c.cfg.Redis = own.Redis
	if c.rdb, err = config.RedisClient(own.Redis); err != nil {
		return &codedError{exitConfig, err, ""}
	}
	if err = reachable(c.ctx, c.rdb); err != nil {
		c.rdb.Close()
		return unreached(own.Redis, err, "chaos needs the Redis of your deployment: --redis or --config")
	}
	c.store, err = store.Open(c.ctx, c.rdb, store.Options{
		Shards: c.cfg.Shards, Plan: pairs.Plan, Crew: c.cfg.Crew(), Rules: c.cfg.Rules(), Retention: c.cfg.Retention(),
	})
	if err == nil {
		c.logins, err = credentials.New(c.rdb, loginConfig(c.cfg))
	}
	if err != nil {
		c.rdb.Close()
		return &codedError{exitConfig, err, "name the deployment's configuration with --config"}
	}
	c.relay = scheduler.NewRelay(c.store, log, nil)
	c.client, c.inspector = asynq.NewClientFromRedisClient(c.rdb), asynq.NewInspectorFromRedisClient(c.rdb)
	c.commands = &commands.Commands{Store: c.store, Hand: c.relay.Hand, Hurry: func(ctx context.Context, a turns.Attempt, _ store.Ask) error {
		return tasks.Hurry(ctx, c.rdb, a.ID)
	}}
	return nil
}

// free refuses when somebody else uses the names of the campaign's services.
func (c *campaign) free(own config.Config) error {
	for _, name := range c.cfg.ServiceNames() {
		if _, taken := own.Services[name]; taken {
			return &codedError{exitConfig, fmt.Errorf("chaos: your configuration has a service %s", name), "chaos needs that name for itself"}
		}
		served, err := presence.Served(c.ctx, c.rdb, name)
		if err != nil {
			return &codedError{exitUnavailable, err, ""}
		}
		if served {
			return &codedError{exitError, fmt.Errorf("chaos: another campaign serves %s", name), "wait for its end"}
		}
	}
	return nil
}

// mine reports whether a thread belongs to this campaign.
func (c *campaign) mine(thread string) bool { return strings.HasPrefix(thread, "chaos-"+c.run+"-") }

// play makes faults until the time is over, ends them, and judges.
func (c *campaign) play(length time.Duration) error {
	defer c.killAll()
	for _, service := range []string{"chaos-owner", "chaos-owner", "chaos-critic", "chaos-critic", "chaos-spare"} {
		a := &actor{service: service}
		c.workers = append(c.workers, a)
		if err := c.start(a); err != nil {
			return err
		}
	}
	var open []string
	for end := time.Now().Add(length); time.Now().Before(end) && c.ctx.Err() == nil; {
		for len(open) < chaosTasks {
			name := fmt.Sprintf("chaos-%s-%d", c.run, len(c.threads)+1)
			if _, err := c.commands.Task(c.ctx, commands.TaskAsk{Key: "task", Thread: name, Text: "work on " + name}); err != nil {
				return err
			}
			c.threads, open = append(c.threads, name), append(open, name)
		}
		if err := c.heal(false); err != nil {
			return err
		}
		c.fault(open)
		c.pause(time.Duration(100+c.random.IntN(400)) * time.Millisecond)
		open = slices.DeleteFunc(open, func(name string) bool { return c.rests(c.ctx, name) })
	}
	if err := c.awaitEnds(); err != nil {
		return err
	}
	c.stopAll()
	return c.judge()
}

func (c *campaign) pause(d time.Duration) {
	select {
	case <-c.ctx.Done():
	case <-time.After(d):
	}
}

// rests reports whether nothing is open in a thread.
func (c *campaign) rests(ctx context.Context, thread string) bool {
	t, err := c.store.Thread(ctx, thread)
	return err == nil && t.OpenTurn == ""
}

// awaitEnds waits without faults until every task has come to its end.
func (c *campaign) awaitEnds() error {
	began := time.Now()
	for open := slices.Clone(c.threads); ; {
		if err := c.heal(true); err != nil {
			return err
		}
		if open = slices.DeleteFunc(open, func(name string) bool { return c.rests(c.ctx, name) }); len(open) == 0 {
			c.report.Settled = time.Since(began)
			return c.ctx.Err()
		}
		if time.Since(began) > chaosPatience || c.ctx.Err() != nil {
			for _, name := range open {
				why, _ := c.commands.Why(c.ctx, name)
				c.report.violate("%s did not end within %s: %s", name, chaosPatience, strings.TrimSpace(why))
			}
			return c.ctx.Err()
		}
		c.pause(200 * time.Millisecond)
	}
}

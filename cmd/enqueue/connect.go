package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/config"
	"rota/internal/presence"
	"rota/internal/tracing"
	"rota/pairs"
	"rota/scheduler"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// connection is the store that the commands work on.
type connection struct {
	config    config.Config
	rdb       redis.UniversalClient
	store     *store.Store
	relay     *scheduler.Relay
	inspector *asynq.Inspector
	commands  *commands.Commands
	embedded  bool
}

func (m *Main) close() {
	if m.conn != nil {
		_ = m.conn.rdb.Close()
	}
}

func badConfig(err error) error {
	return &exit{exitUnconfigured, err.Error(), "rota.example.yaml describes every key", err}
}

// patience is how long a command waits for the store of a `worker --embedded` that
// is just starting, where nobody named a Redis.
const patience = 5 * time.Second

// dial reads the configuration and returns a client that has answered.
func (m *Main) dial(ctx context.Context) (config.Config, redis.UniversalClient, bool, error) {
	noted := false
	for deadline := time.Now().Add(patience); ; {
		cfg, rdb, embedded, err := m.dialOnce(ctx)
		e, failed := errors.AsType[*exit](err)
		if !failed || !unreachable(e.err) || cfg.RedisExplicit || m.hasty || time.Now().After(deadline) {
			return cfg, rdb, embedded, err
		}
		if !noted {
			fmt.Fprintf(m.err, "note: waiting up to %s for a `worker --embedded` that is just starting\n", patience)
			noted = true
		}
		select {
		case <-ctx.Done():
			return cfg, nil, false, err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (m *Main) dialOnce(ctx context.Context) (config.Config, redis.UniversalClient, bool, error) {
	cfg, embedded, err := config.LoadFound(m.configFile, config.Flags{Redis: m.redisURL})
	if err != nil {
		return cfg, nil, false, badConfig(err)
	}
	rdb, err := config.RedisClient(cfg.Redis)
	if err != nil {
		return cfg, nil, false, badConfig(err)
	}
	ping, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := rdb.Ping(ping).Err(); err != nil {
		_ = rdb.Close()
		if config.LoginRefused(err) {
			return cfg, nil, false, &exit{exitUnavailable, "Redis refuses the login: " + oneLine(err.Error()), config.LoginHint, err}
		}
		if config.DatabaseRefused(err) {
			return cfg, nil, false, &exit{exitUnconfigured, "Redis has no such database: " + oneLine(err.Error()), config.DatabaseHint, err}
		}
		return cfg, nil, false, &exit{exitUnavailable, "Redis is unreachable: " + oneLine(err.Error()), m.redisHint(), err}
	}
	return cfg, rdb, embedded, nil
}

// connect opens the store once.
func (m *Main) connect(ctx context.Context) (*connection, error) {
	if m.conn != nil {
		return m.conn, nil
	}
	cfg, rdb, embedded, err := m.dial(ctx)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan, Crew: cfg.Crew(), Rules: cfg.Rules(), Retention: cfg.Retention(), Trace: tracing.Parent})
	if err != nil {
		_ = rdb.Close()
		return nil, err
	}
	c := &connection{config: cfg, rdb: rdb, store: s, embedded: embedded, inspector: asynq.NewInspectorFromRedisClient(rdb),
		relay: scheduler.NewRelay(s, slog.New(slog.NewTextHandler(io.Discard, nil)), nil)}
	controls := tasks.NewControls(rdb)
	c.commands = &commands.Commands{
		Store: s, Hand: c.relay.Hand, Room: scheduler.Room(rdb, cfg.Bounds()), Order: controls.Order,
		Hurry: func(ctx context.Context, a turns.Attempt, ask store.Ask) error {
			return controls.Hurry(ctx, a, ask.Kind, ask.ID)
		},
		Workers: func(ctx context.Context, service string) ([]string, error) {
			return presence.Workers(ctx, rdb, service)
		},
		Warn: func(err error) { fmt.Fprintf(m.err, "note: %s\n", oneLine(err.Error())) },
	}
	m.conn = c
	// A read that waits for news does not hear the interrupt: its connection ends.
	context.AfterFunc(ctx, func() { _ = rdb.Close() })
	return c, nil
}

// redisHint says how to name a Redis.
func (m *Main) redisHint() string {
	if m.redisURL != "" {
		return "is it running? --redis names it"
	}
	return "start it, or name one with --redis or ROTA_REDIS; `worker --embedded` brings its own"
}

// unreachable reports whether an error is of the connection, or of a Redis that
// can't serve now.
func unreachable(err error) bool {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false // of a file, though it has the methods of a net.Error
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, redis.ErrPoolTimeout) {
		return true
	}
	for _, word := range []string{"LOADING ", "CLUSTERDOWN ", "MASTERDOWN ", "redis: all sentinels", "redis: connection"} {
		if strings.Contains(err.Error(), word) {
			return true
		}
	}
	return false
}

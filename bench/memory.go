package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"rota/turns"
	"rota/turns/store"
)

// memoryRun is what a turn costs in the store, in bytes.
type memoryRun struct {
	Peer  string  `json:"peer"`
	What  string  `json:"what"`
	Bytes float64 `json:"bytes"`
}

// measured turns.
const memoryTurns = 2000

// size is how much the store holds.
func (h *house) size(ctx context.Context) (float64, error) {
	if h.pg != "" {
		c, err := pgx.Connect(ctx, h.pg)
		if err != nil {
			return 0, err
		}
		defer c.Close(ctx)
		var n int64
		err = c.QueryRow(ctx, "select pg_database_size(current_database())").Scan(&n)
		return float64(n), err
	}
	rdb := h.client()
	defer rdb.Close()
	return usedMemory(ctx, rdb)
}

// usedMemory is the server's memory without the buffers of clients and of the
// append-only file.
func usedMemory(ctx context.Context, rdb redis.UniversalClient) (float64, error) {
	text, err := rdb.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		v, _ := strconv.ParseFloat(value, 64)
		switch name {
		case "used_memory":
			sum += v
		case "mem_clients_normal", "mem_aof_buffer":
			sum -= v
		}
	}
	return sum, nil
}

// measureMemory opens rounds that nobody carries out and looks at the growth of the
// store; for rota also turns that run, without asynq's tasks.
func measureMemory(ctx context.Context, b *bench) error {
	err := b.each(ctx, b.peerList, func(p *peer) error {
		h, err := move(ctx, p, apart)
		if err != nil {
			return err
		}
		defer h.close()
		c, err := p.client(ctx, h)
		if err != nil {
			return err
		}
		defer c.close()
		return b.grow(ctx, h, p.name, "waiting", func(n int) error { return c.begin(ctx, n) })
	})
	if err != nil || !b.have(rotaPeer) {
		return err
	}
	return b.each(ctx, []*peer{rotaPeer}, func(p *peer) error {
		h, err := move(ctx, p, apart)
		if err != nil {
			return err
		}
		defer h.close()
		c, err := openRota(ctx, h)
		if err != nil {
			return err
		}
		defer c.close()
		return b.grow(ctx, h, p.name, "running, without asynq's task", func(n int) error { return c.running(ctx, fmt.Sprintf("m%d", n)) })
	})
}

func (b *bench) grow(ctx context.Context, h *house, name, what string, open func(n int) error) error {
	for n := range 50 {
		if err := open(n); err != nil {
			return err
		}
	}
	before, err := h.size(ctx)
	if err != nil {
		return err
	}
	for n := range memoryTurns {
		if err := open(50 + n); err != nil {
			return err
		}
	}
	after, err := h.size(ctx)
	if err != nil {
		return err
	}
	r := memoryRun{name, what, (after - before) / memoryTurns}
	fmt.Fprintf(os.Stderr, "  %-12s %s: %.0f bytes\n", r.Peer, r.What, r.Bytes)
	b.report.Memory = append(b.report.Memory, r)
	return nil
}

// running opens a turn and brings it to running.
func (c *rotaClient) running(ctx context.Context, name string) error {
	o, err := c.store.OpenTurn(ctx, store.NewTurn{Command: "bench", Thread: name, Role: turns.Owner, Intent: turns.Work,
		Seat: c.store.Crew()[turns.Owner], Prompt: "do the work"})
	if err != nil {
		return err
	}
	e := o.Outbox
	a, err := c.store.Claim(ctx, store.Claim{Attempt: e.Attempt, Service: e.Service, Role: e.Role, Intent: e.Intent, Stamp: e.Stamp,
		Run: turns.NewToken(), Worker: "bench:1234", Agent: "scripted"})
	if err != nil {
		return err
	}
	if a.Answer != store.Claimed {
		return fmt.Errorf("claim %s: %s", e.Attempt, a.Answer)
	}
	return c.store.Start(ctx, a.Run, "session-of-"+name, "", "none")
}

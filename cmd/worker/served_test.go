package main

import (
	"context"
	"testing"
	"time"

	"rota/internal/config"
	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// claimed is a claimed turn, and the last act of its run's guard.
func claimed(t *testing.T, limits turns.Limits) (*store.Store, turns.OutboxEntry, func()) {
	t.Helper()
	ctx := context.Background()
	server, rdb := redistest.MiniServer(t)
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.OpenTurn(ctx, store.NewTurn{Command: "c", Thread: "fix", Role: turns.Owner, Intent: turns.Work, Prompt: "do it",
		Seat: turns.Seat{Services: []string{"codex-main"}, Limits: limits}})
	if err != nil {
		t.Fatal(err)
	}
	e := o.Outbox
	a, err := s.Claim(ctx, store.Claim{Attempt: e.Attempt, Service: e.Service, Role: e.Role, Intent: e.Intent, Stamp: e.Stamp, Run: "run-1"})
	if err != nil || a.Answer != store.Claimed {
		t.Fatal(a, err)
	}
	cfg := config.Config{Redis: "redis://" + server.Addr()}
	return s, e, func() {
		t.Helper()
		if err := giveBack(ctx, giveBackOf(cfg, e.Service, a.Run)); err != nil {
			t.Fatal(err)
		}
	}
}

// The worker is dead: the turn goes on at once.
func TestGuardGivesTheRunBack(t *testing.T) {
	t.Parallel()
	s, e, act := claimed(t, turns.Limits{})
	act()
	act() // the worker and its guard may both do it
	got, err := s.Turn(context.Background(), e.Turn)
	if err != nil || got.State != turns.Queued || got.Attempt != 2 || got.Losses != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A person ended the run, and its worker died before it could let the thread go:
// its guard does, and nobody waits for the end of the hold.
func TestGuardLetsTheThreadGo(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s, e, act := claimed(t, turns.Limits{Lease: time.Hour})
	if _, err := s.Cancel(ctx, e.Turn, "k", "enough"); err != nil {
		t.Fatal(err)
	}
	if th, err := s.Thread(ctx, "fix"); err != nil || th.Hold == 0 {
		t.Fatalf("%+v, %v: the cancel let the thread go while the agent may be alive", th, err)
	}
	act()
	if th, err := s.Thread(ctx, "fix"); err != nil || th.Hold != 0 {
		t.Errorf("%+v, %v", th, err)
	}
	if got, err := s.Turn(ctx, e.Turn); err != nil || got.State != turns.Cancelled {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestLeases(t *testing.T) {
	t.Parallel()
	cfg := config.Config{Roles: map[turns.Role]config.RoleConfig{turns.Reviewer: {Limits: config.TurnLimits{Lease: 5 * time.Minute}},
		turns.Arbiter: {Limits: config.TurnLimits{Lease: 6 * time.Second}}}}
	if shortest, longest := leases(cfg); shortest != 6*time.Second || longest != 5*time.Minute {
		t.Errorf("from %s to %s", shortest, longest)
	}
	if shortest, longest := leases(config.Config{}); shortest != turns.DefaultLimits.Lease || longest != turns.DefaultLimits.Lease {
		t.Errorf("from %s to %s", shortest, longest)
	}
}

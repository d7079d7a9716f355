package store_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

var crew = turns.Crew{
	turns.Owner:    {Services: []string{"codex-main"}},
	turns.Reviewer: {Services: []string{"claude", "codex-review"}},
	turns.Arbiter:  {Services: []string{"claude"}},
}

func open(t *testing.T, rdb redis.UniversalClient) *store.Store {
	t.Helper()
	redistest.Declared(rdb)
	s, err := store.Open(context.Background(), rdb, store.Options{Plan: pairs.Plan, Crew: crew})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func claim(t *testing.T, s *store.Store, e turns.OutboxEntry) store.Run {
	t.Helper()
	a, err := s.Claim(context.Background(), store.Claim{Attempt: e.Attempt, Service: e.Service, Role: e.Role, Intent: e.Intent, Stamp: e.Stamp, Run: turns.NewToken(), Worker: "w1", Agent: "scripted"})
	if err != nil || a.Answer != store.Claimed {
		t.Fatalf("claim %s: %+v, %v", e.Attempt, a, err)
	}
	return a.Run
}

// The main story: owner, a reviewer handed to the fallback in the same role,
// approval, finalize.
func TestPairedTaskKeepsTheRoleThroughAHandoff(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		s := open(t, rdb)
		paired := turns.Paired{ID: "fix-login#1", Thread: "fix-login", Version: 1, Status: turns.Active, Turns: 1}
		o, err := s.OpenTurn(ctx, store.NewTurn{Command: "c1", Thread: "fix-login", Role: turns.Owner, Intent: turns.Work,
			Seat: crew[turns.Owner], Prompt: "mend the login", Paired: &paired, New: true})
		if err != nil {
			t.Fatal(err)
		}
		run := claim(t, s, o.Outbox)
		if err := s.Start(ctx, run, "session-1", "", "tree-1"); err != nil {
			t.Fatal(err)
		}
		if renewed, err := s.Renew(ctx, []store.Renewal{{Run: run, Lease: turns.DefaultLimits.Lease, Progress: turns.ProgressTools}}); err != nil || !renewed[0].OK {
			t.Fatal(renewed, err)
		}
		ended, err := s.Settle(ctx, run, turns.Ending{State: turns.Completed, Outcome: turns.Done, Text: "mended", Tree: "tree-2", Session: "session-1"})
		if err != nil || ended.Outbox.Role != turns.Reviewer || ended.Outbox.Service != "claude" {
			t.Fatal(ended, err)
		}
		review := claim(t, s, ended.Outbox)
		on, err := s.Delegate(ctx, review, store.Successor{Service: "codex-review", Cause: turns.CauseHandoff, Class: turns.ClassAuth, Error: "401"})
		if err != nil || on.Outbox.Role != turns.Reviewer || on.Attempt != "fix-login/2.2" {
			t.Fatal(on, err)
		}
		if _, err := s.Settle(ctx, review, turns.Ending{State: turns.Completed, Outcome: turns.Approve}); !store.Refused(err) {
			t.Fatalf("the delegated origin could settle: %v", err)
		}
		review = claim(t, s, on.Outbox)
		if err := s.Start(ctx, review, "", "", "tree-2"); err != nil {
			t.Fatal(err)
		}
		ended, err = s.Settle(ctx, review, turns.Ending{State: turns.Completed, Outcome: turns.Approve, Text: "good"})
		if err != nil || ended.Outbox.Intent != turns.Finalize || ended.Plan.Paired.Accepted != "tree-2" {
			t.Fatal(ended, err)
		}
		final := claim(t, s, ended.Outbox)
		if err := s.Start(ctx, final, "", "", "tree-2"); err != nil {
			t.Fatal(err)
		}
		ended, err = s.Settle(ctx, final, turns.Ending{State: turns.Completed, Outcome: turns.Done, Tree: "tree-2"})
		if err != nil || ended.Next != "" {
			t.Fatal(ended, err)
		}
		p, err := s.Paired(ctx, paired.ID)
		if err != nil || p.Status != turns.PairCompleted {
			t.Fatal(p, err)
		}
		log, err := s.Log(ctx, "fix-login/2")
		if err != nil || len(log) != 6 {
			t.Fatal(log, err)
		}
	})
}

func TestCancelAndItems(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		s := open(t, rdb)
		o, err := s.OpenTurn(ctx, store.NewTurn{Command: "c1", Thread: "solo", Role: turns.Reviewer, Intent: turns.Review, Seat: crew[turns.Reviewer], Prompt: "look"})
		if err != nil {
			t.Fatal(err)
		}
		run := claim(t, s, o.Outbox)
		child, err := s.Item(ctx, run, turns.Item{ID: "i1", Kind: turns.ItemSubAgent, State: turns.ItemOpen, Turn: o.Turn, Child: "helper"})
		if err != nil || child != "solo~2" {
			t.Fatal(child, err)
		}
		if _, err := s.Item(ctx, run, turns.Item{ID: "t1", Kind: turns.ItemTool, State: turns.ItemOpen, Thread: child}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Cancel(ctx, o.Turn, "k1", "enough"); err != nil {
			t.Fatal(err)
		}
		if items, err := s.OpenItems(ctx, "solo"); err != nil || len(items) != 0 {
			t.Fatal(items, err)
		}
		if _, err := s.Cancel(ctx, o.Turn, "k2", "again"); err == nil {
			t.Fatal("cancelled twice")
		}
		if _, err := s.LookAll(ctx, store.LookOptions{Gap: 1e10, Amnesty: 3e10}); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove(ctx, "solo"); err != nil {
			t.Fatal(err)
		}
	})
}

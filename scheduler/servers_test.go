package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/scheduler"
	"rota/turns"
	"rota/turns/store"
)

// A shard's slot that moves to another node of a Cluster takes all writes along:
// nobody waits. A replica that took over may lack the last ones: for one lease
// nobody claims.
func TestMovedSlotIsNoFailover(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := redistest.StartCluster(t)
	rdb := c.Client()
	y := newYard(t, rdb, scheduler.Config{Lease: time.Hour})
	moved, lost := y.open(t, "moved"), y.open(t, "lost")
	clock := func(o store.Opened) string { return store.ClockKey(y.store.ShardOf(turns.ThreadOf(o.Turn))) }

	// seen passes until the passes know that the shard is on the server.
	seen := func(key string, on *redistest.Server) {
		t.Helper()
		_, id, _ := strings.Cut(on.Client().Info(ctx, "server").Val(), "run_id:")
		id, _, _ = strings.Cut(id, "\r\n")
		var err error
		for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if _, err = y.pass.Pass(ctx); err == nil && rdb.HGet(ctx, key, "redis").Val() == id {
				return
			}
		}
		t.Fatalf("no pass has seen %s on %s: %v", key, on.Addr, err)
	}
	claim := func(o store.Opened) store.Answer {
		t.Helper()
		a, err := y.store.Claim(ctx, store.Claim{Attempt: o.Attempt, Service: o.Outbox.Service, Role: turns.Reviewer, Intent: turns.Review,
			Stamp: o.Outbox.Stamp, Run: turns.NewToken(), Worker: "one", Agent: "scripted"})
		if err != nil {
			t.Fatal(err)
		}
		return a.Answer
	}

	seen(clock(moved), c.Owner(clock(moved)))
	seen(clock(moved), c.MoveSlot(clock(moved)))
	if got := claim(moved); got != store.Claimed {
		t.Errorf("after its slot moved: %s", got)
	}
	seen(clock(lost), c.Owner(clock(lost)))
	c.Failover(clock(lost))
	seen(clock(lost), c.Owner(clock(lost)))
	if got := claim(lost); got != store.Held {
		t.Errorf("after a failover: %s", got)
	}
	if amnesty := rdb.HGet(ctx, clock(lost), "amnesty").Val(); amnesty == "0" {
		t.Error("no amnesty after a failover: " + fmt.Sprint(rdb.HGetAll(ctx, clock(lost)).Val()))
	}
}

// One master of a Cluster is gone for good, with nobody to take over: the shards of
// the others are looked after all the same.
func TestDeadShardLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := redistest.StartCluster(t, redistest.Config("cluster-require-full-coverage", "no"), redistest.Config("cluster-replica-no-failover", "yes"))
	y := newYard(t, c.Client(), scheduler.Config{Lease: 30 * time.Second})
	y.mustPass(t)
	owner := func(o store.Opened) *redistest.Server {
		return c.Owner(store.ClockKey(y.store.ShardOf(turns.ThreadOf(o.Turn))))
	}
	// What asynq needs for an enqueue is on masters that stay.
	list, queue := c.Owner("asynq:queues"), c.Owner("asynq:{claude}:pending")
	var here, there store.Opened
	for i := 0; here.Turn == "" || there.Turn == ""; i++ {
		switch o := y.open(t, fmt.Sprintf("t%d", i)); owner(o) {
		case queue:
			here = o
		case list:
		default:
			there = o
		}
	}
	owner(there).Kill9()
	found := map[string]bool{}
	var problems []error
	for end := time.Now().Add(90 * time.Second); !found[here.Attempt] || len(problems) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("handed over %v, problems %v", found, problems)
		}
		r, err := y.pass.Pass(ctx)
		if err != nil {
			t.Fatal("a pass gave up: ", err)
		}
		problems = append(problems, r.Problems...)
		if _, err := y.inspector.GetTaskInfo("claude", here.Attempt); err == nil {
			found[here.Attempt] = true
		}
	}
	if found[there.Attempt] {
		t.Error("an attempt of the dead shard was handed over")
	}
}

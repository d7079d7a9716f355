package tasks_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/tasks"
	"rota/turns"
)

// The wake-up goes with the enqueue: one wait for an answer, also when the server
// has forgotten asynq's script, and none for a task that is taken.
func TestEnqueueWakes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		sub := rdb.Subscribe(ctx, tasks.WakeChannel("claude"))
		defer sub.Close()
		if _, err := sub.Receive(ctx); err != nil {
			t.Fatal(err)
		}
		woken := func() {
			t.Helper()
			select {
			case <-sub.Channel():
			case <-time.After(60 * time.Second):
				t.Fatal("no wake-up")
			}
		}
		var counter redistest.Counter
		client := asynq.NewClientFromRedisClient(tasks.Waking(rdb))
		enqueue := func(number string) error {
			return tasks.Enqueue(ctx, client, turns.OutboxEntry{Thread: "fix", Turn: "fix/" + number, Attempt: "fix/" + number + ".1",
				Role: turns.Owner, Intent: turns.Work, Service: "claude", Stamp: "s"}, 0, nil)
		}
		if err := enqueue("1"); err != nil {
			t.Fatal(err)
		}
		woken()
		rdb.AddHook(&counter)
		if err := enqueue("2"); err != nil {
			t.Fatal(err)
		}
		woken()
		if n := counter.RoundTrips(); n != 1 {
			t.Errorf("%d round trips: asynq's enqueue was not recognised, workers are woken by their polling alone", n)
		}
		if err := enqueue("2"); err != tasks.ErrTaken {
			t.Errorf("enqueued twice: %v", err)
		}
		if err := rdb.ScriptFlush(ctx).Err(); err != nil {
			t.Fatal(err)
		}
		if err := enqueue("3"); err != nil {
			t.Fatal(err)
		}
		woken()
	})
}

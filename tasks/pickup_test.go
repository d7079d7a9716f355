package tasks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"rota/internal/redistest"
	"rota/tasks"
	"rota/turns"
)

// An idle server of asynq is woken by the enqueue alone, hears at once of a retry of
// its own, and asks once a second what is due, however often asynq looks.
func TestPickup(t *testing.T) {
	redis := redistest.Start(t)
	client := redis.Client()
	p := tasks.NewPickup("claude", time.Hour) // no polling can be mistaken for a wake-up
	var counter redistest.Counter
	client.AddHook(p)
	client.AddHook(&counter)
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Queues: map[string]int{"claude": 1}, TaskCheckInterval: 5 * time.Millisecond, DelayedTaskCheckInterval: 5 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 }, LogLevel: asynq.FatalLevel,
	})
	deliveries := make(chan string, 10)
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		deliveries <- id
		if n, _ := asynq.GetRetryCount(ctx); n == 0 {
			return errors.New("once more")
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	defer p.Stop()
	go func() { _ = p.Listen(t.Context(), redis.Client()) }()
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(60 * time.Second); !holds(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("waited in vain for %s: asynq's calls were not recognised", what)
			}
		}
	}
	until("a held dequeue", func() bool { return p.Waits() > 0 })
	until("a listener", func() bool {
		n, err := redis.Client().PubSubNumSub(t.Context(), tasks.WakeChannel("claude")).Result()
		return err == nil && n[tasks.WakeChannel("claude")] == 1
	})
	err := tasks.Enqueue(t.Context(), asynq.NewClientFromRedisClient(tasks.Waking(redis.Client())), turns.OutboxEntry{Thread: "fix", Turn: "fix/1",
		Attempt: "fix/1.1", Role: turns.Owner, Intent: turns.Work, Service: "claude", Stamp: "s"}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, delivery := range []string{"first", "second"} {
		select {
		case <-deliveries:
		case <-time.After(60 * time.Second):
			t.Fatalf("no %s delivery", delivery)
		}
	}
	counter.Reset()
	before := p.Spared()
	until("spared questions", func() bool { return p.Spared() >= before+150 })
	if asked := counter.RoundTrips(); asked > 40 {
		t.Errorf("%d questions while 150 were spared", asked)
	}
}

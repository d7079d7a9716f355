package tasks_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/tasks"
	"rota/turns"
)

// An idle server of asynq is woken by the enqueue alone, hears at once of a retry of
// its own, and is held from asking what is known.
func TestPickup(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client()
	p := tasks.NewPickup("claude", time.Hour) // no polling can be mistaken for a wake-up
	asked := &dueQuestions{}
	client.AddHook(p)
	client.AddHook(asked)
	puller := asynq.NewServerFromRedisClient(client, asynq.Config{
		Queues: map[string]int{"claude": 1}, TaskCheckInterval: 5 * time.Millisecond, DelayedTaskCheckInterval: 5 * time.Millisecond,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 0 }, LogLevel: asynq.FatalLevel,
	})
	deliveries := make(chan string, 10)
	if err := puller.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		deliveries <- id
		if n, _ := asynq.GetRetryCount(ctx); n == 0 {
			return errors.New("once more")
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	defer puller.Shutdown()
	defer p.Stop()
	go func() {
		_ = tasks.Listen(t.Context(), server.Client(), map[string]func(){tasks.WakeChannel("claude"): p.Wake})
	}()
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
		n, err := server.Client().PubSubNumSub(t.Context(), tasks.WakeChannel("claude")).Result()
		return err == nil && n[tasks.WakeChannel("claude")] == 1
	})
	err := tasks.Enqueue(t.Context(), asynq.NewClientFromRedisClient(tasks.Waking(server.Client())), turns.OutboxEntry{Thread: "fix", Turn: "fix/1",
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
	asked.clear()
	until("questions for retries", func() bool { return len(asked.retries()) >= 6 })
	seconds := asked.retries()[2:] // the retry above may have ended a pause
	if distinct := slices.Compact(slices.Clone(seconds)); len(distinct) < len(seconds) {
		t.Errorf("retries were asked for twice in a second: %v", seconds)
	}
	if p.Spared() == 0 {
		t.Error("asynq's question for scheduled tasks was not recognised")
	}
}

// dueQuestions is a hook that keeps the seconds for which asynq asks what is due.
type dueQuestions struct {
	mu      sync.Mutex
	seconds []int64
}

func (q *dueQuestions) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.seconds = nil
}

func (q *dueQuestions) retries() []int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.seconds)
}

func (q *dueQuestions) DialHook(next redis.DialHook) redis.DialHook { return next }

func (q *dueQuestions) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (q *dueQuestions) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if a := cmd.Args(); len(a) > 5 && a[3] == "asynq:{claude}:retry" {
			q.mu.Lock()
			q.seconds = append(q.seconds, a[5].(int64))
			q.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

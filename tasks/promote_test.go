package tasks

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
)

// A promoted task is taken before those that came earlier, and only once.
func TestPromotedTaskIsTakenFirst(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		client := asynq.NewClientFromRedisClient(rdb)
		for _, thread := range []string{"a", "b", "c"} {
			e := turns.OutboxEntry{Thread: thread, Turn: thread + "/1", Attempt: thread + "/1.1", Role: turns.Owner, Intent: turns.Work,
				Service: "codex-main", Stamp: "s", Cause: turns.CauseInitial}
			if err := Enqueue(ctx, client, e, 0, nil); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := Promote(ctx, rdb, "codex-main", "c/1.1"); err != nil {
				t.Fatal(err)
			}
		}
		if err := Promote(ctx, rdb, "codex-main", "gone/1.1"); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		all := make(chan struct{})
		server := asynq.NewServerFromRedisClient(rdb, asynq.Config{Concurrency: 1, Queues: map[string]int{"codex-main": 1}, LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond})
		if err := server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
			mu.Lock()
			defer mu.Unlock()
			if order = append(order, task.ResultWriter().TaskID()); len(order) == 3 {
				close(all)
			}
			return nil
		})); err != nil {
			t.Fatal(err)
		}
		defer server.Shutdown()
		<-all
		if want := []string{"c/1.1", "a/1.1", "b/1.1"}; !slices.Equal(order, want) {
			t.Fatalf("taken %v, want %v", order, want)
		}
	})
}

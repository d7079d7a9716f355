package scheduler

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// Whatever waits in asynq counts: pending, scheduled and retried.
func TestRoom(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := t.Context()
		room := Room(rdb, map[string]int{"claude": 3})
		client := asynq.NewClientFromRedisClient(rdb)
		for i, more := range [][]asynq.Option{nil, {asynq.ProcessIn(time.Hour)}, nil} {
			if err := room(ctx, "claude"); err != nil {
				t.Fatalf("with %d waiting: %v", i, err)
			}
			if _, err := client.Enqueue(asynq.NewTask("turn:start", nil), append(more, asynq.Queue("claude"), asynq.TaskID(fmt.Sprint(i)))...); err != nil {
				t.Fatal(err)
			}
		}
		var full *FullError
		if err := room(ctx, "claude"); !errors.As(err, &full) || full.Waiting != 3 || full.Bound != 3 {
			t.Errorf("a full service: %v", err)
		}
		if err := room(ctx, "codex"); err != nil {
			t.Errorf("a service without a bound: %v", err)
		}
		if _, err := asynq.NewInspectorFromRedisClient(rdb).DeleteAllScheduledTasks("claude"); err != nil {
			t.Fatal(err)
		}
		if err := room(ctx, "claude"); err != nil {
			t.Errorf("after one has gone: %v", err)
		}
	})
}

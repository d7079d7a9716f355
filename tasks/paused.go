package tasks

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Paused reports whether a person has paused the queue of a service in asynq: no
// worker takes anything from it until it is resumed.
func Paused(ctx context.Context, rdb redis.UniversalClient, service string) (bool, error) {
	n, err := rdb.Exists(ctx, "asynq:{"+Queue(service)+"}:paused").Result()
	if err != nil {
		return false, fmt.Errorf("is queue %s paused: %w", Queue(service), err)
	}
	return n > 0, nil
}

package tasks

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// promote moves a pending task to the end of asynq's list that is taken from
// next. A task that is not pending any more is left alone.
var promote = redis.NewScript(`
if redis.call('LREM', KEYS[1], 1, ARGV[1]) == 1 then redis.call('RPUSH', KEYS[1], ARGV[1]) end
return 1`)

// Promote puts a pending task before all others of its service. A priority is
// such an order within the service's one queue: a second queue would need a
// second server, and its runs would not count against the service's concurrency.
// Running it again changes nothing.
func Promote(ctx context.Context, rdb redis.UniversalClient, service, taskID string) error {
	if err := promote.Run(ctx, rdb, []string{"asynq:{" + Queue(service) + "}:pending"}, taskID).Err(); err != nil {
		return fmt.Errorf("put %s in front: %w", taskID, err)
	}
	return nil
}

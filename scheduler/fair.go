package scheduler

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"rota/tasks"
)

// Room returns a check that refuses work for a service for which as many turns
// wait as its bound allows. A service without a bound always has room. It counts
// by three cheap reads, beside the write that follows: callers at the same moment
// may pass the bound by as many as they are.
//
// Only new work is asked about. The next turn of a task that has begun, a retry
// and a handoff always have room, so that what was accepted gets to its end.
func Room(rdb redis.UniversalClient, bounds map[string]int) func(ctx context.Context, service string) error {
	return func(ctx context.Context, service string) error {
		bound, ok := bounds[service]
		if !ok || bound <= 0 {
			return nil
		}
		// When Redis can't say, the write that follows will.
		if n, err := waiting(ctx, rdb, service); err == nil && n >= bound {
			return &FullError{Service: service, Waiting: n, Bound: bound}
		}
		return nil
	}
}

// FullError says that too many turns wait for a service.
type FullError struct {
	Service        string
	Waiting, Bound int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%d turns wait for %s already, its bound is %d", e.Waiting, e.Service, e.Bound)
}

// waiting counts the tasks of a service that no worker has yet.
func waiting(ctx context.Context, rdb redis.UniversalClient, service string) (int, error) {
	key := "asynq:{" + tasks.Queue(service) + "}:"
	var counts []*redis.IntCmd
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		counts = []*redis.IntCmd{p.LLen(ctx, key+"pending"), p.ZCard(ctx, key+"scheduled"), p.ZCard(ctx, key+"retry")}
		return nil
	})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, c := range counts {
		n += int(c.Val())
	}
	return n, nil
}

// Package pipeline sends pipelines whose commands tell when they were not answered.
package pipeline

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Send queues commands and sends them in one round trip. It returns them with the
// first error of any kind, as Pipelined does, but a command that Redis did not answer
// always has an error. The client itself leaves all of them without one when it never
// got a connection, so that what is stored would look as if it were not there.
func Send(ctx context.Context, rdb redis.Cmdable, queue func(redis.Pipeliner)) ([]redis.Cmder, error) {
	cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		queue(p)
		return nil
	})
	if err == nil {
		return cmds, nil
	}
	told := false
	for _, cmd := range cmds {
		told = told || cmd.Err() != nil
	}
	if !told {
		for _, cmd := range cmds {
			cmd.SetErr(err)
		}
	}
	return cmds, err
}

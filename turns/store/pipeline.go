package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// reader queues reads and sends them in bounded pipelines.
type reader struct {
	ctx   context.Context
	rdb   redis.UniversalClient
	queue []func(p redis.Pipeliner)
	odd   []string // keys that hold something else than they should
}

func (r *reader) add(cmd func(p redis.Pipeliner)) { r.queue = append(r.queue, cmd) }

func (r *reader) send() error {
	for part := range slices.Chunk(r.queue, commandsOnce) {
		cmds, err := r.rdb.Pipelined(r.ctx, func(p redis.Pipeliner) error {
			for _, cmd := range part {
				cmd(p)
			}
			return nil
		})
		if err == nil {
			continue
		}
		if err := failure(cmds, err); err != nil {
			return err
		}
		for _, cmd := range cmds {
			if wrongType(cmd.Err()) {
				r.odd = append(r.odd, fmt.Sprint(cmd.Args()[1]))
			}
		}
	}
	r.queue = nil
	return nil
}

// failure returns the first error of a pipeline's commands that says more than
// that a value is missing or no record of ours; go-redis names the first of any kind.
func failure(cmds []redis.Cmder, err error) error {
	if err == nil {
		return nil
	}
	told := false
	for _, cmd := range cmds {
		switch e := cmd.Err(); {
		case e == nil:
		case errors.Is(e, redis.Nil), wrongType(e):
			told = true
		default:
			return e
		}
	}
	if told {
		return nil
	}
	return err
}

// wrongType reports whether a key holds something that we never write there. Of a
// script older servers say so only within their own words.
func wrongType(err error) bool { return err != nil && strings.Contains(err.Error(), "WRONGTYPE") }

// threadOfKey returns the thread that a record's key belongs to.
func threadOfKey(key string) string {
	parts := strings.SplitN(key, ":", 4)
	return turns.ThreadOf(parts[len(parts)-1])
}

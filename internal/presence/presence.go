// Package presence says which services a live worker serves. Each worker writes
// its name under its service, with an end by Redis' clock; nothing but warnings
// and the choice of a fallback depends on it.
//
//	rota:{workers}:SERVICE   zset   worker -> end of its presence, ms; written by Announce
package presence

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Life is how long an announcement lasts. A worker announces itself every third
// of it.
const Life = 15 * time.Second

func key(service string) string { return "rota:{workers}:" + service }

var announce = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[2]), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], ARGV[2] * 4)
return 1`)

var serving = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
return redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')`)

// Announce says that a worker serves a service.
func Announce(ctx context.Context, rdb redis.UniversalClient, service, worker string) error {
	if err := announce.Run(ctx, rdb, []string{key(service)}, worker, Life.Milliseconds()).Err(); err != nil {
		return fmt.Errorf("announce %s: %w", service, err)
	}
	return nil
}

// Leave takes an announcement back.
func Leave(ctx context.Context, rdb redis.UniversalClient, service, worker string) error {
	return rdb.ZRem(ctx, key(service), worker).Err()
}

// Workers returns the names of the live workers of a service.
func Workers(ctx context.Context, rdb redis.UniversalClient, service string) ([]string, error) {
	names, err := serving.Run(ctx, rdb, []string{key(service)}).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("workers of %s: %w", service, err)
	}
	return names, nil
}

// Served reports whether a live worker serves the service.
func Served(ctx context.Context, rdb redis.UniversalClient, service string) (bool, error) {
	names, err := Workers(ctx, rdb, service)
	return len(names) > 0, err
}

package store

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// Now returns Redis' time, by the server that has the thread. What a record says
// is held against it and never against the clock of a worker, which may be wrong.
func (s *Store) Now(ctx context.Context, thread string) (time.Time, error) {
	var server redis.Cmdable = s.rdb
	if cluster, ok := s.rdb.(*redis.ClusterClient); ok {
		node, err := cluster.MasterForKey(ctx, s.of(thread).clock())
		if err != nil {
			return time.Time{}, fmt.Errorf("read the time: %w", err)
		}
		server = node
	}
	now, err := server.Time(ctx).Result()
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time: %w", err)
	}
	return now.UTC(), nil
}

// HoldLives reports whether an agent may be at work in a thread: a run has set its
// hold, and the hold has not run out.
func (s *Store) HoldLives(ctx context.Context, t turns.Thread) (bool, error) {
	if t.Hold == 0 {
		return false, nil
	}
	now, err := s.Now(ctx, t.Name)
	return err == nil && t.HoldUntil.After(now), err
}

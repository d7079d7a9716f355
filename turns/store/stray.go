package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// Stray is an open turn without the net that it must have.
type Stray struct {
	Turn    string
	Attempt string
	State   turns.State
	Orphan  bool // its parent turn was cancelled
}

// cursors remembers where the last look at a shard's open turns ended.
type cursors struct {
	mu sync.Mutex
	at map[int]int64
}

// ClockKey returns the key that stands for a shard, to find the server it lies on.
func ClockKey(shard int) string { return shardKeys(shard).clock() }

// Stray looks at most many open turns of a shard, in turn over the passes, and
// returns those without their net. A repair is guarded by the move that makes it,
// so an answer that is out of date does no harm.
func (s *Store) Stray(ctx context.Context, shard, most int) ([]Stray, error) {
	k := shardKeys(shard)
	s.cursors.mu.Lock()
	from := s.cursors.at[shard]
	s.cursors.mu.Unlock()
	ids, err := s.rdb.ZRange(ctx, k.open(), from, from+int64(most)-1).Result()
	if err != nil {
		return nil, fmt.Errorf("read open turns: %w", err)
	}
	next := from + int64(len(ids))
	if len(ids) < most {
		next = 0
	}
	s.cursors.mu.Lock()
	s.cursors.at[shard] = next
	s.cursors.mu.Unlock()
	if len(ids) == 0 {
		return nil, nil
	}

	heads := make([]*redis.SliceCmd, len(ids))
	if _, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			heads[i] = p.HMGet(ctx, k.turn(id), "state", "attempt", "parent")
		}
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read open turns: %w", err)
	}
	type net struct {
		stray  Stray
		score  *redis.FloatCmd
		parent *redis.StringCmd
	}
	var nets []net
	_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, id := range ids {
			v := heads[i].Val()
			state, _ := v[0].(string)
			n, _ := v[1].(string)
			parent, _ := v[2].(string)
			row := net{stray: Stray{Turn: id, Attempt: turns.AttemptID(id, number(n)), State: turns.State(state)}}
			zset := k.leases()
			if row.stray.State == turns.Queued {
				zset = k.outbox()
			}
			row.score = p.ZScore(ctx, zset, row.stray.Attempt)
			if parent != "" {
				row.parent = p.HGet(ctx, k.turn(parent), "state")
			}
			nets = append(nets, row)
		}
		return nil
	})
	if err != nil && err != redis.Nil {
		return nil, fmt.Errorf("read nets: %w", err)
	}
	var strays []Stray
	for _, row := range nets {
		if row.parent != nil && row.parent.Val() == string(turns.Cancelled) {
			row.stray.Orphan = true
		}
		if row.stray.State.Open() && (row.score.Err() == redis.Nil || row.stray.Orphan) {
			strays = append(strays, row.stray)
		}
	}
	return strays, nil
}

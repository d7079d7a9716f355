package store

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"rota/internal/pipeline"
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

// Straying looks for open turns without their net: Along lets it share the round trip
// of another call, Read returns them.
type Straying struct {
	store       *Store
	shard, most int
	from        int64
	ids         *redis.StringSliceCmd
}

// Straying returns a look at so many open turns of a shard, in turn over the passes.
func (s *Store) Straying(shard, most int) *Straying {
	return &Straying{store: s, shard: shard, most: most}
}

// Along adds the question to a pipeline.
func (a *Straying) Along(p redis.Pipeliner) {
	c := &a.store.cursors
	c.mu.Lock()
	a.from = c.at[a.shard]
	c.mu.Unlock()
	a.ids = p.ZRange(context.Background(), shardKeys(a.shard).open(), a.from, a.from+int64(a.most)-1)
}

// Read returns the turns without their net. A repair is guarded by the move that
// makes it, so an answer that is out of date does no harm.
func (a *Straying) Read(ctx context.Context) ([]Stray, error) {
	s, k := a.store, shardKeys(a.shard)
	if a.ids == nil {
		_, _ = pipeline.Send(ctx, s.rdb, a.Along)
	}
	ids, err := a.ids.Result()
	if err != nil {
		return nil, fmt.Errorf("read open turns: %w", err)
	}
	next := a.from + int64(len(ids))
	if len(ids) < a.most {
		next = 0
	}
	s.cursors.mu.Lock()
	s.cursors.at[a.shard] = next
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

package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// A record that a strange hand overwrote is left out like one that is missing:
// it must not hide the others. Verify names it.

// readAtOnce bounds the commands of one pipeline of a list.
const readAtOnce = 500

// textsAtOnce is the same for answers, which may be long.
const textsAtOnce = 50

// TurnsByID reads many turns in few round trips. Ids without a turn are left out;
// the others keep their order.
func (s *Store) TurnsByID(ctx context.Context, ids []string) ([]turns.Turn, error) {
	list := make([]turns.Turn, 0, len(ids))
	err := s.readMany(ctx, ids, func(id string) string { return s.of(id).turn(id) }, func(id string, h map[string]string) {
		list = append(list, decodeTurn(id, h))
	})
	return list, err
}

// AttemptsByID reads many attempts in few round trips. Ids without an attempt are
// left out; the others keep their order.
func (s *Store) AttemptsByID(ctx context.Context, ids []string) ([]turns.Attempt, error) {
	list := make([]turns.Attempt, 0, len(ids))
	err := s.readMany(ctx, ids, func(id string) string { return s.of(id).attempt(id) }, func(id string, h map[string]string) {
		list = append(list, decodeAttempt(id, h))
	})
	return list, err
}

// ThreadsByName reads many threads in few round trips. Names without a thread are
// left out; the others keep their order.
func (s *Store) ThreadsByName(ctx context.Context, names []string) ([]turns.Thread, error) {
	list := make([]turns.Thread, 0, len(names))
	err := s.readMany(ctx, names, func(n string) string { return s.of(n).thread(n) }, func(n string, h map[string]string) {
		list = append(list, decodeThread(n, h))
	})
	return list, err
}

// PairedByID reads many paired tasks in few round trips. Ids without one are left
// out; the others keep their order.
func (s *Store) PairedByID(ctx context.Context, ids []string) ([]turns.Paired, error) {
	list := make([]turns.Paired, 0, len(ids))
	err := s.readMany(ctx, ids, func(id string) string { return s.of(id).paired(id) }, func(id string, h map[string]string) {
		list = append(list, decodePaired(id, h))
	})
	return list, err
}

// TextsByID reads the final answers of many turns, by turn, in few round trips. Turns
// without one are left out.
func (s *Store) TextsByID(ctx context.Context, ids []string) (map[string]string, error) {
	texts := map[string]string{}
	for part := range slices.Chunk(ids, textsAtOnce) {
		replies := make([]*redis.StringCmd, len(part))
		cmds, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range part {
				replies[i] = p.Get(ctx, s.of(id).text(id))
			}
			return nil
		})
		if err := failure(cmds, err); err != nil {
			return nil, fmt.Errorf("read %d answers: %w", len(part), err)
		}
		for i, r := range replies {
			if r.Err() == nil {
				texts[part[i]] = r.Val()
			}
		}
	}
	return texts, nil
}

func (s *Store) readMany(ctx context.Context, ids []string, key func(string) string, found func(string, map[string]string)) error {
	for part := range slices.Chunk(ids, readAtOnce) {
		replies := make([]*redis.MapStringStringCmd, len(part))
		cmds, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range part {
				replies[i] = p.HGetAll(ctx, key(id))
			}
			return nil
		})
		if err := failure(cmds, err); err != nil {
			return fmt.Errorf("read %d records: %w", len(part), err)
		}
		for i, r := range replies {
			if h := r.Val(); len(h) > 0 {
				found(part[i], h)
			}
		}
	}
	return nil
}

// Times are when the passes look at an attempt, by Redis' clock. Zero times stand
// for entries that do not exist.
type Times struct {
	Now   time.Time // Redis' time
	Look  time.Time // the relay looks at the queued attempt
	Lease time.Time // the run's lease ends
	Held  time.Time // no claim is answered before, since Redis may have lost its last writes
}

// TimesOf reads an attempt's outbox and lease entries.
func (s *Store) TimesOf(ctx context.Context, attempt string) (Times, error) {
	k := s.of(attempt)
	var look, lease *redis.FloatCmd
	var held *redis.StringCmd
	cmds, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		look, lease = p.ZScore(ctx, k.outbox(), attempt), p.ZScore(ctx, k.leases(), attempt)
		held = p.HGet(ctx, k.clock(), "held")
		return nil
	})
	if err := failure(cmds, err); err != nil {
		return Times{}, fmt.Errorf("read the times of %s: %w", attempt, err)
	}
	now, err := s.rdb.Time(ctx).Result()
	if err != nil {
		return Times{}, fmt.Errorf("read the time: %w", err)
	}
	at := func(c *redis.FloatCmd) time.Time {
		if c.Err() != nil || c.Val() == 0 {
			return time.Time{}
		}
		return time.UnixMilli(int64(c.Val())).UTC()
	}
	t := Times{Now: now.UTC(), Look: at(look), Lease: at(lease)}
	if until, err := held.Int64(); err == nil {
		t.Held = time.UnixMilli(until).UTC()
	}
	return t, nil
}

// Tail reads the moves of some shards as they happen. It is not safe for
// concurrent use.
type Tail struct {
	s      *Store
	shards []int
	last   []string
}

// Tail starts at the present end of the shards' streams; without shards it reads
// all of them.
func (s *Store) Tail(ctx context.Context, shards ...int) (*Tail, error) {
	if len(shards) == 0 {
		for i := range s.shards {
			shards = append(shards, i)
		}
	}
	t := &Tail{s: s, shards: shards, last: make([]string, len(shards))}
	ends := make([]*redis.XMessageSliceCmd, len(shards))
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, shard := range shards {
			ends[i] = p.XRevRangeN(ctx, shardKeys(shard).stream(), "+", "-", 1)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the streams: %w", err)
	}
	for i, e := range ends {
		t.last[i] = "0-0"
		if rows := e.Val(); len(rows) > 0 {
			t.last[i] = rows[0].ID
		}
	}
	return t, nil
}

// Since lets the tail begin with the moves of a time, by Redis' clock, as far as
// the streams still have them.
func (t *Tail) Since(at time.Time) {
	for i := range t.last {
		t.last[i] = fmt.Sprintf("%d-%d", at.UnixMilli()-1, uint64(math.MaxUint64))
	}
}

// Next returns the moves since the last call, by time. Without any it waits for
// the first one, at most for the given time, and then returns none.
func (t *Tail) Next(ctx context.Context, wait time.Duration) ([]turns.Entry, error) {
	if _, cluster := t.s.rdb.(*redis.ClusterClient); cluster && len(t.shards) > 1 {
		return t.poll(ctx, wait)
	}
	names := make([]string, len(t.shards))
	for i, shard := range t.shards {
		names[i] = shardKeys(shard).stream()
	}
	streams, err := t.s.rdb.XRead(ctx, &redis.XReadArgs{Streams: append(names, t.last...), Count: 1000, Block: max(wait, time.Millisecond)}).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read the streams: %w", err)
	}
	return t.take(streams), nil
}

// poll is Next where one command can't read the streams of several slots.
func (t *Tail) poll(ctx context.Context, wait time.Duration) ([]turns.Entry, error) {
	const pause = 100 * time.Millisecond
	for end := time.Now().Add(wait); ; {
		replies := make([]*redis.XStreamSliceCmd, len(t.shards))
		cmds, err := t.s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, shard := range t.shards {
				replies[i] = p.XRead(ctx, &redis.XReadArgs{Streams: []string{shardKeys(shard).stream(), t.last[i]}, Count: 1000, Block: -1})
			}
			return nil
		})
		if err := failure(cmds, err); err != nil {
			return nil, fmt.Errorf("read the streams: %w", err)
		}
		var streams []redis.XStream
		for _, r := range replies {
			streams = append(streams, r.Val()...)
		}
		if len(streams) > 0 || time.Now().After(end) {
			return t.take(streams), nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

func (t *Tail) take(streams []redis.XStream) []turns.Entry {
	var moves []turns.Entry
	for _, stream := range streams {
		for i, shard := range t.shards {
			if stream.Stream == shardKeys(shard).stream() && len(stream.Messages) > 0 {
				t.last[i] = stream.Messages[len(stream.Messages)-1].ID
			}
		}
		for _, m := range stream.Messages {
			turn, _ := m.Values["turn"].(string)
			line, _ := m.Values["move"].(string)
			moves = append(moves, decodeEntry(turn, line))
		}
	}
	slices.SortStableFunc(moves, func(a, b turns.Entry) int { return a.At.Compare(b.At) })
	return moves
}

// sortStored puts the commands that are due first in front, those that are never
// due by themselves at the end.
func sortStored(commands []Stored) {
	slices.SortStableFunc(commands, func(a, b Stored) int {
		switch {
		case a.At.IsZero() != b.At.IsZero():
			if a.At.IsZero() {
				return 1
			}
			return -1
		case !a.At.Equal(b.At):
			return a.At.Compare(b.At)
		}
		return strings.Compare(a.ID, b.ID)
	})
}

// EndedBy returns the attempt of a turn that a command ended, and false when it
// ended none: how a repeated command is told from a new one.
func (s *Store) EndedBy(ctx context.Context, t turns.Turn, command string) (turns.Attempt, bool, error) {
	ids := make([]string, t.Attempt)
	for i := range ids {
		ids[i] = turns.AttemptID(t.ID, i+1)
	}
	var ended turns.Attempt
	err := s.readMany(ctx, ids, func(id string) string { return s.of(id).attempt(id) }, func(id string, h map[string]string) {
		if h["ended_by"] == command {
			ended = decodeAttempt(id, h)
		}
	})
	return ended, ended.ID != "", err
}

package store

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// The scripts of stored commands.
var (
	scriptDueAdd  = load("due_add")
	scriptDueMove = load("due_move")
	scriptDueTake = load("due_take")
)

// Stored is a command that waits for its time, or a schedule with its next time.
// What its body says is not the store's affair.
type Stored struct {
	ID       string    // THREAD/@NAME; its thread chooses the shard
	At       time.Time // when it is due; zero for never by itself
	Body     string    // JSON
	Revision int       // raised by every write, for compare-and-set
	Created  time.Time
}

// StoredID returns the id of a stored command of a thread, or of a name that is
// spelt like a thread's.
func StoredID(thread, name string) string { return thread + "/@" + name }

// CheckStored returns an error unless id is the id of a stored command.
func CheckStored(id string) error {
	thread, name, ok := strings.Cut(id, "/@")
	if !ok || name == "" || len(name) > turns.MaxName {
		return fmt.Errorf("id %q is no stored command's: want thread/@name", id)
	}
	return turns.CheckThread(thread)
}

// AddStored stores a command. It returns the one that is there already, with
// false, when the id is taken: a repeat changes nothing.
func (s *Store) AddStored(ctx context.Context, c Stored) (added bool, err error) {
	if err := c.check(); err != nil {
		return false, err
	}
	k := s.of(c.ID)
	a, err := s.run(ctx, scriptDueAdd, []string{k.later(c.ID), k.due()}, c.ID, c.Body, dueScore(c.At))
	if err != nil {
		return false, err
	}
	return a.word == "added", nil
}

// MoveStored writes a stored command's body and time, if its revision is still
// the one that was read; ErrMoved otherwise.
func (s *Store) MoveStored(ctx context.Context, c Stored) error {
	if err := c.check(); err != nil {
		return err
	}
	k := s.of(c.ID)
	a, err := s.run(ctx, scriptDueMove, []string{k.later(c.ID), k.due()}, c.ID, c.Revision, c.Body, dueScore(c.At))
	if err != nil {
		return err
	}
	if a.word == "moved" {
		return fmt.Errorf("stored command %s: %w", c.ID, ErrMoved)
	}
	return nil
}

// TakeStored removes a stored command, if its revision is still the one that was
// read (0: whatever it is). ErrMoved or ErrNotFound otherwise; an entry of the due
// list that names nothing is dropped.
func (s *Store) TakeStored(ctx context.Context, id string, revision int) error {
	if err := CheckStored(id); err != nil {
		return err
	}
	k := s.of(id)
	want := ""
	if revision > 0 {
		want = strconv.Itoa(revision)
	}
	a, err := s.run(ctx, scriptDueTake, []string{k.later(id), k.due()}, id, want)
	if err != nil {
		return err
	}
	switch a.word {
	case "moved":
		return fmt.Errorf("stored command %s: %w", id, ErrMoved)
	case "unknown":
		return fmt.Errorf("stored command %s: %w", id, ErrNotFound)
	}
	return nil
}

// StoredCommand returns a stored command, or ErrNotFound.
func (s *Store) StoredCommand(ctx context.Context, id string) (Stored, error) {
	if err := CheckStored(id); err != nil {
		return Stored{}, err
	}
	k := s.of(id)
	var record *redis.MapStringStringCmd
	var at *redis.FloatCmd
	cmds, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		record, at = p.HGetAll(ctx, k.later(id)), p.ZScore(ctx, k.due(), id)
		return nil
	})
	if err := failure(cmds, err); err != nil {
		return Stored{}, fmt.Errorf("read stored command %s: %w", id, err)
	}
	if len(record.Val()) == 0 {
		return Stored{}, fmt.Errorf("stored command %s: %w", id, ErrNotFound)
	}
	score := math.Inf(1)
	if at.Err() == nil {
		score = at.Val()
	}
	return decodeStored(id, score, record.Val()), nil
}

// StoredCommands returns all stored commands, the next ones first.
func (s *Store) StoredCommands(ctx context.Context) ([]Stored, error) {
	due := make([]*redis.ZSliceCmd, s.shards)
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range due {
			due[i] = p.ZRangeWithScores(ctx, shardKeys(i).due(), 0, -1)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read stored commands: %w", err)
	}
	var rows []redis.Z
	for _, d := range due {
		rows = append(rows, d.Val()...)
	}
	records := make([]*redis.MapStringStringCmd, len(rows))
	if len(rows) > 0 {
		_, err = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, z := range rows {
				id := z.Member.(string)
				records[i] = p.HGetAll(ctx, s.of(id).later(id))
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read stored commands: %w", err)
	}
	commands := make([]Stored, 0, len(rows))
	for i, z := range rows {
		if h := records[i].Val(); len(h) > 0 {
			commands = append(commands, decodeStored(z.Member.(string), z.Score, h))
		}
	}
	sortStored(commands)
	return commands, nil
}

func (c Stored) check() error {
	if err := CheckStored(c.ID); err != nil {
		return err
	}
	// A body holds a text within its bound and a few words.
	if len(c.Body) > 2*MaxPrompt {
		return fmt.Errorf("stored command of %d bytes: at most %d", len(c.Body), 2*MaxPrompt)
	}
	return nil
}

func dueScore(at time.Time) string {
	if at.IsZero() {
		return "+inf"
	}
	return strconv.FormatInt(at.UnixMilli(), 10)
}

func decodeStored(id string, score float64, h map[string]string) Stored {
	c := Stored{ID: id, Body: h["body"], Revision: number(h["revision"]), Created: msTime(h["created"])}
	if !math.IsInf(score, 1) {
		c.At = time.UnixMilli(int64(score)).UTC()
	}
	return c
}

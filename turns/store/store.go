package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// Version is the version of the stored data that this program writes. Data of a
// higher version is refused, not guessed.
const Version = 1

// DefaultShards is the number of shards of a new store.
const DefaultShards = 16

// Bounds of what is stored.
const (
	MaxPrompt   = 256 << 10 // bytes of a prompt; longer ones are refused
	MaxText     = 256 << 10 // bytes of an answer; longer ones are cut with a note
	MaxMessages = 1000      // human messages that may wait on one thread
	MaxItems    = 20_000    // open items below one root thread
	closeAtOnce = 2000      // items closed in the write that ends a turn
	sweepStep   = 500       // items closed in one step of a sweep
)

// Options are what a store needs to know beyond Redis.
type Options struct {
	Shards int           // of a new store; DefaultShards when 0; must equal the stored number otherwise
	Plan   turns.Planner // what the end of a turn means; nil for lone turns only
	Crew   turns.Crew    // roles with their services and limits, for the next turns
	Rules  turns.Rules

	Retention time.Duration // after the end of a paired task or lone turn; 7 days when 0
	// Grace is how long the writer of an outbox entry has to hand it to asynq
	// itself before the relay's pass looks; 2 s when 0.
	Grace time.Duration
	// Rejected hears every write that a fence or a guard refused, by script and
	// answer; nil for nobody.
	Rejected func(script, answer string)
	// Trace returns the context of the trace in ctx, which is stored with the
	// attempts that are opened; nil for none.
	Trace func(ctx context.Context) string
}

// Store is the domain in Redis. It is safe for concurrent use.
type Store struct {
	rdb       redis.UniversalClient
	shards    int
	plan      turns.Planner
	crew      turns.Crew
	rules     turns.Rules
	retention time.Duration
	grace     time.Duration
	rejected  func(script, answer string)
	trace     func(ctx context.Context) string
	cursors   cursors
}

// Open agrees with what is stored about the number of shards and the version,
// and returns the store. A different number of shards or newer data is an error.
func Open(ctx context.Context, rdb redis.UniversalClient, o Options) (*Store, error) {
	s := &Store{
		rdb: rdb, plan: o.Plan, crew: o.Crew, rules: o.Rules.WithDefaults(),
		retention: o.Retention, grace: o.Grace, rejected: o.Rejected, cursors: cursors{at: map[int]int64{}}, trace: o.Trace,
	}
	if s.retention == 0 {
		s.retention = 7 * 24 * time.Hour
	}
	if s.grace == 0 {
		s.grace = 2 * time.Second
	}
	want := o.Shards
	if want == 0 {
		want = DefaultShards
	}
	if want < 1 || want > 1024 {
		return nil, fmt.Errorf("shards: %d is not between 1 and 1024", want)
	}
	list, err := s.meta(ctx, want)
	if err != nil {
		return nil, err
	}
	stored, err1 := strconv.Atoi(fmt.Sprint(list[0]))
	version, err2 := strconv.Atoi(fmt.Sprint(list[1]))
	switch {
	case err1 != nil || err2 != nil || stored < 1:
		return nil, fmt.Errorf("%s can't be read: shards %v, version %v", metaKey, list[0], list[1])
	case version > Version:
		return nil, fmt.Errorf("%w (%d, this program knows %d)", ErrVersion, version, Version)
	case o.Shards != 0 && stored != o.Shards:
		return nil, fmt.Errorf("shards: the store has %d, the configuration says %d", stored, o.Shards)
	}
	s.shards = stored
	return s, nil
}

// meta returns the number of shards and the version of what is stored; where
// nothing is, it is written. What is there is only read: a Redis that refuses
// writes can still be looked into.
func (s *Store) meta(ctx context.Context, shards int) ([]any, error) {
	list, err := s.rdb.HMGet(ctx, metaKey, "shards", "version").Result()
	if err != nil {
		return nil, fmt.Errorf("shards: %w", err)
	}
	if len(list) == 2 && list[0] != nil && list[1] != nil {
		return list, nil
	}
	reply, err := s.call(ctx, scriptShards, []string{metaKey}, shards, Version)
	if err != nil {
		return nil, err
	}
	if list, _ = reply.([]any); len(list) != 2 {
		return nil, fmt.Errorf("shards: unexpected reply %v", reply)
	}
	return list, nil
}

// Shards returns the number of shards.
func (s *Store) Shards() int { return s.shards }

// Redis returns the client, for what is not the domain's: presence, queues.
func (s *Store) Redis() redis.UniversalClient { return s.rdb }

// Crew returns the roles that this process knows.
func (s *Store) Crew() turns.Crew { return s.crew }

// Rules returns the budgets of paired tasks.
func (s *Store) Rules() turns.Rules { return s.rules }

// record writes a list of fields and values as the scripts read them.
func record(fields ...string) string {
	if len(fields)%2 != 0 {
		panic("store: odd record")
	}
	b, err := json.Marshal(fields)
	if err != nil {
		panic("store: " + err.Error())
	}
	return string(b)
}

var closedKinds = func() string {
	b, err := json.Marshal(turns.ItemClosed)
	if err != nil {
		panic("store: " + err.Error())
	}
	return string(b)
}()

func origins(v turns.Verb) string {
	var text []byte
	for i, from := range turns.Moves[v].From {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, from...)
	}
	return string(text)
}

func ms(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func msTime(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n).UTC()
}

func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

func number64(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

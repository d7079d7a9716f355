package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// Violation is an invariant of the model that does not hold. Invariant is its
// number: 1 role and intent never change, 2 one open turn and attempt, 3 exactly
// one net, 4 a run's writes are its own, 5 fences only grow, 6 exactly one
// successor and nothing after the end, 7 only the attempt's service claims, 8 the
// next turn comes from an outcome, 9 one agent in a thread, 10 budgets and visible
// ends.
type Violation struct {
	Invariant int
	ID        string // thread, turn or attempt
	Text      string
}

func (v Violation) String() string {
	return fmt.Sprintf("invariant %d, %s: %s", v.Invariant, v.ID, v.Text)
}

const (
	threadsAtOnce = 100  // threads examined together
	turnsAtOnce   = 1000 // turns held in memory; a thread that has more is examined alone
	scanAtOnce    = 500  // members read of an index in one call
	membersOnce   = 500  // members or keys asked for in one command
	commandsOnce  = 500  // commands in one pipeline
)

// looks are the pauses between looks at what seems wrong. A thread is read in
// several round trips while it moves, so only what every look finds counts.
var looks = []time.Duration{50 * time.Millisecond, 250 * time.Millisecond}

// Verify replays the log of every turn against turns.Moves and checks the
// invariants of a thread, or of all threads when the name is empty. It reads in
// bounded steps and may run while turns move. ErrNotFound when there is no such
// thread.
func (s *Store) Verify(ctx context.Context, thread string) ([]Violation, error) {
	var suspects map[string]map[Violation]bool
	var err error
	if thread != "" {
		if err := turns.CheckThread(thread); err != nil {
			return nil, err
		}
		suspects, err = s.verifyOne(ctx, thread)
	} else {
		suspects, err = s.verifyAll(ctx)
	}
	for _, pause := range looks {
		if err != nil || len(suspects) == 0 {
			break
		}
		if err = sleep(ctx, pause); err == nil {
			err = s.lookAgain(ctx, suspects)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	}
	var found []Violation
	for _, name := range slices.Sorted(maps.Keys(suspects)) {
		found = append(found, slices.SortedFunc(maps.Keys(suspects[name]), func(a, b Violation) int {
			return strings.Compare(a.String(), b.String())
		})...)
	}
	return found, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (s *Store) verifyOne(ctx context.Context, thread string) (map[string]map[Violation]bool, error) {
	k := s.of(thread)
	named := mentions{thread: {}}
	if err := s.mentioned(ctx, k, named); err != nil {
		return nil, err
	}
	var exists *redis.IntCmd
	var listed *redis.FloatCmd
	cmds, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		exists, listed = p.Exists(ctx, k.thread(thread)), p.ZScore(ctx, k.threads(), thread)
		return nil
	})
	if err := failure(cmds, err); err != nil {
		return nil, err
	}
	if exists.Val() == 0 && listed.Err() != nil && len(named[thread]) == 0 {
		return nil, fmt.Errorf("thread %s: %w", thread, ErrNotFound)
	}
	return s.examine(ctx, k, named)
}

func (s *Store) verifyAll(ctx context.Context) (map[string]map[Violation]bool, error) {
	suspects := map[string]map[Violation]bool{}
	for shard := range s.shards {
		k := shardKeys(shard)
		named := mentions{}
		for _, index := range []string{k.threads(), k.open(), k.outbox(), k.leases()} {
			if err := s.scan(ctx, index, "*", named.add); err != nil {
				return nil, err
			}
		}
		found, err := s.examine(ctx, k, named)
		if err != nil {
			return nil, err
		}
		maps.Copy(suspects, found)
	}
	return suspects, nil
}

// lookAgain keeps of each suspect what is still found. It goes through the indexes of
// a shard once, however many of its threads are suspects.
func (s *Store) lookAgain(ctx context.Context, suspects map[string]map[Violation]bool) error {
	shards := map[int]mentions{}
	for name := range suspects {
		shard := s.ShardOf(name)
		if shards[shard] == nil {
			shards[shard] = mentions{}
		}
		shards[shard][name] = nil
	}
	for shard, named := range shards {
		k := shardKeys(shard)
		if err := s.mentioned(ctx, k, named); err != nil {
			return err
		}
		again, err := s.examine(ctx, k, named)
		if err != nil {
			return err
		}
		for name := range named {
			before := suspects[name]
			maps.DeleteFunc(before, func(v Violation, _ bool) bool { return !again[name][v] })
			if len(before) == 0 {
				delete(suspects, name)
			}
		}
	}
	return nil
}

// mentioned adds what the indexes of a shard say of the threads that are named.
func (s *Store) mentioned(ctx context.Context, k keys, named mentions) error {
	match := "*"
	if len(named) == 1 {
		for name := range named {
			match = name + "/*"
		}
	}
	for _, index := range []string{k.open(), k.outbox(), k.leases()} {
		err := s.scan(ctx, index, match, func(at mention) {
			if _, ok := named[turns.ThreadOf(at.member)]; ok {
				named.add(at)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// mentions are the members of the indexes by the thread they belong to.
type mentions map[string][]mention

type mention struct{ index, member string }

func (m mentions) add(at mention) {
	name := turns.ThreadOf(at.member)
	m[name] = append(m[name], at)
}

// scan reads the members of an index page by page.
func (s *Store) scan(ctx context.Context, index, match string, see func(mention)) error {
	var cursor uint64
	for {
		page, next, err := s.rdb.ZScan(ctx, index, cursor, match, scanAtOnce).Result()
		if err != nil {
			return err
		}
		for i := 0; i < len(page); i += 2 {
			see(mention{index, page[i]})
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// threadView is a thread as Verify sees it.
type threadView struct {
	thread  turns.Thread
	exists  bool
	live    string // open turn of a child thread by the index of its root
	indexed bool   // it is in the index of threads
	paired  turns.Paired
	turns   []*turnView
	// loose are members of indexes that name nothing that is stored.
	loose []mention
}

type turnView struct {
	turn     turns.Turn
	next     string // the turn that its end opened
	indexed  bool   // it is in the index of open turns
	log      []turns.Entry
	attempts map[int]*attemptView
}

type attemptView struct {
	attempt        turns.Attempt
	queued, leased bool // it has an outbox entry, a lease entry
}

// examine reads threads of one shard and returns what seems wrong, by thread. It
// holds a bounded number of threads and turns at a time.
func (s *Store) examine(ctx context.Context, k keys, named mentions) (map[string]map[Violation]bool, error) {
	suspects := map[string]map[Violation]bool{}
	suspect := func(name string, v Violation) {
		if suspects[name] == nil {
			suspects[name] = map[Violation]bool{}
		}
		suspects[name][v] = true
	}
	r := &reader{ctx: ctx, rdb: s.rdb}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(named)), threadsAtOnce) {
		views := map[string]*threadView{}
		for _, name := range part {
			views[name] = &threadView{}
		}
		if err := readThreads(r, k, views); err != nil {
			return nil, err
		}
		for len(views) > 0 {
			some := take(views, turnsAtOnce)
			if err := readTurns(r, k, some); err != nil {
				return nil, err
			}
			if err := readAttempts(r, k, some, named); err != nil {
				return nil, err
			}
			for name, view := range some {
				for _, v := range view.check(name) {
					suspect(name, v)
				}
			}
		}
	}
	for _, key := range r.odd {
		name := threadOfKey(key)
		suspect(name, Violation{10, name, key + " can't be read: it holds something that is no record"})
	}
	return suspects, nil
}

// take removes threads with at most so many turns together, or one that has more.
func take(views map[string]*threadView, most int) map[string]*threadView {
	some, sum := map[string]*threadView{}, 0
	for name, view := range views {
		if sum += view.thread.Turns; len(some) > 0 && sum > most {
			break
		}
		some[name] = view
		delete(views, name)
	}
	return some
}

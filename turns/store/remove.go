package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// Remove deletes a thread's ended turns and paired tasks with all that belongs to
// them, and those of its child threads; the threads and their counters stay, so
// that ids are never used again. A thread with an open turn in it or below it is
// refused with *BusyError.
func (s *Store) Remove(ctx context.Context, thread string) error {
	t, err := s.Thread(ctx, thread)
	if err != nil {
		return err
	}
	if t.OpenTurn != "" {
		return &BusyError{t.OpenTurn}
	}
	if thread == turns.Root(thread) {
		live, err := s.rdb.HVals(ctx, s.of(thread).live(thread)).Result()
		if err != nil {
			return fmt.Errorf("remove %s: %w", thread, err)
		}
		if len(live) > 0 {
			return &BusyError{live[0]}
		}
		children, err := s.children(ctx, t)
		if err != nil {
			return fmt.Errorf("remove %s: %w", thread, err)
		}
		for _, child := range children {
			if err := s.Remove(ctx, child); err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
		}
	}
	k := s.of(thread)
	for n := 1; n <= t.Turns; n++ {
		if err := s.removeTurn(ctx, turns.TurnID(thread, n), removal{unless: "*"}); err != nil {
			return err
		}
	}
	for n := 1; n <= t.Pairs; n++ {
		id := turns.PairedID(thread, n)
		if err := s.remove(ctx, removal{thread: thread, member: id, unless: "*", keys: []string{k.paired(id)}}); err != nil {
			return err
		}
	}
	rest := []string{k.messages(thread)}
	if thread == turns.Root(thread) {
		rest = append(rest, k.items(thread), k.links(thread))
	}
	if err := s.remove(ctx, removal{thread: thread, unless: "*", keys: rest}); err != nil {
		return err
	}
	return s.rdb.ZRem(ctx, k.threads(), thread).Err()
}

// children returns the child threads of a root: those that its counter has given out,
// and those that a person has opened under another number.
func (s *Store) children(ctx context.Context, root turns.Thread) ([]string, error) {
	listed := mentions{}
	if err := s.scan(ctx, s.of(root.Name).threads(), root.Name+"~*", listed.add); err != nil {
		return nil, err
	}
	for n := 2; n <= root.Children; n++ {
		listed[fmt.Sprintf("%s~%d", root.Name, n)] = nil
	}
	return slices.Sorted(maps.Keys(listed)), nil
}

// Retire deletes what a due entry of the retention names: a paired task with its
// turns, or a lone turn. ErrMoved when it is not due; nil when it was deleted
// before.
func (s *Store) Retire(ctx context.Context, id string) error {
	thread := turns.ThreadOf(id)
	k := s.of(thread)
	if _, _, err := turns.ParseTurn(id); err == nil {
		return s.removeTurn(ctx, id, removal{due: true, unless: id})
	}
	t, err := s.Thread(ctx, thread)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	p, err := s.Paired(ctx, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	_, first, err := turns.ParseTurn(p.First)
	if err != nil {
		first = 1
	}
	for n := first; n <= t.Turns; n++ {
		turn := turns.TurnID(thread, n)
		owner, err := s.rdb.HGet(ctx, k.turn(turn), "paired").Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return fmt.Errorf("retire %s: %w", id, err)
		}
		if owner != id {
			continue
		}
		if err := s.removeTurn(ctx, turn, removal{member: id, due: true, keep: true, unless: turn}); err != nil {
			return err
		}
	}
	return s.remove(ctx, removal{thread: thread, member: id, due: true, keys: []string{k.paired(id)}})
}

// removal is one call of the script.
type removal struct {
	thread string
	member string // of the ended set
	due    bool   // the member must be due
	keep   bool   // the member stays, because more is to be deleted
	unless string // turn that must not be open; * for any
	turn   string // its links to child threads are deleted too
	keys   []string
}

// removeTurn deletes a turn with all that belongs to it.
func (s *Store) removeTurn(ctx context.Context, turn string, r removal) error {
	k := s.of(turn)
	n, err := s.rdb.HGet(ctx, k.turn(turn), "attempt").Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("remove %s: %w", turn, err)
	}
	r.thread, r.turn = turns.ThreadOf(turn), turn
	if r.member == "" {
		r.member = turn
	}
	r.keys = []string{k.turn(turn), k.prompt(turn), k.said(turn), k.text(turn), k.log(turn), k.done(turn), k.asks(turn), k.steers(turn), k.answers(turn)}
	for i := 1; i <= n; i++ {
		r.keys = append(r.keys, k.attempt(turns.AttemptID(turn, i)))
	}
	return s.remove(ctx, r)
}

func (s *Store) remove(ctx context.Context, r removal) error {
	k := s.of(r.thread)
	names := append([]string{k.ended(), k.thread(r.thread), k.links(r.thread), k.sweeps()}, r.keys...)
	a, err := s.run(ctx, scriptRemove, names, r.member, flag(r.due), r.unless, r.turn, flag(r.keep))
	if err != nil {
		return err
	}
	if a.word == "moved" {
		return fmt.Errorf("remove %s: %w", r.thread, ErrMoved)
	}
	return nil
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

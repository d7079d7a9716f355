package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"rota/internal/pipeline"
	"rota/turns"
)

// Note is what is remembered of a command under its key: what it has opened or asked
// of, or with Aim what it is about to act on.
type Note struct {
	Turn    string
	Attempt string
	Aim     bool
}

// aimMark ends a note that says what a command is about to act on.
const aimMark = "!"

func decodeNote(text string) (n Note) {
	text, n.Aim = strings.CutSuffix(text, aimMark)
	n.Turn, n.Attempt, _ = strings.Cut(text, "|")
	return n
}

// Command returns the note of a command, and false when there is none.
func (s *Store) Command(ctx context.Context, thread, command string) (Note, bool, error) {
	text, err := s.text(ctx, s.of(thread).command(thread, command))
	return decodeNote(text), text != "", err
}

// Aim notes what a command is about to act on, so that a repeat of it acts on the same
// and on nothing that came later. It returns the note that is there then: one from
// before stays.
func (s *Store) Aim(ctx context.Context, thread, command, turn, attempt string) (Note, error) {
	if err := turns.CheckThread(thread); err != nil {
		return Note{}, err
	}
	if err := checkCommand(command); err != nil {
		return Note{}, err
	}
	key := s.of(thread).command(thread, command)
	var set *redis.BoolCmd
	var noted *redis.StringCmd
	_, _ = pipeline.Send(ctx, s.rdb, func(p redis.Pipeliner) {
		set = p.SetNX(ctx, key, turn+"|"+attempt+aimMark, s.retention)
		noted = p.Get(ctx, key)
	})
	if err := errors.Join(set.Err(), noted.Err()); err != nil {
		return Note{}, fmt.Errorf("note what a command is about: %w", err)
	}
	return decodeNote(noted.Val()), nil
}

package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"rota/internal/pipeline"
	"rota/turns"
)

// Aimed is what a command with a key was about when it was first given: a turn, and
// maybe an attempt of it. It is zero when nothing was noted.
type Aimed struct {
	Turn    string
	Attempt string
	First   bool // noted by this call
}

// aimMark ends what is stored under a command id when it says what the command is
// about to act on. Without it, it says what the command has opened.
const aimMark = "!"

// Aim notes what a command is about to act on, so that a repeat of it acts on the same
// and on nothing that came later. What was noted before stays.
func (s *Store) Aim(ctx context.Context, thread, command, turn, attempt string) (Aimed, error) {
	if err := turns.CheckThread(thread); err != nil {
		return Aimed{}, err
	}
	if err := checkCommand(command); err != nil {
		return Aimed{}, err
	}
	key := s.of(thread).command(thread, command)
	var first *redis.BoolCmd
	var noted *redis.StringCmd
	_, _ = pipeline.Send(ctx, s.rdb, func(p redis.Pipeliner) {
		first = p.SetNX(ctx, key, turn+"|"+attempt+aimMark, s.retention)
		noted = p.Get(ctx, key)
	})
	if first.Err() != nil {
		return Aimed{}, fmt.Errorf("note what a command is about: %w", first.Err())
	}
	if noted.Err() != nil {
		return Aimed{}, fmt.Errorf("note what a command is about: %w", noted.Err())
	}
	a := Aimed{First: first.Val()}
	a.Turn, a.Attempt, _ = cutCommand(noted.Val())
	return a, nil
}

// AimedAt returns what Aim has noted for a command id; zero when it noted nothing.
func (s *Store) AimedAt(ctx context.Context, thread, command string) (Aimed, error) {
	text, err := s.text(ctx, s.of(thread).command(thread, command))
	if err != nil || !strings.HasSuffix(text, aimMark) {
		return Aimed{}, err
	}
	turn, attempt, _ := cutCommand(text)
	return Aimed{Turn: turn, Attempt: attempt}, nil
}

package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"rota/internal/pipeline"
	"rota/turns"
)

// Records is a turn with what a decision about it needs, read in one round trip.
type Records struct {
	Turn     turns.Turn
	Attempt  turns.Attempt // the current one, or the one asked for
	Thread   turns.Thread
	Paired   turns.Paired
	Messages int // human messages that wait on the thread, steered texts that no run has taken included
}

// Reading reads the records of a turn: Along lets it share the round trip of another
// call, Records returns them.
type Reading struct {
	store          *Store
	thread, turn   string
	attempt        int // 0 for the current one
	paired         string
	th, tu, at, pa *redis.MapStringStringCmd
	waiting        *redis.IntCmd
	steers         *redis.IntCmd
}

// Reading returns how to read a turn with its thread and paired task, and with one
// of its attempts; 0 stands for the current one.
func (s *Store) Reading(turn string, attempt int) (*Reading, error) {
	thread, _, err := turns.ParseTurn(turn)
	if err != nil {
		return nil, err
	}
	return &Reading{store: s, thread: thread, turn: turn, attempt: attempt}, nil
}

// Along adds the questions to a pipeline. Nearly every turn belongs to its thread's
// first paired task and is at its first attempt: that guess spares a second round
// trip.
func (r *Reading) Along(p redis.Pipeliner) {
	ctx, k := context.Background(), r.store.of(r.turn) // the pipeline's own context counts
	r.paired = turns.PairedID(r.thread, 1)
	r.th, r.tu = p.HGetAll(ctx, k.thread(r.thread)), p.HGetAll(ctx, k.turn(r.turn))
	r.waiting, r.steers = p.LLen(ctx, k.messages(r.thread)), p.LLen(ctx, k.steers(r.turn))
	r.at, r.pa = p.HGetAll(ctx, k.attempt(turns.AttemptID(r.turn, max(r.attempt, 1)))), p.HGetAll(ctx, k.paired(r.paired))
}

// Records returns the records. It asks now what was not asked along with another
// call, or was not answered there, or was guessed wrongly. ErrNotFound when there is
// no such turn, ErrUnreadable when a record is none; a missing attempt is left zero.
func (r *Reading) Records(ctx context.Context) (Records, error) {
	if r.failure() != nil {
		_, _ = pipeline.Send(ctx, r.store.rdb, r.Along)
		if err := r.failure(); err != nil {
			return Records{}, unread(r.turn, err)
		}
	}
	if len(r.tu.Val()) == 0 {
		return Records{}, fmt.Errorf("turn %s: %w", r.turn, ErrNotFound)
	}
	rec := Records{Turn: decodeTurn(r.turn, r.tu.Val()), Thread: decodeThread(r.thread, r.th.Val()), Messages: int(r.waiting.Val() + r.steers.Val())}
	number, at, pa := max(r.attempt, 1), r.at, r.pa
	wrongAttempt := r.attempt == 0 && rec.Turn.Attempt != number
	wrongPaired := rec.Turn.Paired != r.paired
	if wrongAttempt {
		number = rec.Turn.Attempt
	}
	if wrongAttempt || wrongPaired && rec.Turn.Paired != "" {
		k := r.store.of(r.turn)
		_, err := r.store.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			at, pa = p.HGetAll(ctx, k.attempt(turns.AttemptID(r.turn, number))), p.HGetAll(ctx, k.paired(rec.Turn.Paired))
			return nil
		})
		if err != nil {
			return Records{}, unread(r.turn, err)
		}
	}
	if len(at.Val()) > 0 {
		rec.Attempt = decodeAttempt(turns.AttemptID(r.turn, number), at.Val())
	}
	if rec.Turn.Paired != "" && len(pa.Val()) > 0 {
		rec.Paired = decodePaired(rec.Turn.Paired, pa.Val())
	}
	return rec, nil
}

// failure says why an answer is missing.
func (r *Reading) failure() error {
	if r.th == nil {
		return errNotAsked
	}
	return errors.Join(r.th.Err(), r.tu.Err(), r.at.Err(), r.pa.Err(), r.waiting.Err(), r.steers.Err())
}

// unread is the error of a turn that could not be read.
func unread(turn string, err error) error {
	if wrongType(err) {
		return fmt.Errorf("read turn %s: %w (%w)", turn, ErrUnreadable, err)
	}
	return fmt.Errorf("read turn %s: %w", turn, err)
}

var errNotAsked = errors.New("not asked yet")

// Records reads a turn with its current attempt, thread and paired task, in one
// round trip as a rule. With attempt > 0 it reads that attempt instead of the
// current one. Errors as of Reading.
func (s *Store) Records(ctx context.Context, turn string, attempt int) (Records, error) {
	r, err := s.Reading(turn, attempt)
	if err != nil {
		return Records{}, err
	}
	return r.Records(ctx)
}

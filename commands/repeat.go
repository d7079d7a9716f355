package commands

import (
	"context"

	"rota/turns"
	"rota/turns/store"
)

const doneBefore = "already done by a command with this key"

// before answers a repeated command: what it did the first time. It is asked
// after the thread was read: what the thread shows may be this very command, given
// twice at once.
func (c *Commands) before(ctx context.Context, thread, key string) (Result, bool, error) {
	note, ok, err := c.Store.Command(ctx, thread, key)
	if err != nil || !ok {
		return Result{}, false, err
	}
	return noted(thread, note), true, nil
}

func noted(thread string, note store.Note) Result {
	r := Result{Thread: thread, Already: true, Attempt: note.Attempt, Text: doneBefore}
	if _, _, err := turns.ParseTurn(note.Turn); err == nil {
		r.Turn = note.Turn
	}
	return r
}

// aim lets a command with a key act on a turn, and maybe one of its attempts: the first
// one that is given notes it, with now. A repeat that would act on another one, or a key
// that another command has used, is answered. Without a key nobody repeats the command.
func (c *Commands) aim(ctx context.Context, thread, key, turn, attempt string, now bool) (Result, bool, error) {
	if key == "" {
		return Result{}, false, nil
	}
	note, ok, err := c.Store.Command(ctx, thread, key)
	if err == nil && !ok && now {
		ok = true
		note, err = c.Store.Aim(ctx, thread, key, turn, attempt)
	}
	if err != nil || !ok || note == (store.Note{Turn: turn, Attempt: attempt, Aim: true}) {
		return Result{}, false, err
	}
	return noted(thread, note), true, nil
}

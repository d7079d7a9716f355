package commands

import (
	"context"
	"errors"
	"time"

	"rota/turns"
	"rota/turns/store"
)

// End says how what was waited for ended.
type End string

// The ends.
const (
	EndCompleted  End = "completed"
	EndFailed     End = "failed"      // the last turn failed
	EndCancelled  End = "cancelled"   //
	EndNeedsHuman End = "needs_human" // for another reason than a failed or cancelled turn
)

// Ended is how a turn, or a thread's paired task, has come to rest.
type Ended struct {
	End    End
	Turn   turns.Turn // the last one
	Reason string     // why a person is needed
}

// Follow is told what happens while Wait waits: each move, and the open turn once
// a second. Its fields may be nil.
type Follow struct {
	Move func(turns.Entry)
	Tick func(store.Records)
}

// Wait blocks until a turn has ended, or with a thread's id until its paired task
// has come to rest: completed, cancelled, or waiting for a person.
func (c *Commands) Wait(ctx context.Context, id string, f Follow) (Ended, error) {
	ref, err := c.Resolve(ctx, id)
	if err != nil {
		return Ended{}, refusal("wait for "+id, err)
	}
	r, _, err := c.turnOf(ctx, named(ref.Turn, ref.Thread))
	if err != nil {
		return Ended{}, err
	}
	tail, err := c.Store.Tail(ctx, c.Store.ShardOf(ref.Thread))
	if err != nil {
		return Ended{}, err
	}
	tail.Since(r.Turn.Created)
	for {
		ended, done, err := c.rest(ctx, ref)
		if err != nil {
			return Ended{}, err
		}
		pause := time.Second
		if done {
			pause = time.Millisecond // the moves that led there
		} else if f.Tick != nil {
			if r, _, err := c.turnOf(ctx, named(ref.Turn, ref.Thread)); err == nil {
				f.Tick(r)
			}
		}
		moves, err := tail.Next(ctx, pause)
		if over := outOfTime(ctx); over != nil && !done {
			return Ended{}, over
		}
		if err != nil && !done {
			return Ended{}, err
		}
		for _, m := range moves {
			if f.Move != nil && turns.Root(turns.ThreadOf(m.Turn)) == turns.Root(ref.Thread) {
				f.Move(m)
			}
		}
		if done {
			return ended, nil
		}
	}
}

// outOfTime returns why a context is over. The connection may notice its deadline
// before the context does.
func outOfTime(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
}

// rest reports whether nothing moves by itself any more.
func (c *Commands) rest(ctx context.Context, ref Ref) (Ended, bool, error) {
	if ref.Turn != "" {
		t, err := c.Store.Turn(ctx, ref.Turn)
		if errors.Is(err, store.ErrNotFound) {
			return Ended{}, false, refuse(NotFound, "", "turn %s: not found", ref.Turn)
		}
		return Ended{End: endOf(t), Turn: t}, err == nil && !t.State.Open(), err
	}
	s, err := c.scene(ctx, ref.Thread)
	if err != nil {
		return Ended{}, false, err
	}
	if s.last.ID == "" {
		return Ended{}, false, refuse(NotFound, "", "thread %s has no turn", ref.Thread)
	}
	e := Ended{Turn: s.last, Reason: s.paired.Reason}
	switch {
	case s.paired.ID == "":
		e.End = endOf(s.last)
		return e, !s.last.State.Open(), nil
	case s.paired.Status == turns.PairCompleted:
		e.End = EndCompleted
	case s.paired.Status == turns.PairCancelled:
		e.End = EndCancelled
	case s.paired.Status == turns.NeedsHuman:
		if e.End = endOf(s.last); e.End == EndCompleted {
			e.End = EndNeedsHuman
		}
	default:
		return Ended{}, false, nil
	}
	return e, true, nil
}

func endOf(t turns.Turn) End {
	switch t.State {
	case turns.Failed:
		return EndFailed
	case turns.Cancelled:
		return EndCancelled
	}
	return EndCompleted
}

package store

import (
	"context"
	"fmt"

	"rota/turns"
)

// LoseOrEnd ends a run that is believed dead, or with own was given back by its
// own guard: the turn goes on on the same service, or ends when its budget of
// losses is used (ended is then not nil). next must be handed to asynq. Errors as
// of Lose.
func (s *Store) LoseOrEnd(ctx context.Context, a turns.Attempt, own bool, reason string) (next turns.OutboxEntry, ended *Ended, err error) {
	t, err := s.Turn(ctx, a.Turn)
	if err != nil {
		return turns.OutboxEntry{}, nil, err
	}
	run := Run{Thread: t.Thread, Turn: t.ID, Attempt: a.ID, ID: a.Run, Fence: a.Fence}
	if t.MayLose() {
		on, err := s.Lose(ctx, run, own, Successor{
			Service: a.Service, Cause: turns.CauseLost, Reason: reason, Class: turns.ClassLost, Error: reason,
		})
		return on.Outbox, nil, err
	}
	e, err := s.LoseLast(ctx, run, own, turns.Ending{
		Class: turns.ClassLost, Error: reason, Reason: fmt.Sprintf("lost %d times, no loss is left", t.Losses+1),
	})
	return e.Outbox, &e, err
}

package scheduler

import (
	"context"
	"errors"
	"fmt"

	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// retire removes what the retention names, with asynq's archived tasks.
func (r *Reconciler) retire(ctx context.Context, id string) error {
	if r.Retired != nil {
		if err := r.Retired(ctx, id); err != nil {
			return fmt.Errorf("retire %s: %w", id, err)
		}
	}
	if err := r.forgetTasks(ctx, id); err != nil {
		return fmt.Errorf("retire %s: %w", id, err)
	}
	if err := r.Store.Retire(ctx, id); err != nil && !errors.Is(err, store.ErrMoved) {
		return fmt.Errorf("retire %s: %w", id, err)
	}
	return nil
}

// forgetTasks deletes what asynq still has of a lone turn, or of the turns of a
// paired task: archived tasks of dead letters, under any of their ids.
func (r *Reconciler) forgetTasks(ctx context.Context, id string) error {
	ids := []string{id}
	if p, err := r.Store.Paired(ctx, id); err == nil {
		thread, err := r.Store.Thread(ctx, p.Thread)
		if err != nil {
			return err
		}
		_, first, err := turns.ParseTurn(p.First)
		if err != nil {
			first = 1
		}
		ids = nil
		for n := first; n <= thread.Turns; n++ {
			ids = append(ids, turns.TurnID(p.Thread, n))
		}
	}
	for _, turn := range ids {
		t, err := r.Store.Turn(ctx, turn)
		if err != nil || len(ids) > 1 && t.Paired != id {
			continue // a lone turn between two of the paired task has its own retention
		}
		attempts, err := r.Store.Attempts(ctx, t)
		if err != nil {
			return err
		}
		for _, a := range attempts {
			if a.Class == "" {
				continue // it went well: asynq kept nothing
			}
			for k := range unclaimedLooks + listedLooks {
				// Not there is fine: most tasks end without being archived.
				_ = r.Relay.inspector.DeleteTask(tasks.Queue(a.Service), tasks.TaskID(a.ID, k))
			}
		}
	}
	return nil
}

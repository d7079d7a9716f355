package scheduler

import (
	"context"
	"errors"
	"strconv"
	"time"

	"rota/turns/store"
)

// Times and bounds of the check that runs along: it looks at what changed last,
// so that its cost does not grow with what exists. `enqueue verify` looks at all.
const (
	checkEvery     = 30 * time.Second
	checkedThreads = 10 // a check
)

// invariants checks the threads that changed last and counts what is violated.
// It mends nothing: a violation is a fault of ours, or a hand in the store.
func (r *Reconciler) invariants(ctx context.Context, report *Report) error {
	if time.Since(r.checked) < checkEvery {
		return nil
	}
	r.checked = time.Now()
	threads, err := r.Store.Threads(ctx, checkedThreads)
	if err != nil {
		return err
	}
	for _, thread := range threads {
		violations, err := r.Store.Verify(ctx, thread)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		for _, v := range violations {
			report.add(FoundViolation)
			r.Log.Error("invariant violated", "invariant", v.Invariant, "id", v.ID, "text", v.Text)
			if r.Metrics != nil {
				r.Metrics.Violation(strconv.Itoa(v.Invariant))
			}
		}
	}
	return nil
}

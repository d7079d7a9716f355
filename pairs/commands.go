package pairs

import (
	"fmt"

	"rota/turns"
)

// Begin returns the plan of a new paired task, the n-th of its thread: active,
// with the owner's first turn. Whoever numbers that turn sets Paired.First.
func Begin(thread string, n int, crew turns.Crew) (turns.Plan, error) {
	if err := turns.CheckThread(thread); err != nil {
		return turns.Plan{}, err
	}
	if n < 1 {
		return turns.Plan{}, fmt.Errorf("paired task of %s: number %d is below 1", thread, n)
	}
	seat, err := seatOf(turns.Owner, crew, turns.Turn{})
	if err != nil {
		return turns.Plan{}, err
	}
	p := turns.Paired{ID: turns.PairedID(thread, n), Thread: thread, Status: turns.Active}
	return moved(count(p, turns.Work), next(turns.Work, seat, 0)), nil
}

// Retry returns the plan of a person's retry: the status that needs_human was
// reached from, and the same role and intent again. A person's command resets
// the counters. For a lone turn (the zero Paired) that failed or was cancelled,
// it repeats the turn on the turn's own services.
//
// The caller links the new turn to the last one (turns.Turn.RetryOf).
func Retry(p turns.Paired, last turns.Turn, crew turns.Crew) (turns.Plan, error) {
	if p.ID == "" && last.Paired == "" {
		return retryLone(last)
	}
	if err := answerable(p, last); err != nil {
		return turns.Plan{}, fmt.Errorf("retry %s: %w", last.ID, err)
	}
	return again(p, last, crew)
}

// Reply returns the plan of a person's answer to a paired task in needs_human.
// After a failed or cancelled turn the same role and intent is taken again, with
// the human's words; toOwner moves it to the owner. After anything else (an
// escalation, a used-up budget) the owner follows up. A person's command resets
// the counters.
//
// Next.Messages is 0: the caller puts the reply into the thread's waiting
// messages and sets it to how many of them the turn gets.
func Reply(p turns.Paired, last turns.Turn, toOwner bool, crew turns.Crew) (turns.Plan, error) {
	if p.ID == "" {
		return turns.Plan{}, fmt.Errorf("reply to %s: there is no paired task: start one with task", last.Thread)
	}
	if err := answerable(p, last); err != nil {
		return turns.Plan{}, fmt.Errorf("reply to %s: %w", p.ID, err)
	}
	if !toOwner && last.State != turns.Completed {
		return again(p, last, crew)
	}
	return reopen(p, turns.Active, turns.FollowUp, crew, last)
}

// CancelPaired returns the plan that ends a paired task as cancelled. One that
// has ended already stays as it is.
func CancelPaired(p turns.Paired) turns.Plan {
	if p.ID == "" || p.Status.Finished() {
		return turns.Plan{Paired: p}
	}
	p.From, p.Status, p.Reason = p.Status, turns.PairCancelled, "cancelled by a person"
	return moved(p, nil)
}

// answerable returns an error unless the paired task waits for a person after
// its own last turn, and that turn can be resolved.
func answerable(p turns.Paired, last turns.Turn) error {
	switch {
	case p.Status != turns.NeedsHuman:
		return fmt.Errorf("%s is %s and waits for nobody", p.ID, p.Status)
	case last.Paired != p.ID:
		return fmt.Errorf("turn %s does not belong to %s", last.ID, p.ID)
	case !last.State.FinalForTurn():
		return fmt.Errorf("turn %s is still %s", last.ID, last.State)
	}
	return turns.CheckRole(last.Role, last.Intent)
}

// again repeats a turn in the status it was taken in.
func again(p turns.Paired, last turns.Turn, crew turns.Crew) (turns.Plan, error) {
	status := statusOf[last.Intent]
	if p.From != status {
		return turns.Plan{}, fmt.Errorf("%s came from %q, but its last turn %s (%s) belongs to %s",
			p.ID, p.From, last.ID, last.Intent, status)
	}
	return reopen(p, status, last.Intent, crew, last)
}

// reopen leaves needs_human with a turn of the intent and fresh counters.
func reopen(p turns.Paired, to turns.PairedStatus, i turns.Intent, crew turns.Crew, last turns.Turn) (turns.Plan, error) {
	seat, err := seatOf(i.Role(), crew, last)
	if err != nil {
		return turns.Plan{}, err
	}
	p.Status, p.From, p.Reason = to, "", ""
	p.Rounds, p.Arbitrations, p.Turns, p.StepTree = 0, 0, 0, ""
	if i == turns.Review {
		p.Rounds = 1
	}
	if to != turns.MergeReady {
		p.Accepted = ""
	}
	return moved(count(p, i), next(i, seat, 0)), nil
}

func retryLone(last turns.Turn) (turns.Plan, error) {
	if err := turns.CheckRole(last.Role, last.Intent); err != nil {
		return turns.Plan{}, fmt.Errorf("retry %s: %w", last.ID, err)
	}
	if last.State != turns.Failed && last.State != turns.Cancelled {
		return turns.Plan{}, fmt.Errorf("retry %s: it is %s, only a failed or cancelled turn is taken again", last.ID, last.State)
	}
	seat, err := seatOf(last.Role, nil, last)
	if err != nil {
		return turns.Plan{}, fmt.Errorf("retry %s: %w", last.ID, err)
	}
	return turns.Plan{Next: next(last.Intent, seat, 0)}, nil
}

// seatOf returns the configured seat of a role. A turn of the same role lends its
// own where none is configured here, as for a client without a configuration.
func seatOf(r turns.Role, crew turns.Crew, last turns.Turn) (turns.Seat, error) {
	if s := crew[r]; len(s.Services) > 0 {
		return s, nil
	}
	if last.Role == r && len(last.Services) > 0 {
		return turns.Seat{Services: last.Services, Limits: last.Limits}, nil
	}
	return turns.Seat{}, fmt.Errorf("no service is configured for the %s: add it under roles", r)
}

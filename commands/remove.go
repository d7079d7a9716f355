package commands

import (
	"context"
	"errors"
	"strings"

	"rota/turns"
	"rota/turns/store"
)

// Remove deletes what is stored of a thread and its child threads; their turn
// counters stay. A thread with an open turn is a conflict. A repeat with the same key
// removes nothing that came after it.
func (c *Commands) Remove(ctx context.Context, key, id string) (Result, error) {
	if strings.ContainsAny(id, "/#") {
		return Result{}, refuse(Invalid, "name the thread", "remove takes a whole thread, not %s", id)
	}
	ref, err := c.resolveWhole(ctx, id)
	if err != nil {
		return Result{}, refusal("remove "+id, err)
	}
	if before, err := c.removedBefore(ctx, key, ref.Thread); before || err != nil {
		return Result{Thread: ref.Thread, Already: true, Text: doneBefore}, refusal("remove "+id, err)
	}
	err = c.Store.Remove(ctx, ref.Thread)
	if busy, ok := errors.AsType[*store.BusyError](err); ok {
		return Result{}, &Error{Conflict, "remove " + ref.Thread + ": turn " + busy.Turn + " is open", "`enqueue cancel " + busy.Turn + "` ends it", err}
	}
	if err != nil {
		return Result{}, refusal("remove "+ref.Thread, err)
	}
	return Result{Thread: ref.Thread, Text: "removed " + ref.Thread}, nil
}

// removedBefore reports whether a command with this key has removed the thread up to an
// earlier turn than its last one. Else it notes what the command is about to remove.
func (c *Commands) removedBefore(ctx context.Context, key, thread string) (bool, error) {
	if key == "" {
		return false, nil
	}
	t, err := c.Store.Thread(ctx, thread)
	if err != nil {
		return false, err
	}
	last := turns.TurnID(thread, t.Turns)
	aim, err := c.Store.AimedAt(ctx, thread, key)
	if err == nil && aim.Turn == "" && t.OpenTurn == "" {
		aim, err = c.Store.Aim(ctx, thread, key, last, "")
	}
	return aim.Turn != "" && aim.Turn != last, err
}

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
	t, err := c.Store.Thread(ctx, ref.Thread)
	if err != nil {
		return Result{}, refusal("remove "+id, err)
	}
	r, done, err := c.aim(ctx, ref.Thread, key, turns.TurnID(ref.Thread, t.Turns), "", t.OpenTurn == "")
	if done || err != nil {
		r.Turn = "" // it is about the thread
		return r, err
	}
	err = c.Store.Remove(ctx, ref.Thread)
	if busy, ok := errors.AsType[*store.BusyError](err); ok {
		return Result{}, &Error{Conflict, "remove " + ref.Thread + ": turn " + busy.Turn + " is open", "`enqueue cancel " + busy.Turn + "` ends it", err}
	}
	if err != nil {
		return Result{}, refusal("remove "+ref.Thread, err)
	}
	return Result{Thread: ref.Thread, Text: "removed " + ref.Thread, Note: c.comes(ctx, ref.Thread)}, nil
}

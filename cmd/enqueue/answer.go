package main

import (
	"context"
	"strings"
	"time"

	"rota/commands"
	"rota/turns"
)

// answerTime is how long a command waits for the live run's word about a request.
const answerTime = 2 * time.Second

// ownKey returns the command's key, a random one when none was given.
func (m *Main) ownKey() string {
	if m.key == "" {
		return turns.NewToken()
	}
	return m.key
}

// answered prints the result of a request to a live run with what the run said of it.
func (m *Main) answered(ctx context.Context, c *connection, r commands.Result, key string) error {
	r, err := m.heard(ctx, c, r, key)
	if err != nil {
		return err
	}
	if r.Turn == "" { // a repeat, which knows only that it is one
		return m.done(r, r.Thread)
	}
	return m.done(r, r.Turn)
}

// heard waits a moment for what a run says of a request and puts it into the result;
// a command that asked no run stays as it is. An answer to a question that the agent
// did not take is a conflict; a steered text that it did not take is not lost.
func (m *Main) heard(ctx context.Context, c *connection, r commands.Result, key string) (commands.Result, error) {
	if r.Asked == "" {
		return r, nil
	}
	answer, err := c.commands.Answered(ctx, r.Turn, key, answerTime)
	if err != nil {
		return r, err
	}
	why, refused := strings.CutPrefix(oneLine(answer), "not taken: ")
	switch {
	case refused && r.Asked == "respond":
		return r, &exit{exitConflict, "the agent did not take the answer: " + why, "`enqueue requests` lists what it asks", nil}
	case refused && r.Asked == "interrupt":
		r.Note = "the agent does not stop by itself (" + why + "): it is ended"
	case refused:
		r.Note = "the agent did not take it (" + why + "): " + next
	case answer == "taken":
		r.Text += ": taken"
	default:
		return r, m.unheard(ctx, c, &r)
	}
	return r, nil
}

// next is what becomes of a text that no run took.
const next = "it becomes the next human message"

// unheard says how a turn stands whose run said nothing of a request.
func (m *Main) unheard(ctx context.Context, c *connection, r *commands.Result) error {
	t, err := c.store.Turn(ctx, r.Turn)
	switch {
	case err != nil:
		return err
	case t.State.Open():
		r.Note = "the agent has not taken it yet: `enqueue show " + r.Turn + "` says how the turn goes on"
	case r.Asked == "steer":
		r.Note = r.Turn + " ended before the agent took it: " + next
	default:
		r.Note = r.Turn + " has ended (" + string(t.State) + ")"
	}
	return nil
}

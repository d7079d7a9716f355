package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"rota/commands"
	"rota/turns"
)

// waiting are the flags of a command that can wait for the end.
type waiting struct {
	wait    bool
	follow  bool
	timeout time.Duration
}

func (w *waiting) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&w.wait, "wait", false, "wait for the end; the exit status tells it")
	cmd.Flags().BoolVar(&w.follow, "follow", false, "wait, and show on stderr what happens")
	cmd.Flags().DurationVar(&w.timeout, "timeout", 0, "with --wait: give up waiting after this time (exit 6); the work goes on")
}

func (w *waiting) check() error {
	if w.timeout < 0 {
		return usage("", "--timeout %s: it must be positive", w.timeout)
	}
	if w.timeout > 0 && !w.wait && !w.follow {
		return usage("", "--timeout needs --wait or --follow")
	}
	return nil
}

// opened prints what was opened, and waits for its end when that was asked for.
func (m *Main) opened(ctx context.Context, c *connection, r commands.Result, id string, w waiting) error {
	if !w.wait && !w.follow {
		return m.done(r, id)
	}
	fmt.Fprintln(m.err, r.Text)
	m.say(r.Note)
	return m.waitFor(ctx, c, id, w)
}

// waitFor waits for the end of a thread or turn and turns it into the exit status.
func (m *Main) waitFor(ctx context.Context, c *connection, id string, w waiting) error {
	if w.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	p := m.progress(w.follow)
	e, err := c.commands.Wait(ctx, id, p.follow())
	p.clear()
	switch {
	case errors.Is(err, context.DeadlineExceeded) && w.timeout > 0:
		return &exit{exitTimeout, fmt.Sprintf("%s has not ended after %s; it goes on", id, w.timeout), "`enqueue why " + id + "` says what it waits for", err}
	case ctx.Err() != nil:
		return &exit{exitError, "interrupted; " + id + " goes on", "`enqueue cancel " + id + "` ends it", err}
	case err != nil:
		return err
	}
	return m.ended(context.WithoutCancel(ctx), c, id, e)
}

// ended prints the end: the whole as JSON, or the last answer.
func (m *Main) ended(ctx context.Context, c *connection, id string, e commands.Ended) error {
	var v any
	var err error
	if _, _, isTurn := turns.ParseTurn(id); isTurn == nil {
		v, err = c.showTurn(ctx, id)
	} else {
		v, err = c.showThread(ctx, id)
	}
	if err != nil {
		return err
	}
	if m.output != "table" {
		if err := m.printJSON(m.out, v); err != nil {
			return err
		}
	} else if text, err := c.store.Text(ctx, e.Turn.ID); err != nil {
		return err
	} else if text != "" {
		fmt.Fprintln(m.out, text)
	}
	code, what := exitOK, ""
	switch e.End {
	case commands.EndFailed:
		code, what = exitFailed, fmt.Sprintf("%s failed: %s", e.Turn.ID, failure(e.Turn.Class, e.Turn.Error))
	case commands.EndCancelled:
		code, what = exitCancelled, id+" was cancelled"
	case commands.EndNeedsHuman:
		code, what = exitNeedsHuman, id+" waits for you: "+oneLine(e.Reason)
	default:
		return nil
	}
	return &exit{code: code, text: what, hint: "`enqueue why " + id + "` says what to do"}
}

package handlers

import (
	"context"
	"errors"
	"sync"

	"rota/internal/redact"
	"rota/turns"
	"rota/turns/store"
)

// reporter hears what happens in the run and writes it with the run's fence.
type reporter struct {
	w      *work
	once   sync.Once
	proved sync.Once
	err    error
}

// Accepted says that the agent has accepted the prompt: starting becomes running.
func (r *reporter) Accepted() error {
	r.once.Do(func() {
		w := r.w
		ctx, cancel := context.WithTimeout(w.live.ctx, w.live.lease/2)
		defer cancel()
		credential := ""
		if w.choice != nil {
			credential = w.choice.Credential
		}
		_, r.err = retry(ctx, func() (struct{}, error) {
			return struct{}{}, w.handler.Store.Start(ctx, w.live.run, w.live.sessionID(), credential, w.startTree)
		})
		if store.Refused(r.err) {
			w.live.end()
			w.live.cancel(errFenceLost)
			return
		}
		// A start without an answer may have been written: settle ends a run of either
		// kind, compensate only one that has not started.
		w.live.mu.Lock()
		w.started = true
		w.live.mu.Unlock()
		if r.err == nil {
			w.handler.moved(turns.VerbStart, w.records, turns.Running)
			w.handler.Log.Info("agent accepted the prompt", w.handler.attrs(w.records, w.live.run)...)
		}
	})
	return r.err
}

// Session names the agent's session.
func (r *reporter) Session(id string) { r.w.live.setSession(id) }

// Progress says how far the run came. The first word of a probe proves its login.
func (r *reporter) Progress(level turns.Progress, text string) {
	r.w.live.report(level, r.w.hidden(text))
	if r.w.choice == nil || !r.w.choice.Probe || level == turns.ProgressNone {
		return
	}
	r.proved.Do(func() {
		ctx, cancel := context.WithTimeout(r.w.live.ctx, r.w.live.lease/2)
		defer cancel()
		r.w.handler.loginWorked(ctx, r.w)
	})
}

// Item opens or closes an item.
func (r *reporter) Item(item turns.Item) error {
	w := r.w
	item.Title = redact.Text(w.hidden(item.Title))
	if item.Turn == "" && item.Thread == "" {
		item.Turn = w.records.Turn.ID
	}
	ctx, cancel := context.WithTimeout(w.live.ctx, w.live.lease/2)
	defer cancel()
	_, err := w.handler.Store.Item(ctx, w.live.run, item)
	if err == nil && item.Kind == turns.ItemRequest {
		w.live.question(item, func(q turns.Item) { w.handler.unanswered(w, q) })
	}
	switch {
	case err == nil, errors.Is(err, store.ErrStale):
		return err
	case errors.Is(err, store.ErrFull):
		w.handler.Log.Warn("item not recorded", "attempt", w.live.run.Attempt, "err", err)
		return nil
	}
	// Redis is away: an item that is not shown is no reason to stop a healthy agent.
	w.handler.Log.Warn("item not recorded", "attempt", w.live.run.Attempt, "err", err)
	return nil
}

package handlers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rota/agents"
	"rota/turns"
	"rota/turns/store"
)

// deliver brings the requests that a run has not seen to its agent.
func (r *Runs) deliver(ctx context.Context, l *live, asks int) {
	l.mu.Lock()
	seen := l.asks
	l.mu.Unlock()
	if asks <= seen {
		return
	}
	list, err := r.store.Asks(ctx, l.run.Turn, seen)
	if err != nil {
		r.log.Warn("requests not read", "turn", l.run.Turn, "err", err)
		return
	}
	for i, ask := range list {
		if ask.Answer == "" {
			r.pass(l, ask, seen+i < l.before)
		}
	}
	l.mu.Lock()
	l.asks = seen + len(list)
	l.mu.Unlock()
}

// stopGrace is how long an agent has to stop by itself after an interrupt.
const stopGrace = 10 * time.Second

// pass hands a request to the agent. One that was made to an earlier run, which
// ended before it marked it, is handed over again: a steered text marked so.
func (r *Runs) pass(l *live, ask store.Ask, repeat bool) {
	control := agents.Control{Kind: agents.ControlKind(ask.Kind), ID: ask.ID, Text: ask.Text, Item: ask.Item}
	if repeat && control.Kind == agents.Steer {
		control.Text = again + ask.Text
	}
	if control.Kind == agents.Interrupt {
		time.AfterFunc(stopGrace, func() { l.cancel(errInterrupt) })
	}
	control.Done = func(err error) {
		answer, taken := "taken", ask
		if err != nil {
			answer = "not taken: " + err.Error()
			// A steered text that the agent can't take stays and becomes the next
			// human message.
			taken.Kind = "untaken"
			if control.Kind == agents.Interrupt {
				l.cancel(errInterrupt)
			}
		}
		bound, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), 10*time.Second)
		defer cancel()
		r.log.Info("request answered", "turn", l.run.Turn, "attempt", l.run.Attempt, "kind", ask.Kind, "request", ask.ID, "answer", answer)
		if err := r.store.Taken(bound, l.run, taken, answer); err != nil && !errors.Is(err, store.ErrStale) {
			r.log.Warn("request not marked", "turn", l.run.Turn, "request", ask.ID, "err", err)
		}
	}
	select {
	case l.controls <- control:
	default:
		control.Done(errors.New("too many requests wait for the agent"))
	}
}

// Hurry makes the renewal of an attempt's run happen now, with which its requests
// come, if the run is one of these. It reports whether it is.
func (r *Runs) Hurry(attempt string) bool {
	for _, l := range r.list() {
		if l.run.Attempt == attempt {
			r.Kick()
			return true
		}
	}
	return false
}

// again marks a steered text that an earlier run of the turn may have taken.
const again = "(Said while an earlier run of this turn was at work; it may have been taken into account already.)\n\n"

// earlier returns how many requests were made to earlier runs of a turn: what of
// them is not answered comes to the next run again, marked so. An interrupt of
// what a person restarted or handed off since is answered: it has no one to stop.
func (r *Runs) earlier(ctx context.Context, run store.Run, c turns.Cause) int {
	bound, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	asks, err := r.store.Asks(bound, run.Turn, 0)
	if err != nil {
		r.log.Warn("requests not read", "turn", run.Turn, "err", err)
	}
	for _, a := range asks {
		if a.Answer != "" || agents.ControlKind(a.Kind) != agents.Interrupt || c != turns.CauseRestart && c != turns.CauseOperator {
			continue
		}
		if err := r.store.Taken(bound, run, a, "not taken: the turn was begun anew"); err != nil {
			r.log.Warn("request not marked", "turn", run.Turn, "request", a.ID, "err", err)
		}
	}
	return len(asks)
}

// question is an open question of a run's agent to a person.
type question struct {
	item  turns.Item
	timer *time.Timer
}

// question notes that the agent has asked a person, or that the question is
// closed. When nobody answers in time, the agent is told no, and the question's
// item says why it ended.
func (l *live) question(item turns.Item, expired func(turns.Item)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.questions == nil {
		l.questions = map[string]question{}
	}
	q, open := l.questions[item.ID]
	switch {
	case item.State == turns.ItemOpen && !open:
		limit := l.turn.Limits.WithDefaults().Silence
		l.questions[item.ID] = question{item: item, timer: time.AfterFunc(limit, func() { expired(item) })}
	case item.State != turns.ItemOpen && open:
		q.timer.Stop()
		delete(l.questions, item.ID)
	}
}

// silence stops the clocks of open questions: the run is over.
func (l *live) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.questions {
		q.timer.Stop()
	}
	l.questions = nil
}

// unanswered ends a question that nobody answered in time: its item says so, and
// the agent is told no. One that can't take an answer goes on or falls silent.
func (h *Handler) unanswered(w *work, item turns.Item) {
	ctx, cancel := context.WithTimeout(w.live.ctx, w.live.lease)
	defer cancel()
	item.State = turns.ItemCancelled
	item.Title += fmt.Sprintf(" (nobody answered within %s)", w.live.turn.Limits.WithDefaults().Silence)
	h.Log.Warn("question not answered in time", append(h.attrs(w.records, w.live.run), "item", item.ID)...)
	if _, err := h.Store.Item(ctx, w.live.run, item); err != nil {
		h.Log.Warn("item not recorded", "attempt", w.live.run.Attempt, "err", err)
	}
	w.live.question(item, nil)
	told := func(err error) {
		if err != nil {
			h.Log.Info("agent can't be told that nobody answered", "attempt", w.live.run.Attempt, "item", item.ID, "err", err)
		}
	}
	select {
	case w.live.controls <- agents.Control{Kind: agents.Respond, ID: "unanswered:" + item.ID, Item: item.ID, Text: "no", Done: told}:
	default:
	}
}

package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"rota/turns"
	"rota/turns/store"
)

// fill stores at least n turns in all states, as workers and people leave them, and
// returns their number.
func fill(t *testing.T, s *store.Store, n int) int64 {
	t.Helper()
	kinds := []struct {
		name  string
		turns int
		play  func(h *history, thread string)
	}{
		{"paired", 3, (*history).completed},
		{"waits", 1, (*history).waiting},
		{"queued", 1, func(h *history, thread string) { h.lone(thread) }},
		{"running", 1, func(h *history, thread string) { h.run(h.lone(thread)) }},
		{"handed", 1, (*history).handed},
		{"human", 1, (*history).failed},
		{"gone", 1, (*history).cancelled},
		{"lost", 1, (*history).lost},
	}
	each := 0
	for _, k := range kinds {
		each += k.turns
	}
	rounds := (n + each - 1) / each
	const hands = 8
	errs := make([]error, hands)
	var all sync.WaitGroup
	for hand := range hands {
		all.Go(func() {
			h := &history{ctx: t.Context(), s: s}
			for i := hand; i < rounds && h.err == nil; i += hands {
				for _, k := range kinds {
					k.play(h, fmt.Sprintf("%s-%d", k.name, i))
				}
			}
			errs[hand] = h.err
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	return int64(rounds * each)
}

// history plays what happens to turns. After the first error it does nothing more.
type history struct {
	ctx context.Context
	s   *store.Store
	err error
}

func (h *history) lone(thread string) turns.OutboxEntry { return h.open(thread, nil) }

func (h *history) paired(thread string) turns.OutboxEntry {
	return h.open(thread, &turns.Paired{ID: turns.PairedID(thread, 1), Thread: thread, Version: 1, Status: turns.Active, Turns: 1})
}

func (h *history) open(thread string, p *turns.Paired) turns.OutboxEntry {
	if h.err != nil {
		return turns.OutboxEntry{}
	}
	o, err := h.s.OpenTurn(h.ctx, store.NewTurn{Command: "fill", Thread: thread, Role: turns.Owner, Intent: turns.Work,
		Seat: verifyCrew[turns.Owner], Prompt: "do the work", Paired: p, New: p != nil})
	h.err = err
	return o.Outbox
}

// run claims an attempt and starts its agent.
func (h *history) run(e turns.OutboxEntry) store.Run {
	if h.err != nil {
		return store.Run{}
	}
	a, err := h.s.Claim(h.ctx, store.Claim{Attempt: e.Attempt, Service: e.Service, Role: e.Role, Intent: e.Intent, Stamp: e.Stamp,
		Run: turns.NewToken(), Worker: "w1", Agent: "scripted"})
	if err == nil && a.Answer != store.Claimed {
		err = fmt.Errorf("claim %s: %s", e.Attempt, a.Answer)
	}
	if err == nil {
		err = h.s.Start(h.ctx, a.Run, "", "", "tree")
	}
	h.err = err
	return a.Run
}

// settle runs an attempt to its end and returns the next turn's.
func (h *history) settle(e turns.OutboxEntry, end turns.Ending) turns.OutboxEntry {
	r := h.run(e)
	if h.err != nil {
		return turns.OutboxEntry{}
	}
	ended, err := h.s.Settle(h.ctx, r, end)
	h.err = err
	return ended.Outbox
}

func said(o turns.Outcome) turns.Ending {
	return turns.Ending{State: turns.Completed, Outcome: o, Text: "said " + string(o), Tree: "tree"}
}

func (h *history) completed(thread string) {
	h.settle(h.settle(h.settle(h.paired(thread), said(turns.Done)), said(turns.Approve)), said(turns.Done))
}

func (h *history) failed(thread string) {
	h.settle(h.paired(thread), turns.Ending{State: turns.Failed, Class: turns.ClassCrash, Error: "it crashed"})
}

func (h *history) waiting(thread string) {
	if r := h.run(h.lone(thread)); h.err == nil {
		_, h.err = h.s.Replace(h.ctx, r, store.Successor{Service: "codex-main", Cause: turns.CauseWait, Reason: "needs_login", Delay: time.Hour, Class: turns.ClassAuth, Error: "401"})
	}
}

func (h *history) handed(thread string) {
	if r := h.run(h.lone(thread)); h.err == nil {
		_, h.err = h.s.Delegate(h.ctx, r, store.Successor{Service: "codex-spare", Cause: turns.CauseHandoff, Class: turns.ClassQuota, Error: "used up"})
	}
}

func (h *history) lost(thread string) {
	if r := h.run(h.lone(thread)); h.err == nil {
		_, h.err = h.s.Lose(h.ctx, r, true, store.Successor{Service: "codex-main", Cause: turns.CauseLost})
	}
}

func (h *history) cancelled(thread string) {
	if e := h.lone(thread); h.err == nil {
		_, h.err = h.s.Cancel(h.ctx, e.Turn, "cancel", "enough")
	}
}

package commands_test

import (
	"testing"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
)

// A turn's priority goes with it through handoffs and a retry, and into the entry
// that the relay sees.
func TestPriorityStaysWithTheTurn(t *testing.T) {
	d := newDesk(t, redistest.Mini(t))
	r := d.must(d.c.Turn(d.ctx, commands.TurnAsk{Thread: "a", Text: "now", Role: turns.Reviewer, High: true}))
	high := func(e turns.OutboxEntry) {
		t.Helper()
		w, err := d.s.Waiter(d.ctx, e.Attempt)
		if err != nil || !w.Entry.High || !e.High {
			t.Fatalf("%+v, %+v, %v", e, w.Entry, err)
		}
	}
	high(r.Entry)
	high(d.must(d.c.Handoff(d.ctx, "", "a/1", "codex-review")).Entry)
	high(d.must(d.c.Retry(d.ctx, "", "a/1")).Entry)
	d.end("a", "")
	high(d.must(d.c.Retry(d.ctx, "", "a/1")).Entry)
	d.lone("b")
	if w, err := d.s.Waiter(d.ctx, "b/1.1"); err != nil || w.Entry.High {
		t.Fatal(w, err)
	}
}

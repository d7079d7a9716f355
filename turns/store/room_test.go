package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"rota/turns"
	"rota/turns/store"
)

// Messages and steered texts that wait are bounded in bytes, so that what was
// accepted fits into one turn; the refusal says which bound it met.
func TestTooManyBytesWait(t *testing.T) {
	each(t, func(w *world) {
		r := w.runs(w.paired("fix"))
		text := strings.Repeat("x", store.MaxPrompt*4/5)
		fill := func(add func(n int) error) (n int) {
			for {
				err := add(n)
				if err == nil {
					n++
					continue
				}
				if !errors.Is(err, store.ErrFull) || !strings.Contains(err.Error(), "bytes") {
					w.Errorf("the refusal does not say which bound: %v", err)
				}
				return n
			}
		}
		steer := func(n int) error {
			return w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: fmt.Sprint("a", n), Kind: "steer", Text: text})
		}
		say := func(n int) error {
			_, err := w.s.Say(w.ctx, "fix", fmt.Sprint("m", n), turns.Message{Text: text})
			return err
		}
		steered, said := fill(steer), fill(say)
		w.must(say(0)) // a repeat of what was accepted
		w.must(steer(0))
		w.must(w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: "stop", Kind: "interrupt"})) // carries no text
		if _, err := w.s.Say(w.ctx, "fix", "small", turns.Message{Text: "there is room for this"}); err != nil {
			w.Error(err)
		}
		if size := (said + steered) * len(text); said < 2 || steered < 2 || size > store.MaxSaid {
			w.Fatalf("%d messages and %d steered texts: %d bytes of %d", said, steered, size, store.MaxSaid)
		}

		// They are taken up together, and then there is room again.
		ended, err := w.s.Settle(w.ctx, r, done())
		w.must(err)
		got, err := w.s.Said(w.ctx, ended.Next)
		w.must(err)
		if len(got) != said+1+steered {
			w.Errorf("%d messages arrived, want %d", len(got), said+1+steered)
		}
		_, err = w.s.Say(w.ctx, "fix", "again", turns.Message{Text: text})
		w.must(err)
		w.sound()
	})
}

// Steered texts that no run took in turn after turn don't pile up without a bound.
func TestSteersOfManyTurnsAreBounded(t *testing.T) {
	each(t, func(w *world) {
		text := strings.Repeat("x", store.MaxPrompt)
		accepted := 0
		for n := range 12 {
			r := w.runs(w.lone("fix", turns.Reviewer)) // a lone turn takes no messages
			for k := range 12 {
				if w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: fmt.Sprint(n, "-", k), Kind: "steer", Text: text}) == nil {
					accepted++
				}
			}
			_, err := w.s.Settle(w.ctx, r, completed())
			w.must(err)
		}
		waiting, err := w.s.Waiting(w.ctx, "fix")
		w.must(err)
		if size := len(waiting) * len(text); len(waiting) != accepted || accepted == 0 || size > store.MaxSaid {
			w.Errorf("%d of %d accepted texts wait: %d bytes", len(waiting), accepted, size)
		}
	})
}

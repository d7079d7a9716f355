package integration

import (
	"errors"
	"strings"
	"testing"

	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// A final turn does not flip by a late write: every verb of its old run is refused.
func TestFinalIsFinal(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{roles: map[string][]string{"owner": {"codex-main"}}})
	r.startAll()
	turn := r.lone("one", turns.Owner)
	r.ends(turn)
	a := r.attempt(turn + ".1")
	ctx, run := t.Context(), store.Run{Thread: "one", Turn: turn, Attempt: a.ID, ID: "0123456789abcdef", Fence: a.Fence}
	before, log := r.turn(turn), r.log(turn)
	failed := turns.Ending{State: turns.Failed, Class: turns.ClassCrash, Error: "late"}
	for name, write := range map[string]func(store.Run) error{
		"start":      func(run store.Run) error { return r.store.Start(ctx, run, "", "", "") },
		"requeue":    func(run store.Run) error { return r.store.Requeue(ctx, run, store.Requeue{}) },
		"settle":     func(run store.Run) error { _, err := r.store.Settle(ctx, run, failed); return err },
		"compensate": func(run store.Run) error { _, err := r.store.Compensate(ctx, run, failed); return err },
		"replace": func(run store.Run) error {
			_, err := r.store.Replace(ctx, run, store.Successor{Service: "codex-main", Cause: turns.CauseRetry})
			return err
		},
		"delegate": func(run store.Run) error {
			_, err := r.store.Delegate(ctx, run, store.Successor{Service: "codex-main", Cause: turns.CauseHandoff})
			return err
		},
		"lose": func(run store.Run) error {
			_, _, err := r.store.LoseOrEnd(ctx, turns.Attempt{ID: run.Attempt, Turn: turn, Service: "codex-main", Run: run.ID, Fence: run.Fence}, true, "late")
			return err
		},
		"item": func(run store.Run) error {
			_, err := r.store.Item(ctx, run, turns.Item{ID: "late", Kind: turns.ItemTool, State: turns.ItemOpen, Thread: "one", Turn: turn})
			return err
		},
	} {
		if err := write(run); !store.Refused(err) {
			t.Errorf("%s of a stale run: %v", name, err)
		}
		// The right run, after its own end: refused too, or answered "already".
		own := run
		own.ID = a.Run
		if err := write(own); err != nil && !store.Refused(err) {
			t.Errorf("%s of the old run: %v", name, err)
		}
	}
	if _, err := r.store.Cancel(ctx, turn, "late", "late"); err == nil || !isFinal(err) {
		t.Errorf("cancel: %v", err)
	}
	if after := r.turn(turn); after.State != before.State || after.Error != before.Error || len(r.log(turn)) != len(log) {
		t.Errorf("the turn became %+v", after)
	}
}

func isFinal(err error) bool {
	var final *store.FinalError
	return errors.As(err, &final)
}

func (r *rig) log(turn string) []turns.Entry {
	r.t.Helper()
	list, err := r.store.Log(r.t.Context(), turn)
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// What counts as a verdict, through the whole way from an agent's output: prose is
// none, a failed run's text is never parsed, and what is stored is what the one
// parser says.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{
		roles:  map[string][]string{"owner": {"codex-main"}, "reviewer": {"claude"}},
		limits: "{lease: 3s, start: 5s, silence: 50s, run: 90s, grace: 1s, deliveries: 1, reminders: 1, rounds: 9}", services: map[string]string{"claude": "concurrency: 2", "codex-main": "concurrency: 2"},
	})
	texts := map[string]string{
		"plain":      "Looks right.\nVERDICT: approve",
		"bold":       "**VERDICT: changes**\nThe test is missing.",
		"prose":      "Done with part 1, tests failing",
		"approved":   "I approve of this.",
		"two":        "VERDICT: approve\nVERDICT: approve",
		"owners":     "VERDICT: done",
		"misspelt":   "verdict: approved",
		"in-code":    "```\nVERDICT: approve\n```",
		"in-between": "Yes.\nVERDICT: approve\nBut the test fails.",
	}
	rules := []rule{
		{Role: "owner", Steps: []string{"result done"}},
		{Role: "reviewer", Thread: "crashed", Steps: []string{"print VERDICT: approve", "exit 3"}},
		{Role: "reviewer", Thread: "refused", Steps: []string{"result approve", "error config bad model"}},
		{Role: "reviewer", Thread: "killed", Steps: []string{"result approve", "kill"}},
	}
	for name, text := range texts {
		var steps []string
		for line := range strings.Lines(text) {
			steps = append(steps, "print "+strings.TrimSpace(line))
		}
		rules = append(rules, rule{Role: "reviewer", Thread: name, Steps: steps})
	}
	r.rules(rules...)
	r.startAll()
	for _, rule := range rules[1:] {
		r.task(rule.Thread)
	}
	for name, text := range texts {
		want, err := pairs.ParseVerdict(turns.Reviewer, text)
		u := r.ends(name + "/2")
		switch {
		case err == nil && (u.State != turns.Completed || u.Outcome != want):
			t.Errorf("%s: %s %s, want %s", name, u.State, u.Outcome, want)
		case err != nil && (u.State != turns.Failed || u.Class != turns.ClassNoVerdict || u.Outcome != ""):
			t.Errorf("%s: %s %s %s, want no verdict", name, u.State, u.Class, u.Outcome)
		case err != nil && len(r.attempts(u.ID)) != 2:
			t.Errorf("%s: %d attempts, want a reminder", name, len(r.attempts(u.ID)))
		}
		if err != nil {
			r.rests(name, turns.NeedsHuman)
		}
	}
	for _, name := range []string{"crashed", "refused", "killed"} {
		if u := r.ends(name + "/2"); u.State != turns.Failed || u.Outcome != "" {
			t.Errorf("%s: %s %s; a failed run's text is no verdict", name, u.State, u.Outcome)
		}
		r.rests(name, turns.NeedsHuman)
	}
	// The owner's task of "bold" goes on in rounds until the end of the test.
	if _, err := r.commands.Cancel(t.Context(), "", "bold"); err != nil {
		t.Error(err)
	}
}

package pairs

import (
	"slices"
	"testing"

	"rota/turns"
)

func TestBegin(t *testing.T) {
	got, err := Begin("fix", 2, crew)
	if err != nil {
		t.Fatal(err)
	}
	p := got.Paired
	if p.ID != "fix#2" || p.Status != turns.Active || p.Version != 1 || p.Turns != 1 || !got.Moved {
		t.Errorf("began %+v", got)
	}
	if opened(got) != turns.Work || !slices.Equal(got.Next.Services, crew[turns.Owner].Services) {
		t.Errorf("first turn %+v", got.Next)
	}
	for name, f := range map[string]func() (turns.Plan, error){
		"bad thread": func() (turns.Plan, error) { return Begin("Fix It", 1, crew) },
		"number 0":   func() (turns.Plan, error) { return Begin("fix", 0, crew) },
		"no owner":   func() (turns.Plan, error) { return Begin("fix", 1, without(turns.Owner)) },
	} {
		if plan, err := f(); err == nil || plan != (turns.Plan{}) {
			t.Errorf("%s: %+v, %v", name, plan, err)
		}
	}
}

// waiting returns a paired task that waits for a person after a turn of the
// intent ended so.
func waiting(i turns.Intent, s turns.State) (turns.Paired, turns.Turn) {
	p := turns.Paired{ID: "fix#1", Thread: "fix", Version: 9, Status: turns.NeedsHuman, From: statusOf[i],
		Rounds: 2, Arbitrations: 3, Turns: 40, Accepted: "t1", StepTree: "t1", Reason: "why"}
	last := turns.Turn{ID: "fix/8", Thread: "fix", Paired: "fix#1", Role: i.Role(), Intent: i, State: s}
	return p, last
}

func TestRetryAndReplyKeepTheRole(t *testing.T) {
	for _, i := range turns.Intents {
		for _, s := range []turns.State{turns.Completed, turns.Failed, turns.Cancelled} {
			p, last := waiting(i, s)
			retried, err := Retry(p, last, crew)
			expect(t, "retry", retried, err, i, statusOf[i])
			replied, err := Reply(p, last, false, crew)
			if s == turns.Completed {
				expect(t, "reply after an escalation", replied, err, turns.FollowUp, turns.Active)
			} else {
				expect(t, "reply", replied, err, i, statusOf[i])
			}
			moved, err := Reply(p, last, true, crew)
			expect(t, "reply to the owner", moved, err, turns.FollowUp, turns.Active)
		}
	}
}

func expect(t *testing.T, what string, got turns.Plan, err error, i turns.Intent, s turns.PairedStatus) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	p := got.Paired
	if opened(got) != i || p.Status != s || !got.Moved || p.Version != 10 {
		t.Errorf("%s: %+v, next %+v; want %s in %s", what, p, got.Next, i, s)
	}
	if p.Turns != 1 || p.Rounds > 1 || p.Arbitrations > 1 || p.From != "" || p.Reason != "" || p.StepTree != "" {
		t.Errorf("%s: the counters were not reset: %+v", what, p)
	}
	if (p.Accepted != "") != (s == turns.MergeReady) {
		t.Errorf("%s: accepted tree %q in %s", what, p.Accepted, s)
	}
}

func TestRetryAndReplyRefuse(t *testing.T) {
	for name, change := range map[string]func(*turns.Paired, *turns.Turn){
		"an active task":          func(p *turns.Paired, _ *turns.Turn) { p.Status = turns.Active },
		"a completed task":        func(p *turns.Paired, _ *turns.Turn) { p.Status = turns.PairCompleted },
		"a cancelled task":        func(p *turns.Paired, _ *turns.Turn) { p.Status = turns.PairCancelled },
		"another task's turn":     func(_ *turns.Paired, l *turns.Turn) { l.Paired = "fix#2" },
		"an open turn":            func(_ *turns.Paired, l *turns.Turn) { l.State = turns.Running },
		"a turn without a role":   func(_ *turns.Paired, l *turns.Turn) { l.Role = "" },
		"role against intent":     func(_ *turns.Paired, l *turns.Turn) { l.Role = turns.Owner },
		"a turn of other status":  func(p *turns.Paired, _ *turns.Turn) { p.From = turns.Active },
		"a status without origin": func(p *turns.Paired, _ *turns.Turn) { p.From = "" },
	} {
		p, last := waiting(turns.Review, turns.Failed)
		change(&p, &last)
		if got, err := Retry(p, last, crew); err == nil || got != (turns.Plan{}) {
			t.Errorf("retry of %s: %+v, %v", name, got, err)
		}
		if got, err := Reply(p, last, false, crew); err == nil || got != (turns.Plan{}) {
			t.Errorf("reply to %s: %+v, %v", name, got, err)
		}
	}
	p, last := waiting(turns.Review, turns.Failed)
	if got, err := Retry(p, last, without(turns.Reviewer)); err == nil {
		t.Errorf("retry without a reviewer: %+v", got)
	}
	if _, err := Reply(turns.Paired{}, turns.Turn{Thread: "fix"}, true, crew); err == nil {
		t.Error("reply without a paired task")
	}
}

func TestRetryUsesTheTurnsOwnSeatWithoutConfiguration(t *testing.T) {
	p, last := waiting(turns.Review, turns.Failed)
	last.Services = []string{"claude"}
	got, err := Retry(p, last, nil)
	if err != nil || got.Next.Role != turns.Reviewer || !slices.Equal(got.Next.Services, last.Services) {
		t.Errorf("%+v, %v", got.Next, err)
	}
	if got, err := Reply(p, last, true, nil); err == nil {
		t.Errorf("the reviewer's services were given to the owner: %+v", got.Next)
	}
}

func TestRetryOfALoneTurn(t *testing.T) {
	last := turns.Turn{ID: "fix/1", Role: turns.Reviewer, Intent: turns.Review, State: turns.Failed, Services: []string{"codex-review"}}
	got, err := Retry(turns.Paired{}, last, crew)
	if err != nil || got.Moved || got.Paired != (turns.Paired{}) || opened(got) != turns.Review || got.Next.Services[0] != "codex-review" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, s := range turns.States {
		last.State = s
		if _, err := Retry(turns.Paired{}, last, crew); (err == nil) != (s == turns.Failed || s == turns.Cancelled) {
			t.Errorf("retry of a %s turn: %v", s, err)
		}
	}
	last.State, last.Role = turns.Failed, ""
	if _, err := Retry(turns.Paired{}, last, crew); err == nil {
		t.Error("retry of a turn without a role")
	}
}

func TestCancelPaired(t *testing.T) {
	for _, s := range turns.PairedStatuses {
		p := turns.Paired{ID: "fix#1", Status: s, Version: 4}
		got := CancelPaired(p)
		switch {
		case s.Finished():
			if got.Moved || got.Paired != p {
				t.Errorf("a task that is %s became %+v", s, got.Paired)
			}
		case got.Paired.Status != turns.PairCancelled || got.Paired.Version != 5 || !got.Moved || got.Next != nil:
			t.Errorf("a task that is %s became %+v", s, got)
		}
	}
}

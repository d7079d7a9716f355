package pairs

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"rota/turns"
)

var crew = turns.Crew{
	turns.Owner:    {Services: []string{"codex-main"}},
	turns.Reviewer: {Services: []string{"claude", "codex-review"}},
	turns.Arbiter:  {Services: []string{"claude"}},
}

func without(r turns.Role) turns.Crew {
	c := turns.Crew{}
	for role, seat := range crew {
		if role != r {
			c[role] = seat
		}
	}
	return c
}

// ended returns a completed turn of the intent with the outcome, in the status
// that such turns are taken in.
func ended(i turns.Intent, o turns.Outcome) turns.View {
	return turns.View{
		Turn:   turns.Turn{ID: "fix/3", Thread: "fix", Paired: "fix#1", Role: i.Role(), Intent: i},
		Ending: turns.Ending{State: turns.Completed, Outcome: o, Tree: "t2", StartTree: "t1"},
		Paired: turns.Paired{ID: "fix#1", Thread: "fix", Version: 7, Status: statusOf[i], Rounds: 1, Arbitrations: 1, Turns: 5},
		Crew:   crew,
	}
}

func with(v turns.View, change func(*turns.View)) turns.View {
	change(&v)
	return v
}

// want is a row of the expected workflow, in words of its own.
type want struct {
	name   string
	view   turns.View
	status turns.PairedStatus
	next   turns.Intent
	rounds int
	reason string // a part of it, for needs_human
}

func workflow() []want {
	return []want{
		{"done is reviewed", ended(turns.Work, turns.Done), turns.ReviewReady, turns.Review, 2, ""},
		{"concerns are reviewed", ended(turns.FollowUp, turns.DoneWithConcerns), turns.ReviewReady, turns.Review, 2, ""},
		{"a step is reviewed", ended(turns.Work, turns.StepDone), turns.ReviewReady, turns.Review, 2, ""},
		{"a second step with another tree is reviewed", with(ended(turns.FollowUp, turns.StepDone), func(v *turns.View) { v.Paired.StepTree = "t1" }),
			turns.ReviewReady, turns.Review, 2, ""},
		{"a second step with the same tree is a deadlock", with(ended(turns.FollowUp, turns.StepDone), func(v *turns.View) { v.Paired.StepTree = "t2" }),
			turns.ArbiterRequested, turns.Arbitrate, 1, ""},
		{"without git the second step has the same tree", with(ended(turns.FollowUp, turns.StepDone), func(v *turns.View) {
			v.Ending.Tree, v.Paired.StepTree = "", "none"
		}), turns.ArbiterRequested, turns.Arbitrate, 1, ""},
		{"without git the first step is reviewed", with(ended(turns.Work, turns.StepDone), func(v *turns.View) { v.Ending.Tree = "" }),
			turns.ReviewReady, turns.Review, 2, ""},
		{"a blocked owner needs the arbiter", ended(turns.Work, turns.Blocked), turns.ArbiterRequested, turns.Arbitrate, 1, ""},
		{"an owner without context needs the arbiter", ended(turns.FollowUp, turns.NeedsContext), turns.ArbiterRequested, turns.Arbitrate, 1, ""},

		{"approval is finalized", ended(turns.Review, turns.Approve), turns.MergeReady, turns.Finalize, 0, ""},
		{"changes go to the owner", ended(turns.Review, turns.Changes), turns.Active, turns.FollowUp, 1, ""},
		{"changes in round 2 go to the arbiter", with(ended(turns.Review, turns.Changes), func(v *turns.View) { v.Paired.Rounds = 2 }),
			turns.ArbiterRequested, turns.Arbitrate, 2, ""},
		{"changes in round 2 of 3 go to the owner", with(ended(turns.Review, turns.Changes), func(v *turns.View) {
			v.Paired.Rounds, v.Rules.Rounds = 2, 3
		}), turns.Active, turns.FollowUp, 2, ""},
		{"a blocked reviewer needs the arbiter", ended(turns.Review, turns.Blocked), turns.ArbiterRequested, turns.Arbitrate, 1, ""},
		{"a reviewer without context needs the arbiter", ended(turns.Review, turns.NeedsContext), turns.ArbiterRequested, turns.Arbitrate, 1, ""},

		{"finalized as accepted completes", with(ended(turns.Finalize, turns.Done), func(v *turns.View) { v.Paired.Accepted = "t2" }),
			turns.PairCompleted, "", 1, ""},
		{"finalized without git completes", with(ended(turns.Finalize, turns.Done), func(v *turns.View) { v.Ending.Tree = "" }),
			turns.PairCompleted, "", 1, ""},
		{"finalized with a change is reviewed again", with(ended(turns.Finalize, turns.Done), func(v *turns.View) { v.Paired.Accepted = "t1" }),
			turns.ReviewReady, turns.Review, 2, ""},
		{"a finalizing step is reviewed", with(ended(turns.Finalize, turns.StepDone), func(v *turns.View) { v.Paired.Accepted = "t2" }),
			turns.ReviewReady, turns.Review, 2, ""},
		{"finalizing with concerns is reviewed", with(ended(turns.Finalize, turns.DoneWithConcerns), func(v *turns.View) { v.Paired.Accepted = "t2" }),
			turns.ReviewReady, turns.Review, 2, ""},
		{"finalizing blocked needs the arbiter", ended(turns.Finalize, turns.Blocked), turns.ArbiterRequested, turns.Arbitrate, 1, ""},
		{"finalizing without context needs the arbiter", ended(turns.Finalize, turns.NeedsContext), turns.ArbiterRequested, turns.Arbitrate, 1, ""},

		{"the arbiter lets it proceed", ended(turns.Arbitrate, turns.Proceed), turns.ReviewReady, turns.Review, 0, ""},
		{"the arbiter has it revised", ended(turns.Arbitrate, turns.Revise), turns.Active, turns.FollowUp, 0, ""},
		{"the arbiter resets", ended(turns.Arbitrate, turns.Reset), turns.Active, turns.FollowUp, 0, ""},
		{"the arbiter escalates", with(ended(turns.Arbitrate, turns.Escalate), func(v *turns.View) { v.Ending.Text = "which\nlicence?" }),
			turns.NeedsHuman, "", 1, "asks for a person: which licence?"},

		{"no arbiter configured", with(ended(turns.Work, turns.Blocked), func(v *turns.View) { v.Crew = without(turns.Arbiter) }),
			turns.NeedsHuman, "", 1, "none is configured"},
		{"no reviewer configured", with(ended(turns.Work, turns.Done), func(v *turns.View) { v.Crew = without(turns.Reviewer) }),
			turns.NeedsHuman, "", 1, "no service is configured for the reviewer"},
		{"arbitrations used up", with(ended(turns.Work, turns.Blocked), func(v *turns.View) { v.Paired.Arbitrations = 3 }),
			turns.NeedsHuman, "", 1, "all 3 arbitrations"},
		{"one arbitration left", with(ended(turns.Work, turns.Blocked), func(v *turns.View) { v.Paired.Arbitrations = 2 }),
			turns.ArbiterRequested, turns.Arbitrate, 1, ""},
		{"turns used up", with(ended(turns.Work, turns.Done), func(v *turns.View) { v.Paired.Turns = 40 }),
			turns.NeedsHuman, "", 1, "all 40 turns"},
		{"one turn left", with(ended(turns.Work, turns.Done), func(v *turns.View) { v.Paired.Turns = 39 }),
			turns.ReviewReady, turns.Review, 2, ""},
		{"completing needs no turn", with(ended(turns.Finalize, turns.Done), func(v *turns.View) {
			v.Paired.Accepted, v.Paired.Turns = "t2", 40
		}), turns.PairCompleted, "", 1, ""},
	}
}

func TestWorkflowRowByRow(t *testing.T) {
	for _, w := range workflow() {
		t.Run(w.name, func(t *testing.T) {
			got := Plan(w.view)
			check(t, w.view, got)
			if got.Paired.Status != w.status || got.Paired.Rounds != w.rounds {
				t.Errorf("%s, rounds %d; want %s, rounds %d", got.Paired.Status, got.Paired.Rounds, w.status, w.rounds)
			}
			if opened(got) != w.next {
				t.Errorf("next turn %q; want %q", opened(got), w.next)
			}
			if !strings.Contains(got.Paired.Reason, w.reason) || (w.reason == "") != (got.Paired.Reason == "") {
				t.Errorf("reason %q; want %q", got.Paired.Reason, w.reason)
			}
		})
	}
}

func opened(p turns.Plan) turns.Intent {
	if p.Next == nil {
		return ""
	}
	return p.Next.Intent
}

// check holds every plan of a paired task's own turn to what is always true.
func check(t interface {
	Helper()
	Errorf(string, ...any)
}, v turns.View, got turns.Plan) {
	t.Helper()
	p, q := v.Paired, got.Paired
	if got.Moved != (q.Version == p.Version+1) || !got.Moved && q != p {
		t.Errorf("moved %t, from %+v to %+v", got.Moved, p, q)
	}
	if q.ID != p.ID || q.Thread != p.Thread || q.First != p.First {
		t.Errorf("the paired task became another one: %+v", q)
	}
	if !got.Moved && got.Next != nil {
		t.Errorf("a turn without a move: %+v", got.Next)
	}
	if q.Status == turns.NeedsHuman && got.Moved && (q.Reason == "" || q.From != p.Status || got.Next != nil) {
		t.Errorf("needs_human from %q (was %s), reason %q, next %+v", q.From, p.Status, q.Reason, got.Next)
	}
	n := got.Next
	if n == nil {
		return
	}
	if turns.CheckRole(n.Role, n.Intent) != nil || statusOf[n.Intent] != q.Status || len(n.Services) == 0 {
		t.Errorf("a turn %+v in status %s", n, q.Status)
	}
	if q.Turns != p.Turns+1 {
		t.Errorf("turns went from %d to %d", p.Turns, q.Turns)
	}
	if v.Ending.State != turns.Completed {
		t.Errorf("a %s turn was followed by %+v", v.Ending.State, n)
	}
}

// TestEveryCombination walks status x role x intent x outcome x end: only what
// the table names moves the work, all the rest waits for a person.
func TestEveryCombination(t *testing.T) {
	outcomes := []turns.Outcome{"", "approved", "DONE"}
	for _, r := range turns.Roles {
		outcomes = append(outcomes, turns.Outcomes(r)...)
	}
	slices.Sort(outcomes)
	outcomes = slices.Compact(outcomes) // owner and reviewer share two
	legal := 0
	for _, status := range append([]turns.PairedStatus{"", "merged"}, turns.PairedStatuses...) {
		for _, role := range append([]turns.Role{"", "boss"}, turns.Roles...) {
			for _, intent := range append([]turns.Intent{"", "merge"}, turns.Intents...) {
				for _, o := range outcomes {
					for _, state := range turns.States {
						v := ended(turns.Work, o)
						v.Turn.Role, v.Turn.Intent = role, intent
						v.Paired.Status, v.Ending.State = status, state
						got := Plan(v)
						check(t, v, got)
						fits := state == turns.Completed && turns.CheckRole(role, intent) == nil && statusOf[intent] == status
						if _, err := turns.ParseOutcome(role, string(o)); err != nil {
							fits = false
						}
						name := fmt.Sprintf("%s %s/%s %s %q", status, role, intent, state, o)
						switch {
						case status.Finished() || status == turns.NeedsHuman:
							if got.Moved {
								t.Errorf("%s moved to %s", name, got.Paired.Status)
							}
						case fits:
							legal++
							if got.Paired.Status == turns.NeedsHuman && o != turns.Escalate {
								t.Errorf("%s waits for a person: %s", name, got.Paired.Reason)
							}
						case got.Paired.Status != turns.NeedsHuman || got.Next != nil:
							t.Errorf("%s moved to %s", name, got.Paired.Status)
						}
					}
				}
			}
		}
	}
	// active has two intents with five outcomes, the others one intent each.
	if legal != 2*5+4+5+4 {
		t.Errorf("%d combinations are legal", legal)
	}
}

func TestTreesAreRemembered(t *testing.T) {
	if got := Plan(ended(turns.Review, turns.Approve)).Paired.Accepted; got != "t1" {
		t.Errorf("accepted %q; want the tree at the start of the approving run", got)
	}
	if got := Plan(ended(turns.Work, turns.StepDone)).Paired.StepTree; got != "t2" {
		t.Errorf("step tree %q; want the tree at the end of the step", got)
	}
	v := ended(turns.Finalize, turns.Done)
	v.Paired.Accepted = "t1"
	if got := Plan(v).Paired.Accepted; got != "" {
		t.Errorf("accepted %q is left although the work is open again", got)
	}
	v.Ending.State = turns.Failed
	if got := Plan(v).Paired.Accepted; got != "t1" {
		t.Errorf("accepted %q; a failed turn must leave it for the retry", got)
	}
}

func TestHumanMessages(t *testing.T) {
	follow := func(v turns.View) bool {
		got := Plan(with(v, func(v *turns.View) { v.Messages = 3 }))
		check(t, v, got)
		if opened(got) == turns.FollowUp && got.Next.Messages == 3 {
			if got.Paired.Status != turns.Active || got.Paired.Rounds != 0 || got.Paired.Accepted != "" || got.Paired.StepTree != "" {
				t.Errorf("follow-up in %+v", got.Paired)
			}
			return true
		}
		if got.Next != nil && got.Next.Messages != 0 {
			t.Errorf("%+v takes messages", got.Next)
		}
		return false
	}
	for _, w := range workflow() {
		arbitration := w.view.Paired.Status == turns.ArbiterRequested || w.status == turns.ArbiterRequested
		spent := w.view.Paired.Turns >= 40
		if got := follow(w.view); got != (!arbitration && !spent) {
			t.Errorf("%s, with messages: follow-up %t", w.name, got)
		}
		for _, s := range []turns.State{turns.Failed, turns.Cancelled} {
			if follow(with(w.view, func(v *turns.View) { v.Ending.State = s })) {
				t.Errorf("%s, %s with messages: they must stay", w.name, s)
			}
		}
	}
	if follow(ended(turns.Review, "")) {
		t.Error("a turn without a verdict was followed by a follow-up")
	}
}

func TestLoneAndForeignTurns(t *testing.T) {
	lone := ended(turns.Review, turns.Approve)
	lone.Paired = turns.Paired{}
	lone.Messages = 2
	beside := ended(turns.Review, turns.Approve)
	beside.Turn.Paired = ""
	former := ended(turns.Review, turns.Approve)
	former.Paired.ID = "fix#2"
	for _, v := range []turns.View{lone, beside, former} {
		if got := Plan(v); got != (turns.Plan{}) {
			t.Errorf("turn of %q moves %q: %+v", v.Turn.Paired, v.Paired.ID, got)
		}
	}
}

func TestReasonIsBoundedAndOneLine(t *testing.T) {
	v := ended(turns.Arbitrate, turns.Escalate)
	v.Ending.Text = strings.Repeat("ä\n", 5000)
	got := Plan(v).Paired.Reason
	if n := len([]rune(got)); n > maxQuote+100 || strings.Contains(got, "\n") {
		t.Errorf("reason of %d characters: %.40q", n, got)
	}
}

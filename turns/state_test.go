package turns

import (
	"fmt"
	"slices"
	"testing"
)

// machine is the contract's table, written out a second time: every move that
// is legal, and nothing else.
var machine = map[Verb][]string{
	VerbOpen:       {"->queued"},
	VerbClaim:      {"queued->starting"},
	VerbStart:      {"starting->running"},
	VerbRequeue:    {"starting->queued", "running->queued"},
	VerbSettle:     {"starting->completed", "starting->failed", "running->completed", "running->failed"},
	VerbReplace:    {"starting->failed", "running->failed"},
	VerbDelegate:   {"queued->delegated", "starting->delegated", "running->delegated"},
	VerbLose:       {"starting->lost", "running->lost"},
	VerbCompensate: {"starting->failed"},
	VerbEnd:        {"queued->failed"},
	VerbCancel:     {"queued->cancelled", "starting->cancelled", "running->cancelled"},
}

func TestEveryVerbFromEveryStateToEveryState(t *testing.T) {
	states := append([]State{"", "in_review", "Queued"}, States...)
	for _, verb := range append([]Verb{"", "retry", "Settle"}, Verbs...) {
		for _, from := range states {
			for _, to := range states {
				want := slices.Contains(machine[verb], fmt.Sprintf("%s->%s", from, to))
				if got := Legal(verb, from, to); got != want {
					t.Errorf("Legal(%q, %q, %q) = %v, want %v", verb, from, to, got, want)
				}
			}
		}
	}
}

func TestMovesIsWholeAndLeavesNoFinalState(t *testing.T) {
	if len(Moves) != len(Verbs) || len(machine) != len(Verbs) {
		t.Fatalf("%d moves, %d verbs, %d rows in the test", len(Moves), len(Verbs), len(machine))
	}
	entered := map[State]bool{}
	for _, verb := range Verbs {
		m, ok := Moves[verb]
		if !ok || m.Verb != verb || len(m.To) == 0 {
			t.Errorf("%s: row %+v", verb, m)
		}
		for _, from := range m.From {
			if !from.Open() {
				t.Errorf("%s leads out of %s, which is final", verb, from)
			}
		}
		for _, to := range m.To {
			entered[to] = true
			if to.Open() && m.Turn == "ends" {
				t.Errorf("%s ends the turn in %s, which is open", verb, to)
			}
		}
	}
	for _, s := range States {
		if !entered[s] {
			t.Errorf("no move enters %s", s)
		}
	}
}

func TestKindsOfStates(t *testing.T) {
	for _, row := range []struct {
		state                           State
		valid, open, held, final, ofEnd bool
	}{
		{Queued, true, true, false, false, false},
		{Starting, true, true, true, false, false},
		{Running, true, true, true, false, false},
		{Completed, true, false, false, true, true},
		{Failed, true, false, false, true, true},
		{Delegated, true, false, false, true, false},
		{Lost, true, false, false, true, false},
		{Cancelled, true, false, false, true, true},
		{"", false, false, false, false, false},
		{"done", false, false, false, false, false},
	} {
		s := row.state
		if s.Valid() != row.valid || s.Open() != row.open || s.Held() != row.held || s.Final() != row.final || s.FinalForTurn() != row.ofEnd {
			t.Errorf("%q: valid %v open %v held %v final %v final for a turn %v, want %+v",
				s, s.Valid(), s.Open(), s.Held(), s.Final(), s.FinalForTurn(), row)
		}
	}
}

func TestCausesThatUseUpAttempts(t *testing.T) {
	counted := []Cause{CauseHandoff, CauseRotate, CauseRetry, CauseFreshSession}
	for _, c := range append([]Cause{"", "other"}, Causes...) {
		if got := c.Counted(); got != slices.Contains(counted, c) {
			t.Errorf("%q counted: %v", c, got)
		}
	}
}

func TestProgressOnlyGrows(t *testing.T) {
	order := []Progress{ProgressNone, ProgressText, ProgressTools}
	for i, p := range order {
		for j, q := range order {
			if p.Below(q) != (i < j) {
				t.Errorf("%s below %s: %v", p, q, p.Below(q))
			}
		}
	}
	if !Progress("").Below(ProgressText) || Progress("").Below(ProgressNone) {
		t.Error("no progress known is not the same as none")
	}
}

func TestShownStatusIsDerivedFromARunningTurnOnly(t *testing.T) {
	for _, status := range PairedStatuses {
		for _, role := range Roles {
			for _, state := range States {
				want := string(status)
				if state == Running && status == ReviewReady && role == Reviewer {
					want = "in_review"
				}
				if state == Running && status == ArbiterRequested && role == Arbiter {
					want = "in_arbitration"
				}
				if got := status.Shown(role, state); got != want {
					t.Errorf("%s with a %s %s: shown %q, want %q", status, state, role, got, want)
				}
			}
		}
		if status.Finished() != (status == PairCompleted || status == PairCancelled) {
			t.Errorf("%s finished: %v", status, status.Finished())
		}
	}
}

func TestLimitsFillOnlyWhatIsZero(t *testing.T) {
	if got := (Limits{}).WithDefaults(); got != DefaultLimits {
		t.Errorf("zero limits become %+v", got)
	}
	own := Limits{Lease: 1, Start: 2, Silence: 3, Run: 4, Grace: 5, Deliveries: 6, Attempts: 7, Losses: 8, Reminders: 9, Wait: 10}
	if got := own.WithDefaults(); got != own {
		t.Errorf("own limits become %+v", got)
	}
	if got := (Rules{Rounds: 7}).WithDefaults(); got != (Rules{Rounds: 7, Arbitrations: 3, Turns: 40}) {
		t.Errorf("rules become %+v", got)
	}
}

package turns

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/quick"
)

func TestRolesAreNeverGuessed(t *testing.T) {
	for _, r := range Roles {
		if got, err := ParseRole(string(r)); err != nil || got != r {
			t.Errorf("ParseRole(%q) = %q, %v", r, got, err)
		}
	}
	for _, word := range []string{"", "Owner", "owner ", "arbitrator", "codex-main", "work", "owner\x00"} {
		if got, err := ParseRole(word); err == nil || got != "" {
			t.Errorf("ParseRole(%q) = %q, %v", word, got, err)
		}
	}
	never := func(word string) bool {
		got, err := ParseRole(word)
		return (err == nil) == slices.Contains(Roles, Role(word)) && (err == nil || got == "")
	}
	if err := quick.Check(never, nil); err != nil {
		t.Error(err)
	}
}

func TestEveryIntentHasOneRole(t *testing.T) {
	want := map[Intent]Role{Work: Owner, FollowUp: Owner, Finalize: Owner, Review: Reviewer, Arbitrate: Arbiter}
	if len(Intents) != len(want) {
		t.Fatalf("intents: %v", Intents)
	}
	for _, i := range Intents {
		if i.Role() != want[i] || !i.Valid() {
			t.Errorf("%s belongs to %q", i, i.Role())
		}
	}
	for _, i := range []Intent{"", "retry", "Review"} {
		if i.Valid() || i.Role().Valid() {
			t.Errorf("%q is an intent of %q", i, i.Role())
		}
	}
	for _, r := range append([]Role{"", "boss"}, Roles...) {
		for _, i := range append([]Intent{"", "play"}, Intents...) {
			if fits := want[i] != "" && want[i] == r; (CheckRole(r, i) == nil) != fits {
				t.Errorf("CheckRole(%q, %q) = %v", r, i, CheckRole(r, i))
			}
		}
	}
}

func TestFirstIntent(t *testing.T) {
	for r, want := range map[Role]Intent{Owner: Work, Reviewer: Review, Arbiter: Arbitrate} {
		if got, err := FirstIntent(r); err != nil || got != want {
			t.Errorf("FirstIntent(%s) = %q, %v", r, got, err)
		}
	}
	if got, err := FirstIntent(""); err == nil || got != "" {
		t.Errorf("FirstIntent of nobody = %q, %v", got, err)
	}
}

func TestOutcomesByRole(t *testing.T) {
	want := map[Role]string{
		Owner:    "done step_done done_with_concerns blocked needs_context",
		Reviewer: "approve changes blocked needs_context",
		Arbiter:  "proceed revise reset escalate",
		"":       "",
	}
	all := strings.Fields(want[Owner] + " " + want[Reviewer] + " " + want[Arbiter])
	for role, words := range want {
		for _, word := range append([]string{"", "Done", "done.", "approve\n", "lgtm"}, all...) {
			got, err := ParseOutcome(role, word)
			may := word != "" && slices.Contains(strings.Fields(words), word)
			if (err == nil) != may || may && got != Outcome(word) || !may && got != "" {
				t.Errorf("ParseOutcome(%q, %q) = %q, %v", role, word, got, err)
			}
		}
		if got := len(Outcomes(role)); got != len(strings.Fields(words)) {
			t.Errorf("%q may say %d things: %v", role, got, Outcomes(role))
		}
	}
}

func TestFailureKeepsItsClassThroughWrapping(t *testing.T) {
	wrapped := fmt.Errorf("run fix/1.1: %w", Fail(ClassAuth, "401 from %s", "claude"))
	if f := FailureOf(wrapped); f.Class != ClassAuth || f.Error() != "auth: 401 from claude" {
		t.Errorf("failure %+v", f)
	}
	if f := FailureOf(errors.New("what")); f.Class != ClassUnknown || f.Message != "what" {
		t.Errorf("failure of a plain error %+v", f)
	}
	if f := (&Failure{Class: ClassCrash}); f.Error() != "crash" {
		t.Errorf("failure without words: %q", f.Error())
	}
	for _, c := range Classes {
		if !c.Valid() {
			t.Errorf("%q is invalid", c)
		}
	}
	if Class("").Valid() || Class("429").Valid() {
		t.Error("a class is guessed")
	}
}

func TestEveryItemKindCloses(t *testing.T) {
	want := map[ItemKind]ItemState{
		ItemRoot: ItemFailed, ItemTool: ItemFailed, ItemSubAgent: ItemFailed, ItemError: ItemFailed,
		ItemAgentTurn: ItemCancelled, ItemRequest: ItemCancelled, ItemMessage: ItemStopped,
	}
	if len(ItemKinds) != len(want) || len(ItemClosed) != len(want) {
		t.Fatalf("kinds %v, closed %v", ItemKinds, ItemClosed)
	}
	for _, kind := range ItemKinds {
		if ItemClosed[kind] != want[kind] {
			t.Errorf("%s becomes %s, want %s", kind, ItemClosed[kind], want[kind])
		}
	}
}

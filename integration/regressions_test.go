package integration

import (
	"slices"
	"strings"
	"testing"

	"rota/commands"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// A handoff for codex-review is invisible to a codex-main worker, and that nobody
// serves the target is reported: no black hole.
func TestHandoffIsInvisibleToOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.rules(rule{Service: "claude", Steps: []string{"error auth token expired"}})
	main := r.start("codex-main")
	claude := r.start("claude")
	r.task("one")
	r.comes("one/2.2", turns.Queued)
	r.await("the report of a handoff to nobody", func() bool {
		return claude.logged("handed to a service that no worker serves", `"target_service":"codex-review"`)
	})
	r.await("the warning of a pass", func() bool {
		return main.logged("attempts wait for a service that no worker serves", "codex-review") ||
			claude.logged("attempts wait for a service that no worker serves", "codex-review")
	})
	why, err := r.commands.Why(t.Context(), "one/2")
	if err != nil || !strings.Contains(why, "codex-review") {
		t.Errorf("why says %q, %v", why, err)
	}
	if main.logged(`"turn":"one/2"`) {
		t.Errorf("codex-main had to do with the review:\n%s", main.tail())
	}
	r.start("codex-review")
	r.rests("one", turns.PairCompleted)
	r.stillReviewer("one/2", 2)
}

// A delegated origin enqueues nothing and holds no lease a moment later: the
// approval that follows opens the finalizing turn at once.
func TestDelegatedOriginLetsGo(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{limits: "{lease: 30s, start: 20s, silence: 50s, run: 90s, grace: 1s}"})
	r.rules(
		rule{Service: "claude", Steps: []string{"accepted", "tools", "spawn", "error quota usage limit reached"}},
		rule{Service: "codex-review", Steps: []string{"accepted", "mark reviewing", "wait go", "result approve"}})
	r.startAll()
	r.task("one")
	r.await("the fallback", func() bool { return r.marked("reviewing") })
	origin, heir := r.attempt("one/2.1"), r.comes("one/2.2", turns.Running)
	if origin.State != turns.Delegated || origin.Next != "one/2.2" {
		t.Fatalf("the origin is %s, its successor %q", origin.State, origin.Next)
	}
	if hold := r.thread("one").Hold; hold != heir.Fence || hold <= origin.Fence {
		t.Fatalf("the hold is %d, the fallback's fence %d, the origin's %d", hold, heir.Fence, origin.Fence)
	}
	leases, err := r.rdb.ZRange(t.Context(), r.key("one", "leases"), 0, -1).Result()
	if err != nil || !slices.Equal(leases, []string{"one/2.2"}) {
		t.Fatalf("leases: %v %v", leases, err)
	}
	r.only("one/2.2")
	r.mark("go")
	r.rests("one", turns.PairCompleted)
	entries, err := r.store.Log(t.Context(), "one/2")
	if err != nil {
		t.Fatal(err)
	}
	first, err := r.store.Log(t.Context(), "one/3")
	if err != nil {
		t.Fatal(err)
	}
	if !entries[len(entries)-1].At.Equal(first[0].At) {
		t.Errorf("the approval came at %s, the finalizing turn at %s", entries[len(entries)-1].At, first[0].At)
	}
	for _, e := range first {
		if e.Verb == turns.VerbClaim && e.Attempt != "one/3.1" {
			t.Errorf("the finalizing turn had to wait: %+v", e)
		}
	}
}

// A claimed reviewer handoff runs with the reviewer's role, prompt and rights: what
// it changes in the workspace is undone and its verdict is void.
func TestHandoffRunsWithReviewersRights(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.rules(
		rule{Role: "owner", Times: 1, Steps: []string{"accepted", "write code.txt good", "result done"}},
		rule{Service: "claude", Steps: []string{"error auth token expired"}},
		rule{Service: "codex-review", Times: 1, Steps: []string{"accepted", "write code.txt bad", "result approve"}})
	r.startAll()
	r.task("one")
	r.rests("one", turns.PairCompleted)
	r.story("one/2", "claude initial delegated", "codex-review handoff completed")
	if a := r.attempt("one/2.2"); a.Deliveries != 2 {
		t.Errorf("%d deliveries, want 2: the first one's verdict is void", a.Deliveries)
	}
	prompts := r.runs(of("one/2"))
	for _, e := range prompts {
		if e.Role != "reviewer" || e.Prompt != prompts[0].Prompt {
			t.Errorf("%s as %s was asked\n%s", e.Attempt, e.Role, e.Prompt)
		}
	}
	if u := r.turn("one/3"); u.Intent != turns.Finalize {
		t.Errorf("one/3 is to %s", u.Intent)
	}
	// What the owner left is what was accepted: the reviewer's change did not last.
	if p := r.paired("one"); p.Accepted == "" || p.Accepted != r.turn("one/1").EndTree {
		t.Errorf("accepted %q, the owner left %q", p.Accepted, r.turn("one/1").EndTree)
	}
}

// A malformed handoff fails and never runs.
func TestMalformedHandoffFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.rules(rule{Role: "reviewer", Times: 1, Steps: []string{"accepted", "mark reviewing", "wait go", "result approve"}})
	r.startAll()
	r.task("one")
	r.await("the review", func() bool { return r.marked("reviewing") })
	before := r.attempt("one/2.1")
	for _, to := range []string{"", "nobody", "codex-main", "{claude}"} {
		_, err := r.commands.Handoff(t.Context(), "", "one/2", to)
		if commands.KindOf(err) != commands.Invalid {
			t.Errorf("handoff to %q: %v", to, err)
		}
	}
	run := store.Run{Thread: "one", Turn: "one/2", Attempt: "one/2.1", ID: before.Run, Fence: before.Fence}
	if _, err := r.store.Delegate(t.Context(), run, store.Successor{Service: "{claude}", Cause: turns.CauseHandoff}); err == nil {
		t.Error("a handoff to a queue with braces was written")
	}
	for i, payload := range []string{"", "{}", `{"v":1,"thread":"one"`, `{"v":1,"thread":"one","turn":"one/2","attempt":"one/2.2","service":"codex-review"}`} {
		if got := r.push("codex-review", "broken-"+string(rune('a'+i)), []byte(payload)); got == nil || !tasks.Refused(got) {
			t.Errorf("%q: %+v", payload, got)
		}
	}
	if after := r.attempt("one/2.1"); after.State != turns.Running || after.Run != before.Run || len(r.attempts("one/2")) != 1 {
		t.Fatalf("the attempt was touched: %+v", after)
	}
	r.mark("go")
	r.rests("one", turns.PairCompleted)
	if n := len(r.runs(by("codex-review"))); n != 0 {
		t.Errorf("codex-review ran %d times", n)
	}
}

// A failed reviewer fallback requeues a reviewer: a further delivery of the same
// attempt of the same turn, counted in its budget.
func TestFailedFallbackRequeuesAReviewer(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.rules(
		rule{Service: "claude", Steps: []string{"error auth token expired"}},
		rule{Service: "codex-review", Times: 2, Steps: []string{"error server no answer"}})
	r.startAll()
	r.task("one")
	r.comes("one/2.2", turns.Queued)
	r.rests("one", turns.PairCompleted)
	r.stillReviewer("one/2", 4)
	if a, u := r.attempt("one/2.2"), r.turn("one/2"); a.Deliveries != 3 || u.Opened != 1 || u.Attempt != 2 {
		t.Errorf("%d deliveries, %d opened, attempt %d", a.Deliveries, u.Opened, u.Attempt)
	}
}

// The fallback's error is not written over the origin's: each attempt keeps its
// own executor and error.
func TestErrorsBelongToAttempts(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.rules(
		rule{Service: "claude", Steps: []string{"error auth token of claude expired"}},
		rule{Service: "codex-review", Steps: []string{"error config no such model"}})
	r.startAll()
	r.task("one")
	u := r.ends("one/2")
	a, b := r.attempt("one/2.1"), r.attempt("one/2.2")
	if a.Class != turns.ClassAuth || !strings.Contains(a.Error, "token of claude expired") || a.Service != "claude" {
		t.Errorf("the origin: %s %s %q", a.Service, a.Class, a.Error)
	}
	if b.Class != turns.ClassConfig || !strings.Contains(b.Error, "no such model") || b.Service != "codex-review" {
		t.Errorf("the fallback: %s %s %q", b.Service, b.Class, b.Error)
	}
	if u.State != turns.Failed || u.Class != turns.ClassConfig || !strings.Contains(u.Error, "no such model") {
		t.Errorf("the turn: %s %s %q", u.State, u.Class, u.Error)
	}
}

// Starting a turn changes nothing of the paired task.
func TestStartChangesNoStatus(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.rules(rule{Role: "reviewer", Steps: []string{"accepted", "mark reviewing", "wait go", "result approve"}})
	r.start("codex-main")
	r.task("one")
	r.comes("one/2.1", turns.Queued)
	before := r.paired("one")
	r.start("claude")
	r.await("the review", func() bool { return r.marked("reviewing") })
	r.comes("one/2.1", turns.Running)
	if after := r.paired("one"); after != before {
		t.Errorf("the start changed %+v to %+v", before, after)
	}
	if shown := before.Status.Shown(turns.Reviewer, turns.Running); before.Status != turns.ReviewReady || shown != "in_review" {
		t.Errorf("stored %s, shown %s", before.Status, shown)
	}
	r.mark("go")
	r.rests("one", turns.PairCompleted)
}

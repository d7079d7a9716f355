package integration

import (
	"slices"
	"strings"
	"testing"

	"rota/turns"
)

// A paired task goes owner, reviewer, owner finalizes, completed, across separate
// worker processes.
func TestPairedTaskAcrossProcesses(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.rules(rule{Role: "owner", Times: 1, Steps: []string{"accepted", "write hello.txt hello", "result done"}})
	r.startAll()
	r.task("story")
	p := r.rests("story", turns.PairCompleted)
	r.story("story/1", "codex-main initial completed")
	r.story("story/2", "claude initial completed")
	r.story("story/3", "codex-main initial completed")
	if n := len(r.runs(nil)); n != 3 || p.Turns != 3 {
		t.Fatalf("%d runs, %d turns, want 3", n, p.Turns)
	}
}

// The arbiter settles what owner and reviewer do not: owner, reviewer, owner,
// reviewer, arbiter, reviewer, owner finalizes.
func TestPairedTaskWithArbiter(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.rules(rule{Role: "reviewer", Times: 2, Steps: []string{"result changes not yet"}})
	r.startAll()
	r.task("dispute")
	r.rests("dispute", turns.PairCompleted)
	var roles []string
	for _, e := range r.runs(nil) {
		roles = append(roles, e.Role+" "+e.Intent)
	}
	want := []string{"owner work", "reviewer review", "owner follow-up", "reviewer review", "arbiter arbitrate", "reviewer review", "owner finalize"}
	if !slices.Equal(roles, want) {
		t.Fatalf("runs %v, want %v", roles, want)
	}
}

// Promise 1: a reviewer turn that fails with a token error on claude and falls
// back to codex-review is still executed as a reviewer turn, whether the login is
// refused before or after the prompt was accepted, or rests already.
func TestPromise1(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]string{
		"before":  {"error auth token expired", "exit 1"},
		"after":   {"accepted", "error auth token revoked"},
		"at work": {"accepted", "tools", "error auth 401", "exit 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{})
			r.rules(rule{Service: "claude", Steps: steps})
			r.startAll()
			r.task("one")
			r.rests("one", turns.PairCompleted)
			r.stillReviewer("one/2", 2)

			// The login rests now: the next review meets it before any agent runs.
			r.task("two")
			r.rests("two", turns.PairCompleted)
			r.story("two/2", "claude initial delegated", "codex-review handoff completed")
			if runs := r.runs(of("two/2")); len(runs) != 1 || runs[0].Role != "reviewer" || runs[0].Service != "codex-review" {
				t.Fatalf("runs of two/2: %+v", runs)
			}
		})
	}
}

// stillReviewer checks a turn that went from claude to codex-review: every run was
// a reviewer's, asked for the same review.
func (r *rig) stillReviewer(turn string, runs int) {
	r.t.Helper()
	r.story(turn, "claude initial delegated", "codex-review handoff completed")
	u := r.turn(turn)
	if u.Role != turns.Reviewer || u.Intent != turns.Review || u.Outcome != turns.Approve {
		r.t.Fatalf("%s is %s %s %s", turn, u.Role, u.Intent, u.Outcome)
	}
	list := r.runs(of(turn))
	if len(list) != runs {
		r.t.Fatalf("%d runs of %s, want %d", len(list), turn, runs)
	}
	for _, e := range list {
		if e.Role != "reviewer" || e.Intent != "review" {
			r.t.Errorf("%s ran as %s %s", e.Attempt, e.Role, e.Intent)
		}
	}
	if first, last := list[0].Prompt, list[len(list)-1].Prompt; !strings.HasPrefix(last, first[:min(len(first), 200)]) {
		r.t.Errorf("the fallback was asked\n%s\nthe origin\n%s", last, first)
	}
}

// Promise 3: making a handoff enqueues no follow-up, retry or next turn of the
// origin. The same with a crash at every write is TestPromise3EveryCrash.
func TestPromise3(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.rules(
		rule{Service: "claude", Steps: []string{"error auth token expired"}},
		rule{Service: "codex-review", Steps: []string{"accepted", "mark reviewing", "wait go", "result approve"}})
	r.startAll()
	r.task("one")
	r.await("the fallback", func() bool { return r.marked("reviewing") })
	r.only("one/2.2")
	if n := r.thread("one").Turns; n != 2 {
		t.Fatalf("%d turns are open or were, want 2", n)
	}
	r.mark("go")
	r.rests("one", turns.PairCompleted)
	if n := len(r.runs(nil)); n != 4 || r.thread("one").Turns != 3 {
		t.Fatalf("%d runs and %d turns, want 4 and 3", n, r.thread("one").Turns)
	}
}

// only checks that of all asynq tasks of this deployment that are not over, this
// attempt's is the only one.
func (r *rig) only(attempt string) {
	r.t.Helper()
	if got := r.carried(); !slices.Equal(got, []string{attempt}) {
		r.t.Fatalf("asynq carries %v, want only %s\n%s", got, attempt, r.picture())
	}
}

// carried lists the tasks that asynq still means to deliver or is delivering.
func (r *rig) carried() []string {
	r.t.Helper()
	var list []string
	for _, q := range r.services {
		for _, state := range []string{"pending", "active"} {
			ids, err := r.rdb.LRange(r.t.Context(), "asynq:{"+q+"}:"+state, 0, -1).Result()
			if err != nil {
				r.t.Fatal(err)
			}
			list = append(list, ids...)
		}
		for _, state := range []string{"scheduled", "retry"} {
			ids, err := r.rdb.ZRange(r.t.Context(), "asynq:{"+q+"}:"+state, 0, -1).Result()
			if err != nil {
				r.t.Fatal(err)
			}
			list = append(list, ids...)
		}
	}
	return list
}

// Promise 4: when the fallback fails too, the turn goes on as a further attempt of
// the same turn, still the reviewer's, or ends visibly; a retry after that is a
// reviewer's turn again.
func TestPromise4(t *testing.T) {
	t.Parallel()
	refused := rule{Service: "claude", Steps: []string{"error auth token expired"}}
	for _, c := range []struct {
		name  string
		rule  rule
		story []string
		ends  turns.State
		class turns.Class
	}{
		{"before its start, every time", rule{Steps: []string{"exit 7"}},
			[]string{"claude initial delegated", "codex-review handoff failed"}, turns.Failed, turns.ClassCrash},
		{"before its start, once", rule{Times: 1, Steps: []string{"exit 7"}},
			[]string{"claude initial delegated", "codex-review handoff completed"}, turns.Completed, ""},
		{"in the middle", rule{Times: 1, Steps: []string{"accepted", "tools", "exit 7"}},
			[]string{"claude initial delegated", "codex-review handoff failed", "codex-review retry completed"}, turns.Completed, ""},
		{"with an error as normal text", rule{Steps: []string{"print API Error: 401 authentication_error"}},
			[]string{"claude initial delegated", "codex-review handoff failed", "codex-review reminder failed", "codex-review reminder failed"},
			turns.Failed, turns.ClassNoVerdict},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{})
			c.rule.Service = "codex-review"
			r.rules(refused, c.rule)
			r.startAll()
			r.task("one")
			u := r.ends("one/2")
			r.story("one/2", c.story...)
			if u.State != c.ends || u.Class != c.class || u.Role != turns.Reviewer {
				t.Fatalf("%s %s %s, want %s %s\n%s", u.State, u.Class, u.Role, c.ends, c.class, r.picture())
			}
			if c.ends == turns.Completed {
				r.rests("one", turns.PairCompleted)
			} else {
				r.retried("one")
			}
			r.allReviewers("one/2")
		})
	}
}

// retried repeats the failed second turn of a thread: it is a reviewer's again.
func (r *rig) retried(thread string) {
	r.t.Helper()
	p := r.rests(thread, turns.NeedsHuman)
	if p.From != turns.ReviewReady || p.Reason == "" {
		r.t.Fatalf("parked from %s: %q", p.From, p.Reason)
	}
	r.rules(rule{Service: "claude", Steps: []string{"result approve"}})
	res, err := r.commands.Retry(r.t.Context(), "", thread+"/2")
	if err != nil {
		r.t.Fatal(err)
	}
	r.clearLogins()
	u := r.ends(res.Turn)
	if u.ID == thread+"/2" || u.Role != turns.Reviewer || u.Intent != turns.Review || u.RetryOf != thread+"/2" {
		r.t.Fatalf("the retry is %+v", u)
	}
	r.rests(thread, turns.PairCompleted)
	r.allReviewers(u.ID)
}

func (r *rig) allReviewers(turn string) {
	r.t.Helper()
	for _, e := range r.runs(of(turn)) {
		if e.Role != "reviewer" || e.Intent != "review" {
			r.t.Errorf("%s ran as %s %s", e.Attempt, e.Role, e.Intent)
		}
	}
}

// Promise 4, after its claim and a crash: the fallback's worker is killed in the
// middle of the review.
func TestPromise4Crash(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.rules(
		rule{Service: "claude", Steps: []string{"error auth token expired"}},
		rule{Service: "codex-review", Times: 1, Steps: []string{"accepted", "mark reviewing", "hang"}})
	r.start("codex-main")
	r.start("claude")
	first := r.start("codex-review")
	r.task("one")
	r.await("the review", func() bool { return r.marked("reviewing") })
	first.kill9()
	r.start("codex-review")
	r.rests("one", turns.PairCompleted)
	r.story("one/2", "claude initial delegated", "codex-review handoff lost", "codex-review lost completed")
	r.allReviewers("one/2")
	if u := r.turn("one/2"); u.Losses != 1 || u.Opened != 1 {
		t.Errorf("%d losses, %d opened; a crash of the worker is no failure of the agent", u.Losses, u.Opened)
	}
}

// Promise 6: with every credential broken, reviewer and arbiter turns keep their
// role while they wait and when they resume; the paired task's status does not move.
func TestPromise6(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{})
	r.rules(
		rule{Thread: "arb", Role: "owner", Times: 1, Steps: []string{"result blocked"}},
		rule{Service: "claude", Steps: []string{"error auth token expired"}},
		rule{Service: "codex-review", Steps: []string{"accepted", "error auth token revoked"}})
	r.startAll()
	r.task("rev")
	r.task("arb")
	waits := func(turn string) func() bool {
		return func() bool {
			u := r.turn(turn)
			if u.ID == "" {
				return false
			}
			a := r.attempt(turns.AttemptID(turn, u.Attempt))
			return u.State == turns.Queued && a.Cause == turns.CauseWait
		}
	}
	r.await("the review to wait", waits("rev/2"))
	r.await("the arbitration to wait", waits("arb/2"))
	for turn, want := range map[string]struct {
		role   turns.Role
		status turns.PairedStatus
	}{"rev/2": {turns.Reviewer, turns.ReviewReady}, "arb/2": {turns.Arbiter, turns.ArbiterRequested}} {
		u, p := r.turn(turn), r.paired(turns.ThreadOf(turn))
		a := r.attempt(turns.AttemptID(turn, u.Attempt))
		if u.Role != want.role || p.Status != want.status || p.Version != u.Version || a.Reason == "" || !a.Due.After(a.Created) {
			t.Fatalf("%s waits as %s on %s (%s until %s), its task is %s version %d\n%s", turn, u.Role, a.Service, a.Reason, a.Due, p.Status, p.Version, r.picture())
		}
	}
	r.rules()
	r.clearLogins()
	r.rests("rev", turns.PairCompleted)
	r.rests("arb", turns.PairCompleted)
	r.allReviewers("rev/2")
	for _, e := range r.runs(of("arb/2")) {
		if e.Role != "arbiter" || e.Intent != "arbitrate" {
			t.Errorf("%s ran as %s %s", e.Attempt, e.Role, e.Intent)
		}
	}
	if runs := r.runs(role("owner")); len(runs) != 4 {
		t.Errorf("%d owner's runs, want 2 in each thread", len(runs))
	}
}

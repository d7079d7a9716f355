package integration

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rota/turns"
)

// The logins of these tests are no logins, and have no shape that one could be
// known by.
const (
	firstLogin  = "first-claude-login-of-the-tests"
	secondLogin = "second-claude-login-of-the-tests"
	freshLogin  = "fresh-claude-login-of-the-tests"
	codexLogin  = "codex-login-of-the-tests"
)

// loginCrew gives one role to claude and codex-review, with two logins and one,
// and the other roles to a puppet.
func loginCrew(role, limits string) setup {
	roles := map[string][]string{"owner": {"codex-main"}, "reviewer": {"codex-main"}, "arbiter": {"codex-main"}}
	roles[role] = []string{"claude", "codex-review"}
	return setup{
		roles: roles, limits: limits,
		services: map[string]string{"claude": "credentials: [first, second]", "codex-review": "credentials: [other]"},
		logins:   "{first: {file: first.login}, second: {file: second.login}, other: {file: other.login}}",
	}
}

// newFallback is a rig in which every login of a role is refused in a situation.
func newFallback(t *testing.T, role, limits, claude, codex string) *rig {
	t.Helper()
	r := newLoginRig(t, loginCrew(role, limits), map[string]string{"claude": "claude", "codex-review": "codex"})
	for name, text := range map[string]string{"first": firstLogin, "second": secondLogin, "other": codexLogin} {
		r.write(filepath.Join(r.dir, name+".login"), text+"\n", 0o600)
	}
	r.meets("claude", "claude", meeting{login: firstLogin, name: "first", where: claude}, meeting{login: secondLogin, name: "second", where: claude},
		meeting{login: freshLogin, name: "fresh"})
	r.meets("codex-review", "codex", meeting{login: codexLogin, name: "other", where: codex})
	if role == "arbiter" {
		r.rules(rule{Role: "owner", Times: 1, Steps: []string{"result blocked stuck"}})
	}
	r.startAll()
	return r
}

// turnOf is the turn of a role in a paired task of a fallback rig, with its intent.
var turnOf = map[string][2]string{"owner": {"x/1", "work"}, "reviewer": {"x/2", "review"}, "arbiter": {"x/2", "arbitrate"}}

// Every login of a role is refused: the next login of the service, the other
// service, and then a wait, all in the same role. When a login's file changes, the
// turn goes on at once and ends well.
func TestEveryLoginRefusedThenOneIsBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role, claude, codex, reason string
	}{
		{"reviewer", "401_invalid", "401_invalid", "cooldown"},
		{"reviewer", "no_credentials", "chatgpt_401_refresh_token_reused", "needs_login"},
		{"reviewer", "429_usage_oauth", "429_usage", "cooldown"},
		{"owner", "401_expired_oauth", "401_invalid", "cooldown"},
		{"arbiter", "401_invalid", "401_invalid", "cooldown"},
	} {
		t.Run(c.role+" "+c.claude, func(t *testing.T) {
			t.Parallel()
			r := newFallback(t, c.role, "", c.claude, c.codex)
			turn, intent := turnOf[c.role][0], turnOf[c.role][1]
			r.task("x")
			r.await("the wait for a login", func() bool {
				a := r.attempt(turn + ".4")
				return a.State == turns.Queued && a.Cause == turns.CauseWait
			})
			r.waits(turn, c.role, c.reason)

			r.write(filepath.Join(r.dir, "second.login"), freshLogin+"\n", 0o600)
			r.rests("x", turns.PairCompleted)
			r.story(turn, "claude initial failed", "claude rotate delegated", "codex-review handoff delegated", "claude wait completed")
			who := " " + c.role + " " + intent + " "
			want := []string{
				turn + ".1" + who + "claude first", turn + ".2" + who + "claude second",
				turn + ".3" + who + "codex-review other", turn + ".4" + who + "claude fresh",
			}
			if got := r.met(turn); !slices.Equal(got, want) {
				t.Errorf("runs:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// waits checks a turn that waits for a login: nothing else is open or enqueued, and
// a person is told what it waits for, until when, and in which role.
func (r *rig) waits(turn, role, reason string) {
	r.t.Helper()
	u, a := r.turn(turn), r.attempt(turn+".4")
	r.story(turn, "claude initial failed", "claude rotate delegated", "codex-review handoff delegated", "claude wait queued")
	if string(u.Role) != role || string(u.Intent) != turnOf[role][1] || u.WaitSince.IsZero() || a.Reason != reason {
		r.t.Errorf("%s is %s %s, waits since %v for %q", turn, u.Role, u.Intent, u.WaitSince, a.Reason)
	}
	if left := time.Until(a.Due); left < 5*time.Second || left > time.Hour {
		r.t.Errorf("%s is due in %v", a.ID, left)
	}
	if p := r.paired("x"); p.Status.Finished() || p.Status == turns.NeedsHuman || r.thread("x").OpenTurn != turn {
		r.t.Errorf("the paired task is %s, %q is open", p.Status, r.thread("x").OpenTurn)
	}
	why, err := r.commands.Why(r.t.Context(), turn)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, word := range []string{a.ID, role, "waits for a login (" + reason, "tried again at " + a.Due.Local().Format("15:04"), "enqueue credential ls"} {
		if !strings.Contains(why, word) {
			r.t.Errorf("why does not say %q:\n%s", word, why)
		}
	}
}

// A turn that waits for a login ends when it has waited as long as it may, also
// when it is tried again and again meanwhile, and a person sees it.
func TestTheWaitForALoginEnds(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]bool{"left alone": false, "tried again": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tooLong(t, again)
		})
	}
}

func tooLong(t *testing.T, again bool) {
	r := newFallback(t, "reviewer", "{lease: 3s, start: 5s, run: 90s, silence: 50s, grace: 1s, wait: 8s}", "401_invalid", "401_invalid")
	r.task("x")
	r.comes("x/2.4", turns.Queued)
	if again {
		if _, err := r.commands.Retry(t.Context(), "", "x/2"); err != nil {
			t.Fatal(err)
		}
		r.await("the probe", func() bool { return r.moved("x/2", turns.VerbRequeue) })
	}
	u := r.ends("x/2")
	if u.State != turns.Failed || u.Role != turns.Reviewer || !strings.Contains(u.Reason, "waited longer than allowed for a login") {
		t.Errorf("tried again %v: %s %s: %s, %s", again, u.Role, u.State, u.Class, u.Reason)
	}
	if waited := u.Ended.Sub(u.WaitSince); !u.WaitSince.IsZero() && waited < 8*time.Second {
		t.Errorf("waited only %v", waited)
	}
	r.rests("x", turns.NeedsHuman)
	r.story("x/2", "claude initial failed", "claude rotate delegated", "codex-review handoff delegated", "claude wait failed")
	why, err := r.commands.Why(t.Context(), "x")
	if err != nil || !strings.Contains(why, "needs a human") || !strings.Contains(why, "waited longer than allowed") {
		t.Errorf("why: %q, %v", why, err)
	}

	// With a login that is back, the person's retry is the reviewer's again.
	r.write(filepath.Join(r.dir, "second.login"), freshLogin+"\n", 0o600)
	if _, err := r.commands.Retry(t.Context(), "", "x/2"); err != nil {
		t.Fatal(err)
	}
	r.rests("x", turns.PairCompleted)
	if next := r.turn("x/3"); next.Role != turns.Reviewer || next.RetryOf != "x/2" || next.Outcome != turns.Approve {
		t.Errorf("the retry is %+v", next)
	}
}

// Runs that share one sign-in file may come second to its refresh: the token that
// such a run read was used by another one, and its program calls the login dead.
// The file is another one by then, so the turn goes on with it at once.
func TestARefreshThatAnotherRunMade(t *testing.T) {
	t.Parallel()
	r := newLoginRig(t, setup{roles: map[string][]string{"owner": {"codex-main"}}, limits: heldLimits}, map[string]string{"codex-main": "codex, config_dir: home"})
	file := filepath.Join(r.dir, "home", "auth.json")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	r.write(file, `{"fake":"read by both"}`, 0o600)
	r.meets("codex-main", "codex", meeting{login: "none", name: "second", where: "chatgpt_401_refresh_token_reused"})
	r.mark("hold.second")
	r.startAll()
	turn := r.lone("x", turns.Owner)
	r.await("the run", func() bool { return r.marked("held.second") })
	r.write(file, `{"fake":"refreshed by the other"}`, 0o600)
	r.meets("codex-main", "codex", meeting{login: "none", name: "again"})
	r.forget("hold.second")

	if u := r.ends(turn); u.State != turns.Completed || u.Role != turns.Owner {
		t.Errorf("%s %s: %s %s", u.Role, u.State, u.Class, u.Error)
	}
	r.story(turn, "codex-main initial failed", "codex-main rotate completed")
	// Nothing rests any more.
	r.ends(r.lone("y", turns.Owner))
	r.story("y/1", "codex-main initial completed")
}

// moved reports whether a turn's log has a move.
func (r *rig) moved(turn string, v turns.Verb) bool {
	r.t.Helper()
	log, err := r.store.Log(r.t.Context(), turn)
	if err != nil {
		r.t.Fatal(err)
	}
	return slices.ContainsFunc(log, func(e turns.Entry) bool { return e.Verb == v })
}

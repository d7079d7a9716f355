//go:build agents && linux

// The real programs in real workers, against the mock of their API. Run by
// `make agents`, which installs the programs first.
package integration

import (
	"cmp"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rota/agents/mockapi"
	"rota/turns"
)

// Each program, by its agent.
func realPrograms(t *testing.T) map[string]string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cmp.Or(os.Getenv("ROTA_AGENTS_CACHE"), filepath.Join(cache, "rota-agents")), "npm", "node_modules")
	found := map[string]string{}
	for agent, pattern := range map[string]string{
		"claude": "@anthropic-ai/claude-code-linux-*/claude", "codex": "@openai/codex-linux-*/vendor/*/bin/codex",
	} {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("no %s below %s, %v: `go test -tags agents ./agents/` installs it", agent, dir, err)
		}
		found[agent] = paths[0]
	}
	return found
}

// The logins of the services. That of a subscription has the shape by which rota
// knows where it goes; it is no login.
const (
	realFirst  = "sk-ant-oat01-fake-first-not-a-secret"
	realSecond = "sk-ant-oat01-fake-second-not-a-secret"
	realCodex  = "sk-fake-codex-not-a-secret"
)

// realRig runs claude and codex against APIs of their own: claudeURL may be one
// that nobody serves.
func realRig(t *testing.T, roles map[string][]string, claudeURL, codexURL string) *rig {
	t.Helper()
	logins := map[string]string{"claude": "[first, second]", "codex-main": "[other]", "codex-review": "[other]"}
	s := setup{
		roles: roles, services: map[string]string{},
		logins: "{first: {file: first.login}, second: {file: second.login}, other: {file: other.login}}",
		limits: "{lease: 10s, start: 60s, silence: 12s, run: 5m, grace: 1s, deliveries: 2}",
	}
	for _, list := range roles {
		for _, name := range list {
			s.services[name] = "credentials: " + logins[name]
		}
	}
	r := newRig(t, s)
	programs := realPrograms(t)
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	for name := range s.services {
		agent, url, model := "codex", codexURL+"/v1", "gpt-5.5"
		if name == "claude" {
			agent, url, model = "claude", claudeURL, "sonnet"
		}
		line := regexp.MustCompile(`(?m)^(  ` + name + `: \{)agent: command, command: \[[^\]]*\]`)
		text = line.ReplaceAll(text, fmt.Appendf(nil, "${1}agent: %s, command: [%q], model: %s, base_url: %q, config_dir: %q",
			agent, programs[agent], model, url, "home-"+name))
		if err := os.MkdirAll(filepath.Join(r.dir, "home-"+name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	r.write(r.file, string(text), 0o600)
	for name, login := range map[string]string{"first": realFirst, "second": realSecond, "other": realCodex} {
		r.write(filepath.Join(r.dir, name+".login"), login, 0o600)
	}
	r.startAll()
	return r
}

// slowly waits longer than the other tests do: the programs take their time.
func (r *rig) slowly(what string, reached func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(6 * time.Minute); !reached(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited in vain for %s\n%s", what, r.picture())
		}
	}
}

// git answers a question about the user's repository.
func (r *rig) git(args ...string) string {
	r.t.Helper()
	out, err := exec.Command("git", append([]string{"-C", r.repo}, args...)...).CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// A paired task goes from Claude Code to Codex and back: the owner changes a file,
// the reviewer looks at it and approves, the owner finalizes.
func TestRealPairedTask(t *testing.T) {
	mock := mockapi.Start(map[string]mockapi.Scenario{
		realFirst:  {Steps: []mockapi.Step{{Shell: "echo owner-was-here > hello.txt"}, {Outcome: "done", Text: "hello.txt is written"}}},
		realSecond: {Steps: []mockapi.Step{{Outcome: "done", Text: "nothing more to do"}}},
		realCodex:  {Steps: []mockapi.Step{{Shell: "cat hello.txt"}, {Outcome: "approve", Text: "it says so"}}},
	})
	defer mock.Close()
	r := realRig(t, map[string][]string{"owner": {"claude"}, "reviewer": {"codex-review"}}, mock.URL, mock.URL)
	r.task("hush")
	r.slowly("the end of the paired task", func() bool { return r.paired("hush").Status == turns.PairCompleted })

	r.story("hush/1", "claude initial completed")
	r.story("hush/2", "codex-review initial completed")
	r.story("hush/3", "claude initial completed")
	for n, want := range []struct {
		role    turns.Role
		intent  turns.Intent
		outcome turns.Outcome
		login   string
		text    string
	}{
		{turns.Owner, turns.Work, turns.Done, "first", "hello.txt is written"},
		{turns.Reviewer, turns.Review, turns.Approve, "other", "it says so"},
		{turns.Owner, turns.Finalize, turns.Done, "second", "nothing more to do"},
	} {
		id := turns.TurnID("hush", n+1)
		u, a := r.turn(id), r.attempt(turns.AttemptID(id, 1))
		text, err := r.store.Text(t.Context(), id)
		if err != nil || u.Role != want.role || u.Intent != want.intent || u.Outcome != want.outcome || text != want.text || a.Credential != want.login {
			t.Errorf("%s: %s %s %s by %s: %q, %v", id, u.Role, u.Intent, u.Outcome, a.Credential, text, err)
		}
		if a.Session == "" || !strings.Contains(a.Usage, `"input_tokens"`) {
			t.Errorf("%s: session %q, usage %s", id, a.Session, a.Usage)
		}
	}
	// The change is real: it is the accepted tree, an object of the user's own repository.
	if got := r.git("show", r.paired("hush").Accepted+":hello.txt"); got != "owner-was-here" {
		t.Errorf("the accepted tree says %q", got)
	}
	seen := slices.ContainsFunc(mock.Requests(), func(q mockapi.Request) bool {
		return q.Key == realCodex && strings.Contains(q.Body, "hello.txt") && strings.Contains(q.Body, `owner-was-here`)
	})
	if !seen {
		t.Error("the reviewer did not see the owner's file")
	}
	r.noLogin("after the real programs", realFirst, realSecond, realCodex)
}

// refusals are the situations of the table in docs/agents.md, with the class of
// the first failure.
var refusals = []struct {
	name  string
	fault mockapi.Fault
	class turns.Class
}{
	{"key not known (401)", mockapi.BadKey, turns.ClassAuth},
	{"token expired (401)", mockapi.Expired, turns.ClassAuth},
	{"usage limit (429 with reset)", mockapi.UsageLimit, turns.ClassQuota},
	{"no capacity (529)", mockapi.Overloaded, turns.ClassOverloaded},
	{"connection refused", "", turns.ClassNetwork},
	{"no answer at all", mockapi.Stall, turns.ClassStalled},
	{"silence in mid-stream", mockapi.StallMid, turns.ClassStalled},
	{"connection lost in mid-stream", mockapi.Cut, turns.ClassNetwork},
	{"stream ends early", mockapi.EndsEarly, turns.ClassBadOutput},
}

// The reviewer is on Claude Code, every login of which meets the same: the turn
// ends on Codex, as the same reviewer's turn. Prints the table of docs/agents.md.
func TestRealReviewerFallsBack(t *testing.T) {
	var rows []string
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			mock := mockapi.Start(map[string]mockapi.Scenario{
				realFirst: {Fault: c.fault}, realSecond: {Fault: c.fault},
				realCodex: {Steps: []mockapi.Step{{Shell: "echo hello > hello.txt"}, {Outcome: "done", Text: "written"},
					{Outcome: "approve", Text: "fine"}, {Outcome: "done", Text: "the end"}}},
			})
			defer mock.Close()
			claude := mock.URL
			if c.name == "connection refused" {
				claude = "http://" + freeAddress(t)
			}
			r := realRig(t, map[string][]string{"owner": {"codex-main"}, "reviewer": {"claude", "codex-review"}}, claude, mock.URL)
			r.task("fall")
			r.slowly("the end of the paired task", func() bool { return r.paired("fall").Status == turns.PairCompleted })
			rows = append(rows, "| "+c.name+" | "+strings.Join(r.fell("fall/2", c.class), " | ")+" |")
			if got := r.git("show", r.paired("fall").Accepted+":hello.txt"); got != "hello" {
				t.Errorf("the accepted tree says %q", got)
			}
		})
	}
	t.Logf("\n| every Claude login meets | what happened to the reviewer's turn | role | took |\n|---|---|---|---|\n%s\n", strings.Join(rows, "\n"))
}

// fell checks a review that began on claude and was approved on codex-review, and
// tells it for the table.
func (r *rig) fell(turn string, class turns.Class) []string {
	r.t.Helper()
	u, attempts := r.turn(turn), r.attempts(turn)
	last := attempts[len(attempts)-1]
	if u.Role != turns.Reviewer || u.Intent != turns.Review || u.Outcome != turns.Approve || last.Service != "codex-review" || last.Cause != turns.CauseHandoff {
		r.t.Errorf("%s: %s %s %s by %s\n%s", turn, u.Role, u.Intent, u.Outcome, last.Service, r.picture())
	}
	if attempts[0].Class != class {
		r.t.Errorf("first failure %s, want %s: %s", attempts[0].Class, class, attempts[0].Error)
	}
	// Every move of the turn was one of the same role, on a service of that role.
	log, err := r.store.Log(r.t.Context(), turn)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, w := range r.workers {
		for line := range strings.Lines(w.text()) {
			if strings.Contains(line, `"turn":"`+turn+`"`) && strings.Contains(line, `"role":`) && !strings.Contains(line, `"role":"reviewer"`) {
				r.t.Errorf("logged with another role: %s", line)
			}
		}
	}
	var steps []string
	requeued := map[string]int{}
	for _, e := range log {
		if e.Verb == turns.VerbRequeue {
			requeued[e.Attempt]++
		}
	}
	for _, a := range attempts {
		step := a.Service
		if a.Credential != "" {
			step += " (" + a.Credential + ")"
		}
		if a.Class != "" {
			step += ": " + string(a.Class)
		} else {
			step += ": " + string(u.Outcome)
		}
		if n := requeued[a.ID]; n > 0 {
			step += fmt.Sprintf(", again ×%d", n)
		}
		if a.Cause != turns.CauseInitial {
			step = string(a.Cause) + " → " + step
		}
		steps = append(steps, step)
	}
	took := u.Ended.Sub(u.Created).Round(time.Second)
	return []string{strings.Join(steps, "; "), string(u.Role) + " in all", took.String()}
}

// freeAddress returns an address on which nobody listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

//go:build agents && linux

// The real programs against the mock of their API. Run by `make agents`: it
// installs them once through npm into the user's cache folder (over 1 GB) and
// prints the table of docs/agents.md.
package agents_test

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rota/agents"
	"rota/agents/acp"
	"rota/agents/claude"
	"rota/agents/codex"
	"rota/agents/mockapi"
	"rota/agents/recording"
	"rota/turns"
)

// The versions that the table was made with.
const (
	claudeVersion = "2.1.197"
	codexVersion  = "0.171.0"
	acpVersion    = "0.16.2" // of claude-code-acp
)

const key = "sk-fake-not-a-secret"

// program is a real program as the tests start it.
type program struct {
	name string
	path string
	// login is the environment of a run with a key, token that of a subscription.
	login func(key string) map[string]string
	token func(key string) map[string]string
	agent func(url, home string) agents.Agent
	// plain says that its protocol carries neither a structured verdict nor usage.
	plain bool
}

func programs(t *testing.T) []program {
	dir := install(t)
	claudePath := filepath.Join(dir, "node_modules/@anthropic-ai/claude-code-linux-x64/claude")
	found, err := filepath.Glob(filepath.Join(dir, "node_modules/@openai/codex-linux-*/vendor/*/bin/codex"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no codex below %s: %v", dir, err)
	}
	env := func(name string) func(string) map[string]string {
		return func(key string) map[string]string { return map[string]string{name: key} }
	}
	return []program{
		{"claude", claudePath, env("ANTHROPIC_API_KEY"), env("CLAUDE_CODE_OAUTH_TOKEN"), func(url, home string) agents.Agent {
			return claude.New(claude.Options{Program: claudePath, Model: "sonnet", BaseURL: url, ConfigDir: home, Env: map[string]string{"HOME": home}})
		}, false},
		{"codex", found[0], env("CODEX_API_KEY"), env("CODEX_API_KEY"), func(url, home string) agents.Agent {
			return codex.New(codex.Options{Program: found[0], Model: "gpt-5.5", BaseURL: url + "/v1", ConfigDir: home, Env: map[string]string{"HOME": home}})
		}, false},
		{"acp", "node", env("ANTHROPIC_API_KEY"), env("CLAUDE_CODE_OAUTH_TOKEN"), func(url, home string) agents.Agent {
			return acp.New(acp.Options{
				Allow:   true, // nobody is there to answer
				Command: []string{"node", filepath.Join(dir, "node_modules/@zed-industries/claude-code-acp/dist/index.js")},
				Env: map[string]string{
					"HOME": home, "ANTHROPIC_BASE_URL": url, "CLAUDE_CONFIG_DIR": home, "CLAUDE_CODE_MAX_RETRIES": "1",
					"DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
				},
			})
		}, true},
	}
}

// install installs the programs where they are not there yet.
func install(t *testing.T) string {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cmp.Or(os.Getenv("ROTA_AGENTS_CACHE"), filepath.Join(cache, "rota-agents")), "npm")
	want := []string{"@anthropic-ai/claude-code@" + claudeVersion, "@openai/codex@" + codexVersion, "@zed-industries/claude-code-acp@" + acpVersion}
	mark := filepath.Join(dir, "installed")
	if have, err := os.ReadFile(mark); err == nil && string(have) == strings.Join(want, " ") {
		return dir
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("npm", append([]string{"install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir}, want...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm install: %v\n%s", err, out)
	}
	if err := os.WriteFile(mark, []byte(strings.Join(want, " ")), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// repository returns a git repository with one commit.
func repository(t *testing.T) string {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "README.md"), "a work\n")
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func taskOf(role turns.Role, dir string, login map[string]string) agents.Task {
	intent, _ := turns.FirstIntent(role)
	return agents.Task{
		Thread: "t", Turn: "t/1", Attempt: "t/1.1", Role: role, Intent: intent, Fence: time.Now().UnixMicro(),
		Prompt: "do the work", Workspace: dir, ReadOnly: role != turns.Owner, Login: login,
		Start: time.Minute, Silence: time.Minute,
	}
}

func run(t *testing.T, a agents.Agent, task agents.Task) (agents.Result, *recording.Heard, error) {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Minute, fmt.Errorf("the test's own bound"))
	defer cancel()
	var heard recording.Heard
	res, err := a.Run(ctx, task, &heard)
	return res, &heard, err
}

// situation is a row of the table.
type situation struct {
	name  string
	fault mockapi.Fault
	token bool // with the login of a subscription
	edit  func(*agents.Task, string)
	class map[string]turns.Class // what is wanted; "" is a success
}

func all(c turns.Class) map[string]turns.Class {
	return map[string]turns.Class{"claude": c, "codex": c, "acp": c}
}

// but is all with another class for one program.
func but(program string, other, rest turns.Class) map[string]turns.Class {
	m := all(rest)
	m[program] = other
	return m
}

var situations = []situation{
	{name: "answer", class: all("")},
	{name: "key not known (401)", fault: mockapi.BadKey, class: all(turns.ClassAuth)},
	{name: "token expired (401)", fault: mockapi.Expired, token: true, class: all(turns.ClassAuth)},
	{name: "no login", edit: func(t *agents.Task, _ string) { t.Login = nil }, class: all(turns.ClassAuth)},
	{name: "no permission (403)", fault: mockapi.Forbidden, class: all(turns.ClassAuth)},
	{name: "usage limit (429 with reset)", fault: mockapi.UsageLimit, token: true, class: all(turns.ClassQuota)},
	{name: "credit used up", fault: mockapi.NoCredit, class: all(turns.ClassQuota)},
	{name: "requests per minute (429)", fault: mockapi.PerMinute, class: all(turns.ClassRateLimited)},
	{name: "no capacity (529, 503)", fault: mockapi.Overloaded, class: all(turns.ClassOverloaded)},
	{name: "server error (500)", fault: mockapi.Broken, class: all(turns.ClassServer)},
	{name: "connection refused", class: all(turns.ClassNetwork)},
	{name: "connection dropped", fault: mockapi.Drop, class: all(turns.ClassNetwork)},
	{name: "no answer at all", fault: mockapi.Stall, edit: quiet, class: all(turns.ClassStalled)},
	{name: "silence in mid-stream", fault: mockapi.StallMid, edit: quiet, class: all(turns.ClassStalled)},
	{name: "connection lost in mid-stream", fault: mockapi.Cut, class: all(turns.ClassNetwork)},
	{name: "stream ends early", fault: mockapi.EndsEarly, class: but("acp", "", turns.ClassBadOutput)}, // the protocol does not tell
	{name: "a proxy's page with 200", fault: mockapi.Garbage, class: but("acp", turns.ClassEmpty, turns.ClassBadOutput)},
	{name: "model not known (404)", fault: mockapi.NoModel, class: all(turns.ClassConfig)},
	{name: "context too long", fault: mockapi.TooLong, class: all(turns.ClassContextOverflow)},
	{name: "output limit", fault: mockapi.TooMuch, class: all(turns.ClassOutputLimit)},
	{name: "refusal", fault: mockapi.Refusal, class: all(turns.ClassRefusal)},
	{name: "empty answer", fault: mockapi.Empty, class: all(turns.ClassEmpty)},
	{name: "session not known", edit: func(t *agents.Task, _ string) { t.Session = "00000000-0000-4000-8000-000000000001" }, class: all(turns.ClassSessionLost)},
	{name: "session id that is none", edit: func(t *agents.Task, _ string) { t.Session = "not-a-uuid" }, class: all(turns.ClassSessionLost)},
	{name: "workspace gone", edit: func(t *agents.Task, _ string) { t.Workspace += "/gone" }, class: all(turns.ClassConfig)},
}

func quiet(t *agents.Task, _ string) { t.Silence = 3 * time.Second }

// TestSituations runs every situation with every program and prints the table.
func TestSituations(t *testing.T) {
	programs := programs(t)
	rows := make([]string, 0, len(situations))
	for _, s := range situations {
		row := "| " + s.name + " |"
		for _, p := range programs {
			t.Run(s.name+"/"+p.name, func(t *testing.T) {
				cell, class := s.run(t, p)
				row += " " + cell + " |"
				if class != s.class[p.name] {
					t.Errorf("got %s, want %s", cell, s.class[p.name])
				}
			})
		}
		rows = append(rows, row)
	}
	t.Logf("\n| situation | claude %s | codex %s | acp (claude-code-acp %s) |\n|---|---|---|---|\n%s\n", claudeVersion, codexVersion, acpVersion, strings.Join(rows, "\n"))
}

// run plays one situation and returns the cell of the table.
func (s situation) run(t *testing.T, p program) (string, turns.Class) {
	mock := mockapi.Start(map[string]mockapi.Scenario{key: {Fault: s.fault}, "": {Fault: mockapi.BadKey}})
	defer mock.Close()
	url := mock.URL
	if s.name == "connection refused" {
		url = "http://" + freeAddress(t)
	}
	login := p.login
	if s.token {
		login = p.token
	}
	task := taskOf(turns.Owner, repository(t), login(key))
	if s.edit != nil {
		s.edit(&task, url)
	}
	began := time.Now()
	res, _, err := run(t, p.agent(url, t.TempDir()), task)
	took := time.Since(began).Round(100 * time.Millisecond)
	if err == nil {
		if res.Text != "DONE" {
			t.Errorf("answer %q", res.Text)
		}
		return fmt.Sprintf("success, %v", took), ""
	}
	f := turns.FailureOf(err)
	t.Logf("%s: %s (dead %v, scope %q, resets %v)", f.Class, f.Message, f.Dead, f.Scope, f.ResetsAt)
	if strings.Contains(err.Error(), key) {
		t.Errorf("the error holds the login: %v", err)
	}
	if s.fault == mockapi.UsageLimit && time.Until(f.ResetsAt) < time.Hour {
		t.Errorf("resets at %v, want in %v", f.ResetsAt, mockapi.ResetsIn)
	}
	cell := string(f.Class)
	if f.Dead {
		cell += ", login dead"
	}
	if !f.ResetsAt.IsZero() {
		cell += ", reset known"
	}
	return fmt.Sprintf("%s, %v", cell, took), f.Class
}

// freeAddress returns an address on which nobody listens.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

package claude

import (
	"slices"
	"strings"
	"testing"

	"rota/agents"
	"rota/turns"
)

func argsOf(t *testing.T, o Options, task agents.Task) []string {
	t.Helper()
	args, err := New(o).args(task)
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// value returns what follows the last flag of this name, as the program takes it.
func value(t *testing.T, args []string, flag string) string {
	t.Helper()
	for i := len(args) - 2; i >= 0; i-- {
		if args[i] == flag {
			return args[i+1]
		}
	}
	t.Fatalf("no %s in %q", flag, args)
	return ""
}

// TestNothingOfARepositoryIsLoaded: a hostile repository brings settings with
// hooks, lifted permissions, a base URL and servers. These arguments keep them
// out; each was seen to with the real program.
func TestNothingOfARepositoryIsLoaded(t *testing.T) {
	undo := Options{Args: []string{
		"--setting-sources", "user,project,local", "--permission-mode", "bypassPermissions", "--tools", "default",
		"--dangerously-skip-permissions",
	}}
	for _, o := range []Options{{}, {Model: "m"}, undo} {
		for _, role := range turns.Roles {
			args := argsOf(t, o, agents.Task{Role: role, ReadOnly: role != turns.Owner, Workspace: "/w"})
			if got := value(t, args, "--setting-sources"); got != "user" {
				t.Errorf("%s: --setting-sources %s", role, got)
			}
			if !slices.Contains(args, "--strict-mcp-config") {
				t.Errorf("%s: servers of the repository are started", role)
			}
			want := map[turns.Role][2]string{
				turns.Owner:    {"acceptEdits", "Bash,Read,Edit,Write,Glob,Grep"},
				turns.Reviewer: {"dontAsk", "Bash,Read,Glob,Grep"},
				turns.Arbiter:  {"dontAsk", ""},
			}[role]
			if got := value(t, args, "--permission-mode"); got != want[0] {
				t.Errorf("%s: --permission-mode %s", role, got)
			}
			if got := value(t, args, "--tools"); got != want[1] {
				t.Errorf("%s: --tools %s", role, got)
			}
			if role != turns.Owner && slices.Contains(args, "--allowedTools") {
				t.Errorf("%s: an allow rule lets the shell write", role)
			}
			if slices.ContainsFunc(args, forbidden) {
				t.Errorf("%s: permissions are lifted: %q", role, args)
			}
		}
	}
}

func TestReadOnlyOwnerDoesNotWrite(t *testing.T) {
	args := argsOf(t, Options{}, agents.Task{Role: turns.Owner, ReadOnly: true})
	if got := value(t, args, "--permission-mode"); got != "dontAsk" {
		t.Errorf("--permission-mode %s", got)
	}
}

func TestInvalidRoleIsRefused(t *testing.T) {
	for _, role := range []turns.Role{"", "admin"} {
		_, err := New(Options{}).args(agents.Task{Role: role})
		if f := turns.FailureOf(err); err == nil || f.Class != turns.ClassUnresolvable {
			t.Errorf("role %q: %v", role, err)
		}
	}
}

func TestPromptAndLoginAreNoArguments(t *testing.T) {
	task := agents.Task{
		Role: turns.Reviewer, Prompt: "look at the work", Session: "s-1", WantVerdict: true, Outcomes: turns.Outcomes(turns.Reviewer),
		Login: map[string]string{"ANTHROPIC_API_KEY": "sk-fake-not-a-secret"},
	}
	all := strings.Join(argsOf(t, Options{BaseURL: "http://127.0.0.1:1"}, task), "\n")
	for _, no := range []string{task.Prompt, "sk-fake"} {
		if strings.Contains(all, no) {
			t.Errorf("%q is in the arguments", no)
		}
	}
	if !strings.Contains(all, "--resume\ns-1\n") || !strings.Contains(all, `"enum":["approve","changes","blocked","needs_context"]`) {
		t.Errorf("no resume or no schema: %s", all)
	}
}

func TestEnvironment(t *testing.T) {
	a := New(Options{BaseURL: "http://127.0.0.1:1", ConfigDir: "/c", Env: map[string]string{"ANTHROPIC_API_KEY": "sk-fake-other", "MINE": "1"}})
	env := a.environ(map[string]string{"CLAUDE_CODE_OAUTH_TOKEN": "sk-fake-not-a-secret"})
	want := map[string]string{
		"ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "CLAUDE_CONFIG_DIR": "/c", "MINE": "1",
		"CLAUDE_CODE_OAUTH_TOKEN": "sk-fake-not-a-secret", "CLAUDE_CODE_MAX_RETRIES": "2",
	}
	for k, v := range want {
		if env[k] != v {
			t.Errorf("%s=%q, want %q", k, env[k], v)
		}
	}
	if _, ok := env["ANTHROPIC_API_KEY"]; ok {
		t.Error("the run gets a second login")
	}
	if a.environ(nil)["ANTHROPIC_API_KEY"] == "" {
		t.Error("without a login of the run the configured one is missing")
	}
	if _, ok := env["CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK"]; ok {
		t.Error("with this switch errors lose their class")
	}
}

package codex

import (
	"os"
	"slices"
	"strings"
	"testing"

	"rota/agents"
	"rota/turns"
)

func argsOf(t *testing.T, o Options, task agents.Task) []string {
	t.Helper()
	args, err := New(o).args(task, "")
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// last returns the last argument after a flag, as the program takes it.
func last(args []string, flag string) string {
	for i := len(args) - 2; i >= 0; i-- {
		if args[i] == flag {
			return args[i+1]
		}
	}
	return ""
}

// TestNothingOfARepositoryIsLoaded: configuration, rules and instructions of a
// repository are kept out and the sandbox is always named; each was seen to
// hold with the real program.
func TestNothingOfARepositoryIsLoaded(t *testing.T) {
	undo := Options{Args: []string{
		"--sandbox", "danger-full-access", "-c", `approval_policy="on-request"`, "-c", `project_doc_max_bytes=99`,
		"--dangerously-bypass-approvals-and-sandbox", "--full-auto", "--trust",
	}}
	for _, o := range []Options{{}, {Model: "m"}, undo} {
		for _, role := range turns.Roles {
			args := argsOf(t, o, agents.Task{Role: role, ReadOnly: role != turns.Owner, Workspace: "/w"})
			want := map[turns.Role]string{turns.Owner: "workspace-write", turns.Reviewer: "read-only", turns.Arbiter: "read-only"}[role]
			if got := last(args, "--sandbox"); got != want {
				t.Errorf("%s: --sandbox %s", role, got)
			}
			for _, flag := range []string{"--ignore-user-config", "--ignore-rules"} {
				if !slices.Contains(args, flag) {
					t.Errorf("%s: no %s", role, flag)
				}
			}
			for _, set := range []string{"approval_policy=", "project_doc_max_bytes=", "shell_environment_policy.inherit="} {
				if got, want := lastSetting(args, set), lastSetting(argsOf(t, Options{}, agents.Task{Role: role}), set); got != want || got == "" {
					t.Errorf("%s: the options undo %s: %s", role, set, got)
				}
			}
			if slices.ContainsFunc(args, forbidden) {
				t.Errorf("%s: the sandbox is lifted: %q", role, args)
			}
			if got := slices.Contains(args, "shell_tool"); got != (role == turns.Arbiter) {
				t.Errorf("%s: shell switched off: %v", role, got)
			}
		}
	}
}

func lastSetting(args []string, prefix string) string {
	for _, a := range slices.Backward(args) {
		if strings.HasPrefix(a, prefix) {
			return a
		}
	}
	return ""
}

func TestReadOnlyOwnerDoesNotWrite(t *testing.T) {
	if got := last(argsOf(t, Options{}, agents.Task{Role: turns.Owner, ReadOnly: true}), "--sandbox"); got != "read-only" {
		t.Errorf("--sandbox %s", got)
	}
}

func TestInvalidRoleIsRefused(t *testing.T) {
	for _, role := range []turns.Role{"", "admin"} {
		_, err := New(Options{}).args(agents.Task{Role: role}, "")
		if f := turns.FailureOf(err); err == nil || f.Class != turns.ClassUnresolvable {
			t.Errorf("role %q: %v", role, err)
		}
	}
}

func TestPromptAndLoginAreNoArguments(t *testing.T) {
	task := agents.Task{
		Role: turns.Reviewer, Prompt: "look at the work", Session: "s-1+1.2.3",
		Login: map[string]string{"CODEX_API_KEY": "sk-fake-not-a-secret"},
	}
	args := argsOf(t, Options{}, task)
	all := strings.Join(args, "\n")
	for _, no := range []string{task.Prompt, "sk-fake", "1.2.3"} {
		if strings.Contains(all, no) {
			t.Errorf("%q is in the arguments", no)
		}
	}
	if !slices.Equal(args[len(args)-3:], []string{"resume", "s-1", "-"}) {
		t.Errorf("the end is %q", args[len(args)-3:])
	}
}

func TestProvider(t *testing.T) {
	key := map[string]string{"CODEX_API_KEY": "sk-fake-not-a-secret"}
	tests := []struct {
		name  string
		o     Options
		login map[string]string
		want  string
	}{
		{"key", Options{}, key, `base_url="https://api.openai.com/v1",wire_api="responses",env_key="CODEX_API_KEY",request_max_retries=2,stream_max_retries=0`},
		{"key and url", Options{BaseURL: `http://h/"x`}, key, `base_url="http://h/\"x"`},
		{"the other key", Options{}, map[string]string{"OPENAI_API_KEY": "sk-fake"}, `env_key="OPENAI_API_KEY"`},
		{"sign-in", Options{}, map[string]string{"CODEX_HOME": "/x"}, ""},
		{"sign-in and url", Options{BaseURL: "http://h"}, nil, `openai_base_url="http://h"`},
	}
	for _, tt := range tests {
		got := strings.Join(New(tt.o).provider(tt.login), " ")
		if !strings.Contains(got, tt.want) || (tt.want == "") != (got == "") {
			t.Errorf("%s: %s", tt.name, got)
		}
	}
}

func TestEnvironment(t *testing.T) {
	a := New(Options{ConfigDir: "/c", Env: map[string]string{"OPENAI_API_KEY": "sk-fake-other", "MINE": "1"}})
	env := a.environ(map[string]string{"CODEX_API_KEY": "sk-fake-not-a-secret"})
	if env["CODEX_HOME"] != "/c" || env["MINE"] != "1" || env["CODEX_API_KEY"] == "" {
		t.Errorf("environment %v", env)
	}
	if _, ok := env["OPENAI_API_KEY"]; ok {
		t.Error("the run gets a second login")
	}
}

func TestSchemaFileGoesWithTheRun(t *testing.T) {
	file, remove, err := schemaFile(agents.Task{WantVerdict: true, Outcomes: turns.Outcomes(turns.Arbiter)})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `"enum":["proceed","revise","reset","escalate"]`) {
		t.Errorf("schema %s, %v", text, err)
	}
	remove()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestQuote(t *testing.T) {
	if got, want := quote("a \"b\" \\ c\n\x7f ü"), `"a \"b\" \\ c\u000A\u007F ü"`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

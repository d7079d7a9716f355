// Package codex carries out runs with Codex: `codex exec --json`.
//
// A run reads nothing that the workspace says about Codex, nor the user's
// configuration and rules. What each role may do is set by the sandbox (see
// args), the prompt goes in by standard input, and what came of it is read from
// the end of the turn (see Stream).
package codex

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"rota/agents"
	"rota/agents/drive"
	"rota/agents/process"
	"rota/agents/transcript"
	"rota/turns"
)

// Options say how Codex is run. The zero value runs `codex` from the PATH with
// the user's own login and the program's default model.
type Options struct {
	Program   string            // name or path of the program; "codex". The native one, not a wrapper
	Model     string            // empty for the program's default
	BaseURL   string            // of the API, with /v1; empty for the default
	ConfigDir string            // CODEX_HOME, where sessions and a login live; empty for the user's own
	Args      []string          // more arguments of `codex exec`; they can't undo those that keep a run safe
	Env       map[string]string // more environment; a run's login wins
}

// Agent is Codex.
type Agent struct{ options Options }

// New returns the agent.
func New(o Options) *Agent {
	if o.Program == "" {
		o.Program = "codex"
	}
	return &Agent{options: o}
}

// Kind returns "codex".
func (a *Agent) Kind() string { return "codex" }

// Run carries out one run. See agents.Agent. The session of a result carries the
// thread's usage so far, because Codex counts from the thread's start.
func (a *Agent) Run(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
	schema, remove, err := schemaFile(task)
	if err != nil {
		return agents.Result{}, err
	}
	defer remove()
	args, err := a.args(task, schema)
	if err != nil {
		return agents.Result{}, err
	}
	spec := process.For(task, append([]string{a.options.Program}, args...)...)
	spec.Env = a.environ(task.Login)
	spec.Stdin = task.Prompt
	return drive.Run(ctx, spec, task.Controls, NewStream(task, report))
}

// Check looks for the program and the switches that keep a run safe.
func (a *Agent) Check(ctx context.Context) error {
	return drive.CheckSwitches(ctx, a.environ(nil), safe, a.options.Program, "exec", "--help")
}

var safe = []string{"--json", "--ignore-user-config", "--ignore-rules", "--sandbox", "--output-schema", "--skip-git-repo-check"}

// schemaFile writes the schema of the verdict to a file of its own, because
// Codex takes no other. Without a wanted verdict there is none.
func schemaFile(task agents.Task) (file string, remove func(), err error) {
	if !transcript.WantsSchema(task) {
		return "", func() {}, nil
	}
	dir, err := os.MkdirTemp("", "rota-codex-")
	if err != nil {
		return "", nil, fmt.Errorf("schema of the verdict: %w", err)
	}
	remove = func() { os.RemoveAll(dir) }
	file = filepath.Join(dir, "verdict.json")
	if err := os.WriteFile(file, []byte(transcript.Schema(task.Outcomes)), 0o600); err != nil {
		remove()
		return "", nil, fmt.Errorf("schema of the verdict: %w", err)
	}
	return file, remove, nil
}

// args returns the arguments of a run. There is no role without a case.
func (a *Agent) args(task agents.Task, schema string) ([]string, error) {
	text, err := transcript.RoleText(task)
	if err != nil {
		return nil, err
	}
	args := []string{"exec", "--json"}
	if a.options.Model != "" {
		args = append(args, "-m", a.options.Model)
	}
	args = append(args, slices.DeleteFunc(slices.Clone(a.options.Args), forbidden)...)
	// The last word counts: what follows can't be undone by the options.
	args = append(args, "--ignore-user-config", "--ignore-rules", "--skip-git-repo-check", "-C", task.Workspace)
	args = append(args, a.provider(task.Login)...)
	for _, set := range []string{
		`approval_policy="never"`, `analytics.enabled=false`, `check_for_update_on_startup=false`,
		`shell_environment_policy.inherit="core"`, // no login reaches the tools by the environment
		`project_doc_max_bytes=0`,                 // a repository's AGENTS.md is read when the prompt says so
		`developer_instructions=` + quote(text),
	} {
		args = append(args, "-c", set)
	}
	for _, feature := range []string{"unbounded_connection_retries", "apps", "plugins", "goals"} {
		args = append(args, "--disable", feature)
	}
	if schema != "" {
		args = append(args, "--output-schema", schema)
	}
	switch {
	case task.Role == turns.Owner && !task.ReadOnly:
		args = append(args, "--sandbox", "workspace-write")
	case task.Role == turns.Arbiter:
		args = append(args, "--sandbox", "read-only", "--disable", "shell_tool", "--disable", "unified_exec", "-c", `web_search="disabled"`)
	default:
		args = append(args, "--sandbox", "read-only")
	}
	if thread := parseSession(task.Session).thread; thread != "" {
		args = append(args, "resume", thread)
	}
	return append(args, "-"), nil
}

// forbidden reports whether an argument lifts the sandbox, whatever follows it.
func forbidden(arg string) bool {
	return strings.HasPrefix(arg, "--dangerously-") || arg == "--full-auto" || arg == "--yolo" || arg == "--trust"
}

// keys are the variables that carry an API key, the preferred one first.
var keys = []string{"CODEX_API_KEY", "OPENAI_API_KEY"}

// provider returns the arguments that name the API. With a key the provider is
// ours, because only such a one lets retries be bounded; a sign-in works with
// the built-in one only.
func (a *Agent) provider(login map[string]string) []string {
	for _, key := range keys {
		if _, ok := a.environ(login)[key]; !ok {
			continue
		}
		url := a.options.BaseURL
		if url == "" {
			url = "https://api.openai.com/v1"
		}
		return []string{"-c", `model_provider="rota"`, "-c", fmt.Sprintf(`model_providers.rota={name="rota",base_url=%s,wire_api="responses",`+
			`env_key=%q,request_max_retries=2,stream_max_retries=0,stream_idle_timeout_ms=120000}`, quote(url), key)}
	}
	if a.options.BaseURL != "" {
		return []string{"-c", "openai_base_url=" + quote(a.options.BaseURL)}
	}
	return nil
}

// environ returns what the run's environment holds beside the clean one.
func (a *Agent) environ(login map[string]string) map[string]string {
	env := map[string]string{}
	if a.options.ConfigDir != "" {
		env["CODEX_HOME"] = a.options.ConfigDir
	}
	maps.Copy(env, a.options.Env)
	if len(login) > 0 {
		maps.DeleteFunc(env, func(name, _ string) bool { return slices.Contains(keys, name) })
	}
	maps.Copy(env, login)
	return env
}

// quote returns a TOML basic string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

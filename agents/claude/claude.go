// Package claude carries out runs with Claude Code: `claude -p` with its
// stream of JSON events.
//
// A run reads nothing that the workspace says about Claude: no settings, hooks,
// permissions or servers of a repository. What each role may do is set by the
// arguments (see args), the prompt goes in by standard input, and what came of
// it is read from the program's own result event (see Stream).
package claude

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"rota/agents"
	"rota/agents/drive"
	"rota/agents/process"
	"rota/agents/transcript"
	"rota/turns"
)

// Options say how Claude Code is run. The zero value runs `claude` from the
// PATH with the user's own login and default model.
type Options struct {
	Program   string            // name or path of the program; "claude"
	Model     string            // empty for the program's default
	BaseURL   string            // of the API; empty for the default
	ConfigDir string            // CLAUDE_CONFIG_DIR, where sessions and a login live; empty for the user's own
	Args      []string          // more arguments; they can't undo those that keep a run safe
	Env       map[string]string // more environment; a run's login wins

	// Ask has an owner ask a person before it edits or runs a command that does
	// more than read, and when it has a question of its own, where the run can bring an answer (Task.Controls).
	Ask bool
}

// Agent is Claude Code.
type Agent struct{ options Options }

// New returns the agent.
func New(o Options) *Agent {
	if o.Program == "" {
		o.Program = "claude"
	}
	return &Agent{options: o}
}

// Kind returns "claude".
func (a *Agent) Kind() string { return "claude" }

// Run carries out one run. See agents.Agent.
func (a *Agent) Run(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
	args, err := a.args(task)
	if err != nil {
		return agents.Result{}, err
	}
	spec := process.For(task, append([]string{a.options.Program}, args...)...)
	spec.Env = a.environ(task.Login)
	if a.asks(task) {
		line, err := json.Marshal(userMessage(task.Prompt, ""))
		if err != nil {
			return agents.Result{}, err
		}
		spec.Stdin, spec.KeepStdin = string(line)+"\n", true
		return drive.Run(ctx, spec, task.Controls, newConversation(task, report))
	}
	spec.Stdin = task.Prompt
	return drive.Run(ctx, spec, task.Controls, NewStream(task, report))
}

// asks reports whether a run's questions go to a person.
func (a *Agent) asks(task agents.Task) bool {
	return a.options.Ask && task.Role == turns.Owner && !task.ReadOnly && task.Controls != nil
}

// Check looks for the program and the switches that keep a run safe.
func (a *Agent) Check(ctx context.Context) error {
	switches := safe
	if a.options.Ask {
		switches = append(slices.Clone(safe), "--input-format", "--replay-user-messages")
	}
	return drive.CheckSwitches(ctx, a.environ(nil), switches, a.options.Program, "--help")
}

var safe = []string{"--setting-sources", "--strict-mcp-config", "--tools", "--permission-mode", "--json-schema"}

// args returns the arguments of a run. There is no role without a case.
func (a *Agent) args(task agents.Task) ([]string, error) {
	args := []string{"-p", "--output-format", "stream-json", "--verbose"}
	if a.options.Model != "" {
		args = append(args, "--model", a.options.Model)
	}
	args = append(args, slices.DeleteFunc(slices.Clone(a.options.Args), forbidden)...)
	// The last word counts: what follows can't be undone by the options.
	args = append(args, "--setting-sources", "user", "--strict-mcp-config", "--disable-slash-commands")
	if task.Session != "" {
		args = append(args, "--resume", task.Session)
	}
	if transcript.WantsSchema(task) {
		args = append(args, "--json-schema", transcript.Schema(task.Outcomes))
	}
	text, err := transcript.RoleText(task)
	if err != nil {
		return nil, err
	}
	args = append(args, "--append-system-prompt", text)
	switch {
	case a.asks(task):
		return append(args, "--tools", "Bash,Read,Edit,Write,Glob,Grep,"+userQuestion, "--permission-mode", "default",
			"--input-format", "stream-json", "--replay-user-messages", "--permission-prompt-tool", "stdio"), nil
	case task.Role == turns.Owner && !task.ReadOnly:
		return append(args, "--tools", "Bash,Read,Edit,Write,Glob,Grep", "--permission-mode", "acceptEdits", "--allowedTools", "Bash"), nil
	case task.Role == turns.Arbiter:
		return append(args, "--tools", "", "--permission-mode", "dontAsk"), nil
	}
	// Without an allow rule the shell runs commands that only read.
	return append(args, "--tools", "Bash,Read,Glob,Grep", "--permission-mode", "dontAsk"), nil
}

// forbidden reports whether an argument lifts all permissions, whatever follows it.
func forbidden(arg string) bool { return strings.Contains(arg, "dangerously-skip-permissions") }

// logins are the variables that carry a login. A run gets those of its own only.
var logins = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"}

// environ returns what the run's environment holds beside the clean one.
func (a *Agent) environ(login map[string]string) map[string]string {
	env := map[string]string{
		"DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_ERROR_REPORTING": "1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
		// The program's own retries are bounded; rota's budgets do the rest.
		"CLAUDE_CODE_MAX_RETRIES": "2",
		// Nothing of a run outlives it.
		"CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1", "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1", "CLAUDE_CODE_DISABLE_CRON": "1",
	}
	if a.options.BaseURL != "" {
		env["ANTHROPIC_BASE_URL"] = a.options.BaseURL
	}
	if a.options.ConfigDir != "" {
		env["CLAUDE_CONFIG_DIR"] = a.options.ConfigDir
	}
	maps.Copy(env, a.options.Env)
	if len(login) > 0 {
		maps.DeleteFunc(env, func(name, _ string) bool { return slices.Contains(logins, name) })
	}
	maps.Copy(env, login)
	return env
}

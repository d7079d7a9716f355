package command

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rota/agents"
	"rota/agents/process"
	"rota/turns"
)

// Agent runs one executable.
type Agent struct {
	argv        []string
	env         map[string]string
	acceptAfter time.Duration // a program that lives this long after the prompt has accepted it
	stopGrace   time.Duration // from SIGINT to the kill
}

// New returns an agent for a command. A program that is given as a relative path
// with a slash is taken from the worker's own folder, never from the workspace:
// a repository must not choose what its worker runs.
func New(argv ...string) *Agent {
	argv = append([]string(nil), argv...)
	if len(argv) > 0 && strings.Contains(argv[0], "/") {
		if full, err := filepath.Abs(argv[0]); err == nil {
			argv[0] = full
		}
	}
	return &Agent{argv: argv, acceptAfter: time.Second, stopGrace: 5 * time.Second}
}

// WithEnv gives the program further environment variables; a run's login wins.
func (a *Agent) WithEnv(env map[string]string) *Agent {
	a.env = maps.Clone(env)
	return a
}

// Kind returns "command".
func (a *Agent) Kind() string { return "command" }

// Check looks for the program.
func (a *Agent) Check(context.Context) error {
	program := ""
	if len(a.argv) > 0 {
		program = a.argv[0]
	}
	_, err := process.Look(program, "/", os.Getenv("PATH"))
	return err
}

// Run carries out one run; see the package comment.
func (a *Agent) Run(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
	input, err := json.Marshal(Input{
		Thread: task.Thread, Turn: task.Turn, Attempt: task.Attempt, Role: string(task.Role), Intent: string(task.Intent),
		Prompt: task.Prompt, Workspace: task.Workspace, Session: task.Session, Previous: task.Previous,
	})
	if err != nil {
		return agents.Result{}, turns.Fail(turns.ClassConfig, "word the prompt: %v", err)
	}
	spec := process.For(task, a.argv...)
	spec.Env = maps.Clone(a.env)
	if spec.Env == nil {
		spec.Env = map[string]string{}
	}
	maps.Copy(spec.Env, task.Login)
	spec.Stdin = string(input) + "\n"
	p, err := process.Start(ctx, spec)
	if err != nil {
		return agents.Result{}, err
	}
	r := &run{agent: a, task: task, report: report, p: p}
	if err := r.listen(task.Controls); err != nil {
		p.Fail(err)
	}
	exit := p.Wait()
	return r.judge(exit)
}

// maxText bounds what is kept of a program that answers in plain text, in bytes.
const maxText = process.DefaultMaxLine

// mode is how a program speaks.
type mode int

const (
	undecided mode = iota
	plain
	jsonLines
)

// run is the state of one run.
type run struct {
	agent  *Agent
	task   agents.Task
	report agents.Reporter
	p      *process.Process

	mode        mode
	accepted    bool
	interrupted bool

	text   strings.Builder // plain text, or the text of progress
	result *agents.Result
	failed *turns.Failure
	broken bool // a line looked like JSON and was none
}

// listen takes lines and a person's requests until the output ends or rota ends
// the program.
func (r *run) listen(controls <-chan agents.Control) error {
	written := r.p.Written()
	var alive <-chan time.Time
	for {
		select {
		case <-r.p.Ended():
			return nil
		case line, ok := <-r.p.Lines():
			if !ok {
				return nil
			}
			if err := r.line(line); err != nil {
				return err
			}
		case <-written:
			written, alive = nil, time.After(r.agent.acceptAfter)
		case <-alive:
			alive = nil
			if r.mode == jsonLines {
				continue // it has a word for it
			}
			if err := r.accept(); err != nil {
				return err
			}
		case c, ok := <-controls:
			if !ok {
				controls = nil
				continue
			}
			r.control(c)
		}
	}
}

func (r *run) control(c agents.Control) {
	var err error
	switch {
	case c.Kind != agents.Interrupt:
		err = fmt.Errorf("a command agent can't take a %s while it runs", c.Kind)
	case !r.interrupted:
		r.interrupted = true
		r.p.Stop(r.agent.stopGrace)
	}
	if c.Done != nil {
		c.Done(err)
	}
}

func (r *run) accept() error {
	if r.accepted {
		return nil
	}
	r.accepted = true
	r.p.Accepted()
	return r.report.Accepted()
}

func (r *run) line(b []byte) error {
	kind := typeOf(b)
	if r.mode == undecided && len(strings.TrimSpace(string(b))) > 0 {
		r.mode = plain
		if kind != "" {
			r.mode = jsonLines
		}
	}
	switch {
	case r.mode == undecided:
		return nil // blank lines before the first word
	case r.mode == plain:
		return r.plainLine(b)
	case kind != "":
		return r.jsonLine(kind, b)
	}
	if strings.HasPrefix(strings.TrimSpace(string(b)), "{") && !json.Valid(b) {
		r.broken = true
	}
	return nil
}

func (r *run) plainLine(b []byte) error {
	if err := r.accept(); err != nil {
		return err
	}
	if r.text.Len()+len(b) > maxText {
		return turns.Fail(turns.ClassBadOutput, "the answer is longer than %d bytes", maxText)
	}
	text := strings.ToValidUTF8(string(b), "\uFFFD")
	r.text.WriteString(text)
	r.text.WriteByte('\n')
	r.report.Progress(turns.ProgressText, text)
	return nil
}

func (r *run) jsonLine(kind string, b []byte) error {
	var l line
	if err := json.Unmarshal(b, &l); err != nil {
		return turns.Fail(turns.ClassBadOutput, "a line of type %s: %v", kind, err)
	}
	if kind == "error" {
		if r.failed == nil {
			r.failed = l.failure(time.Now())
		}
		return nil
	}
	if err := r.accept(); err != nil {
		return err
	}
	switch kind {
	case "progress":
		return r.progress(l)
	case "item":
		item, err := l.item(r.task)
		if err != nil {
			return err
		}
		if item.Kind == turns.ItemTool || item.Kind == turns.ItemSubAgent {
			r.report.Progress(turns.ProgressTools, "")
		}
		return r.report.Item(item)
	case "result":
		result, err := l.result(r.task)
		if err != nil {
			return err
		}
		if result.Session != "" {
			r.report.Session(result.Session)
		}
		r.result = &result
	}
	return nil
}

func (r *run) progress(l line) error {
	level := turns.Progress(l.Progress)
	if level != turns.ProgressText && level != turns.ProgressTools {
		return turns.Fail(turns.ClassBadOutput, "progress %q is neither text nor tools", cut(l.Progress, 40))
	}
	if l.Text != "" && r.text.Len()+len(l.Text) < maxText {
		r.text.WriteString(l.Text)
		r.text.WriteByte('\n')
	}
	r.report.Progress(level, l.Text)
	return nil
}

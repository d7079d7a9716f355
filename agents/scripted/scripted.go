package scripted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"rota/agents"
	"rota/turns"
)

// Agent carries out runs by a script.
type Agent struct {
	script  *Script
	service string
}

// New returns the agent of a service. Without a script every run succeeds.
func New(script *Script, service string) *Agent { return &Agent{script, service} }

// Kind returns "scripted".
func (*Agent) Kind() string { return "scripted" }

// Check finds nothing wrong: there is no program.
func (*Agent) Check(context.Context) error { return nil }

// Run does what the script says; see the package comment.
func (a *Agent) Run(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
	r := &run{task: task, report: report, done: ctx.Done(), controls: task.Controls, answers: map[string]bool{}, began: time.Now()}
	for _, s := range a.script.steps(a.service, task) {
		result, err := r.step(s)
		switch {
		case errors.Is(err, errCtx):
			return agents.Result{}, context.Cause(ctx)
		case errors.Is(err, errInterrupted):
			return agents.Result{Text: strings.Join(r.said, "\n"), Session: r.session(), Interrupted: true}, nil
		case err != nil:
			return agents.Result{}, err
		case result != nil:
			return *result, nil
		}
	}
	if r.over() {
		return agents.Result{}, context.Cause(ctx)
	}
	outcome := map[turns.Role]turns.Outcome{turns.Owner: turns.Done, turns.Reviewer: turns.Approve, turns.Arbiter: turns.Proceed}[task.Role]
	result, err := r.result(step{Result: &outcome, Text: fmt.Sprintf("The %s says %s.", task.Role, outcome)})
	if err != nil {
		return agents.Result{}, err
	}
	return *result, nil
}

var (
	errCtx         = errors.New("the context has ended")
	errInterrupted = errors.New("interrupted by a person")
)

// run is the state of one run.
type run struct {
	task     agents.Task
	report   agents.Reporter
	done     <-chan struct{} // of the context; nil once deaf
	controls <-chan agents.Control
	answers  map[string]bool // requests that a person has answered
	accepted bool
	said     []string
	began    time.Time
}

func (r *run) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

func (r *run) session() string {
	if r.task.Session != "" {
		return r.task.Session
	}
	return "scripted-" + r.task.Turn
}

func (r *run) accept() error {
	if r.accepted {
		return nil
	}
	r.accepted = true
	if err := r.report.Accepted(); err != nil {
		return err
	}
	r.report.Session(r.session())
	return nil
}

func (r *run) progress(level turns.Progress, text string) {
	if text != "" {
		r.said = append(r.said, text)
	}
	r.report.Progress(level, text)
}

// step does one step. A result ends the run, and so does an error.
func (r *run) step(s step) (*agents.Result, error) {
	if r.over() {
		return nil, errCtx
	}
	switch {
	case s.Deaf:
		r.done = nil
		return nil, nil
	case s.Panic != "":
		panic("scripted agent: " + s.Panic)
	case s.Error != "":
		return nil, failure(s)
	case s.Hang:
		return nil, r.wait(func() bool { return false }, 0)
	case s.Wait != 0:
		return nil, r.wait(func() bool { return false }, time.Duration(s.Wait))
	case s.File != "":
		file := s.File
		if !filepath.IsAbs(file) {
			file = filepath.Join(r.task.Workspace, file)
		}
		return nil, r.wait(func() bool { _, err := os.Stat(file); return err == nil }, 0)
	}
	if err := r.accept(); err != nil {
		return nil, err
	}
	switch {
	case s.Progress != "":
		r.progress(s.Progress, s.Text)
	case s.Item != "":
		return nil, r.item(s)
	case s.Answer != "":
		if err := r.wait(func() bool { return r.answers[s.Answer] }, 0); err != nil {
			return nil, err
		}
		return nil, r.item(step{Item: s.Answer, Kind: turns.ItemRequest, State: turns.ItemCompleted})
	case s.Write != "":
		return nil, r.write(s)
	case s.Result != nil:
		return r.result(s)
	}
	return nil, nil
}

func failure(s step) *turns.Failure {
	f := turns.Fail(s.Error, "%s", s.Text)
	f.RetryAfter = time.Duration(s.RetryAfter)
	if s.ResetsIn > 0 {
		f.ResetsAt = time.Now().Add(time.Duration(s.ResetsIn))
	}
	return f
}

func (r *run) item(s step) error {
	if s.Kind == turns.ItemTool || s.Kind == turns.ItemSubAgent {
		r.progress(turns.ProgressTools, "")
	}
	return r.report.Item(turns.Item{
		ID: s.Item, Kind: s.Kind, State: s.State, Title: s.Title, Child: s.Child,
		Thread: r.task.Thread, Turn: r.task.Turn, Attempt: r.task.Attempt,
	})
}

func (r *run) write(s step) error {
	r.progress(turns.ProgressTools, "")
	file := filepath.Join(r.task.Workspace, s.Write)
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(s.Text), 0o644)
	}
	if err != nil {
		return turns.Fail(turns.ClassConfig, "scripted agent: %v", err)
	}
	return nil
}

func (r *run) result(s step) (*agents.Result, error) {
	if err := r.accept(); err != nil {
		return nil, err
	}
	result := agents.Result{Text: s.Text, Session: r.session(), Model: "scripted"}
	if s.Session != "" {
		result.Session = s.Session
		r.report.Session(s.Session)
	}
	if *s.Result != "" {
		outcome, err := turns.ParseOutcome(r.task.Role, string(*s.Result))
		if err != nil {
			return nil, turns.Fail(turns.ClassBadOutput, "result: %v", err)
		}
		result.Outcome = outcome
	}
	if strings.TrimSpace(result.Text) == "" && result.Outcome == "" {
		return nil, turns.Fail(turns.ClassEmpty, "the script's result has neither text nor outcome")
	}
	return &result, nil
}

// look is how often a wait looks for what it waits for.
const look = 5 * time.Millisecond

// wait waits until a condition holds or the time has passed; 0 for no bound. It
// hears the context, a person, and the clocks of the run meanwhile.
func (r *run) wait(until func() bool, bound time.Duration) error {
	var passed, clock <-chan time.Time
	if bound > 0 {
		passed = time.After(bound)
	}
	limit := turns.Fail(turns.ClassStalled, "no word from the agent for %v", r.task.Silence)
	if r.accepted && r.task.Silence > 0 {
		clock = time.After(r.task.Silence)
	} else if !r.accepted && r.task.Start > 0 {
		limit = turns.Fail(turns.ClassTimeout, "the agent did not accept the prompt within %v", r.task.Start)
		clock = time.After(r.task.Start - time.Since(r.began))
	}
	tick := time.NewTicker(look)
	defer tick.Stop()
	for !until() {
		select {
		case <-r.done:
			return errCtx
		case <-passed:
			return nil
		case <-clock:
			return limit
		case c, ok := <-r.controls:
			if !ok {
				r.controls = nil
			} else if r.control(c) {
				return errInterrupted
			}
		case <-tick.C:
		}
	}
	return nil
}

// control takes a person's request and reports whether it ends the run.
func (r *run) control(c agents.Control) bool {
	switch c.Kind {
	case agents.Respond:
		r.answers[c.Item] = true
	case agents.Steer:
		r.progress(turns.ProgressText, c.Text)
	}
	if c.Done != nil {
		c.Done(nil)
	}
	return c.Kind == agents.Interrupt
}

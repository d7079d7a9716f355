package command

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"rota/agents"
	"rota/agents/process"
	"rota/turns"
)

// judge says what the run came to, now that its tree is gone.
func (r *run) judge(exit process.Exit) (agents.Result, error) {
	switch {
	case exit.Err != nil && !(r.interrupted && errors.Is(exit.Err, process.ErrKilled)):
		return agents.Result{}, exit.Err
	case r.interrupted:
		return r.soFar(), nil
	case r.failed != nil:
		return agents.Result{}, r.failed
	case !exit.OK():
		return agents.Result{}, turns.Fail(turns.ClassCrash, "%s", ended(exit))
	}
	if r.mode != jsonLines {
		if err := r.accept(); err != nil { // exit status 0 accepts
			return agents.Result{}, err
		}
		r.result = &agents.Result{Text: strings.TrimSpace(r.text.String())}
	}
	switch {
	case r.result == nil && r.broken:
		return agents.Result{}, turns.Fail(turns.ClassBadOutput, "no result, and a line that is no valid JSON")
	case r.result == nil:
		return agents.Result{}, turns.Fail(turns.ClassCrash, "it ended without a result")
	case strings.TrimSpace(r.result.Text) == "" && r.result.Outcome == "":
		return agents.Result{}, turns.Fail(turns.ClassEmpty, "it ended without an answer")
	}
	return *r.result, nil
}

// soFar is the result of a run that a person interrupted.
func (r *run) soFar() agents.Result {
	result := agents.Result{Text: strings.TrimSpace(r.text.String())}
	if r.result != nil {
		result = *r.result
	}
	result.Interrupted = true
	return result
}

// ended says how a program ended, with the last word of its standard error.
func ended(exit process.Exit) string {
	how := fmt.Sprintf("exit status %d", exit.Code)
	if exit.Signal != 0 {
		how = fmt.Sprintf("ended by signal %d (%v)", exit.Signal, syscall.Signal(exit.Signal))
	}
	lines := strings.Split(strings.TrimSpace(exit.Stderr), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		how += ": " + cut(last, 300)
	}
	return how
}

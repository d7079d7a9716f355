package agents_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"rota/agents"
	"rota/turns"
)

// counter is an agent of one's own: it answers how many words the prompt has.
type counter struct{ most int }

// Kind is the agent's name.
func (counter) Kind() string { return "counter" }

// Check finds nothing wrong: there is no program.
func (counter) Check(context.Context) error { return nil }

// Run reports that it has accepted the prompt, does its work, and answers. What goes
// wrong is a *turns.Failure with a class: the class decides what is tried next.
func (c counter) Run(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
	if task.Prompt == "" {
		return agents.Result{}, &turns.Failure{Class: turns.ClassConfig, Message: "there is no prompt"}
	}
	if err := report.Accepted(); err != nil {
		return agents.Result{}, err // the run is over: its fence is lost
	}
	n := len(strings.Fields(task.Prompt))
	report.Progress(turns.ProgressText, fmt.Sprintf("counted %d words", n))
	if ctx.Err() != nil {
		return agents.Result{}, context.Cause(ctx)
	}
	if n > c.most {
		return agents.Result{}, &turns.Failure{Class: turns.ClassContextOverflow, Message: "too many words"}
	}
	return agents.Result{Text: fmt.Sprintf("%d words", n), Outcome: turns.Done}, nil
}

// printer hears a run.
type printer struct{}

func (printer) Accepted() error                        { fmt.Println("accepted"); return nil }
func (printer) Session(string)                         {}
func (printer) Progress(_ turns.Progress, text string) { fmt.Println(text) }
func (printer) Item(turns.Item) error                  { return nil }

// An agent of one's own. A service of a program that is built with it takes it in
// the place of those of rota.yaml; package agenttest has the suite it should pass.
func ExampleAgent() {
	var agent agents.Agent = counter{most: 5}
	for _, prompt := range []string{"count these four words", "", "these are more words than it can take"} {
		result, err := agent.Run(context.Background(), agents.Task{Role: turns.Owner, Prompt: prompt}, printer{})
		if f, ok := errors.AsType[*turns.Failure](err); ok {
			fmt.Println("failed:", f.Class)
			continue
		}
		fmt.Println(result.Outcome, "-", result.Text)
	}
	// Output:
	// accepted
	// counted 4 words
	// done - 4 words
	// failed: config
	// accepted
	// counted 8 words
	// failed: context_overflow
}

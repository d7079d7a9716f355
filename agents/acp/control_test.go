package acp

import (
	"context"
	"errors"
	"slices"
	"testing"

	"rota/agents"
	"rota/agents/recording"
	"rota/turns"
)

// permissionRun runs an agent that asks before it writes; its script goes on
// only when the answer came.
func permissionRun(t *testing.T, task agents.Task, allow bool, heard agents.Reporter) (agents.Result, error) {
	a := script(t, hello, helloBack, open, opened, prompt, toolEdit, askEdit, answered, says("went on"), endTurn)
	a.options.Allow = allow
	return a.Run(t.Context(), task, heard)
}

func TestPermissionByRole(t *testing.T) {
	for _, role := range turns.Roles {
		if res, err := permissionRun(t, taskOf(t, role), false, &recording.Heard{}); err != nil || res.Text != "went on" {
			t.Errorf("%s: %+v, %v", role, res, err)
		}
	}
}

// asking hears a run and says when a question waits.
type asking struct {
	recording.Heard
	asked chan turns.Item
}

func (a *asking) Item(i turns.Item) error {
	if i.Kind == turns.ItemRequest && i.State == turns.ItemOpen {
		a.asked <- i
	}
	return a.Heard.Item(i)
}

func TestQuestionWaitsForAPerson(t *testing.T) {
	controls := make(chan agents.Control)
	task := taskOf(t, turns.Owner)
	task.Controls = controls
	heard := &asking{asked: make(chan turns.Item, 1)}
	answers := make(chan error, 4)
	go func() {
		item := <-heard.asked
		for _, c := range []agents.Control{
			{Kind: agents.Steer, Text: "faster"},
			{Kind: agents.Respond, Item: "z-other", Text: "yes"},
			{Kind: agents.Respond, Item: item.ID, Text: "perhaps"},
			{Kind: agents.Respond, Item: item.ID, Text: "Reject"},
		} {
			c.Done = func(err error) { answers <- err }
			controls <- c
		}
	}()
	res, err := permissionRun(t, task, false, heard)
	if err != nil || res.Text != "went on" {
		t.Fatalf("got %+v, %v", res, err)
	}
	for i, refused := range []bool{true, true, true, false} {
		if err := <-answers; (err != nil) != refused {
			t.Errorf("control %d: %v", i, err)
		}
	}
	if open := heard.Open(); slices.Contains(open, "z-ask-c1") {
		t.Errorf("the question is still open: %v", open)
	}
	task.Controls = make(chan agents.Control)
	if res, err := permissionRun(t, task, true, &recording.Heard{}); err != nil || res.Text != "went on" {
		t.Errorf("with Allow nobody is asked, got %+v, %v", res, err)
	}
}

func TestChoiceByRole(t *testing.T) {
	// The answers themselves, without a program.
	options := questionOptions()
	for kind, allowed := range map[string]bool{"read": true, "search": true, "edit": false, "execute": false, "": false, "other": false} {
		if got := answerOf(turns.Reviewer, kind, options); (got == "a") != allowed {
			t.Errorf("reviewer, %q: %s", kind, got)
		}
		if got := answerOf(turns.Owner, kind, options); got != "a" {
			t.Errorf("owner, %q: %s", kind, got)
		}
	}
	if got := answerOf(turns.Reviewer, "edit", options[:1]); got != "cancelled" {
		t.Errorf("without a way to say no: %s", got)
	}
}

func TestInterruptKeepsTheWords(t *testing.T) {
	controls := make(chan agents.Control)
	task := taskOf(t, turns.Owner)
	task.Controls = controls
	heard := &speaking{said: make(chan struct{}, 8)}
	go func() {
		<-heard.said
		controls <- agents.Control{Kind: agents.Interrupt}
	}()
	cancelledTurn := `< {"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}`
	res, err := script(t, hello, helloBack, open, opened, prompt, says("half"), `> {"method":"session/cancel"}`, cancelledTurn).Run(t.Context(), task, heard)
	if err != nil || !res.Interrupted || res.Text != "half" || res.Session != "s-1" {
		t.Errorf("got %+v, %v", res, err)
	}
}

type speaking struct {
	recording.Heard
	said chan struct{}
}

func (s *speaking) Progress(l turns.Progress, text string) {
	s.said <- struct{}{}
	s.Heard.Progress(l, text)
}

func TestContextEndsTheRun(t *testing.T) {
	lost := errors.New("fence lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	heard := &speaking{said: make(chan struct{}, 8)}
	go func() {
		<-heard.said
		cancel(lost)
	}()
	if res, err := script(t, hello, helloBack, open, opened, prompt, says("half")).Run(ctx, taskOf(t, turns.Owner), heard); !errors.Is(err, lost) || res.Text != "" {
		t.Errorf("got %+v, %v", res, err)
	}
	failing := &recording.Heard{Err: lost}
	if _, err := script(t, hello, helloBack, open, opened, prompt, says("half"), endTurn).Run(t.Context(), taskOf(t, turns.Owner), failing); !errors.Is(err, lost) {
		t.Errorf("a reporter's error: got %v", err)
	}
}

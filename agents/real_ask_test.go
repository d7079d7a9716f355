//go:build agents && linux

package agents_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rota/agents"
	"rota/agents/claude"
	"rota/agents/mockapi"
	"rota/agents/recording"
	"rota/turns"
)

// asking hears a run and hands over each question that waits.
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

// TestClaudeAsks: Claude Code asks before a command and an edit. What a person
// allows happens, what is denied does not; the reason, a steer and the answer to
// a question of its own reach the model; the verdict needs no question.
func TestClaudeAsks(t *testing.T) {
	dir := repository(t)
	one, two, file := filepath.Join(dir, "one.txt"), filepath.Join(dir, "two.txt"), filepath.Join(dir, "file.txt")
	mock := mockapi.Start(map[string]mockapi.Scenario{key: {Steps: []mockapi.Step{
		{Text: "I begin.", Shell: "touch " + one}, {Shell: "touch " + two}, {Write: file, Content: "x\n"}, {Ask: "Which one?"},
		{Outcome: string(turns.Done), Text: "that is it"},
	}}})
	defer mock.Close()
	task, heard, answers := askTask(t, dir, []agents.Control{
		{Kind: agents.Respond, Text: "yes"}, {Kind: agents.Respond, Text: "two is one too many"}, {Kind: agents.Respond, Text: "ok"},
		{Kind: agents.Respond, Text: "a medlar"},
	}, agents.Control{Kind: agents.Steer, Text: "mind the quinces"})
	res, err := askingClaude(t, mock.URL).Run(t.Context(), task, heard)
	if err != nil || res.Outcome != turns.Done || res.Text != "that is it" || res.Session == "" {
		t.Fatalf("got %+v, %v", res, err)
	}
	for name, want := range map[string]bool{one: true, two: false, file: true} {
		if _, err := os.Stat(name); (err == nil) != want {
			t.Errorf("%s is there: %v", filepath.Base(name), err == nil)
		}
	}
	last := mock.Requests()[len(mock.Requests())-1].Body
	for _, words := range []string{"two is one too many", "mind the quinces", "a medlar"} {
		if !strings.Contains(last, words) {
			t.Errorf("the model does not know %q", words)
		}
	}
	if err := errors.Join(<-answers, <-answers, <-answers, <-answers, <-answers); err != nil || len(heard.Open()) > 0 {
		t.Errorf("controls: %v, left open: %v", err, heard.Open())
	}
}

// TestClaudeIsInterruptedWhileItAsks: the interrupt withdraws the question and
// keeps the words.
func TestClaudeIsInterruptedWhileItAsks(t *testing.T) {
	dir := repository(t)
	one := filepath.Join(dir, "one.txt")
	mock := mockapi.Start(map[string]mockapi.Scenario{key: {Steps: []mockapi.Step{{Text: "I begin.", Shell: "touch " + one}}}})
	defer mock.Close()
	task, heard, answers := askTask(t, dir, nil, agents.Control{Kind: agents.Interrupt})
	res, err := askingClaude(t, mock.URL).Run(t.Context(), task, heard)
	if err != nil || !res.Interrupted || res.Text != "I begin." || <-answers != nil || len(heard.Open()) > 0 {
		t.Errorf("got %+v, %v, left open %v", res, err, heard.Open())
	}
	if _, err := os.Stat(one); err == nil {
		t.Error("the command ran without an answer")
	}
}

func askingClaude(t *testing.T, url string) agents.Agent {
	home := t.TempDir()
	path := filepath.Join(install(t), "node_modules/@anthropic-ai/claude-code-linux-x64/claude")
	a := claude.New(claude.Options{Program: path, Model: "sonnet", BaseURL: url, ConfigDir: home, Env: map[string]string{"HOME": home}, Ask: true})
	if err := a.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return a
}

// askTask is an owner's task with a person who does first at the first question,
// and gives one answer to each.
func askTask(t *testing.T, dir string, responds []agents.Control, first agents.Control) (agents.Task, *asking, chan error) {
	controls, answers := make(chan agents.Control), make(chan error, 8)
	task := taskOf(turns.Owner, dir, map[string]string{"ANTHROPIC_API_KEY": key})
	task.WantVerdict, task.Outcomes, task.Controls = true, turns.Outcomes(turns.Owner), controls
	heard := &asking{asked: make(chan turns.Item, 8)}
	send := func(c agents.Control) {
		c.Done = func(err error) { answers <- err }
		select {
		case controls <- c:
		case <-t.Context().Done():
		}
	}
	go func() {
		item := <-heard.asked
		send(first)
		for i, c := range responds {
			if i > 0 {
				item = <-heard.asked
			}
			c.Item = item.ID
			send(c)
		}
	}()
	return task, heard, answers
}

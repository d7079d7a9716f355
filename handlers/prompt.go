package handlers

import (
	"context"
	"fmt"
	"strings"

	"rota/prompts"
	"rota/turns"
)

// historyTurns is how many earlier turns a prompt tells of.
const historyTurns = 4

// prompt words what the agent is asked, from what is stored with the turn.
func (w *work) prompt(ctx context.Context) (prompt, previous string, err error) {
	h, t := w.handler, w.records.Turn
	in := prompts.Input{
		Role: t.Role, Intent: t.Intent, Outcomes: turns.Outcomes(t.Role), Structured: h.Structured,
		Reminder: w.records.Attempt.Cause == turns.CauseReminder,
	}
	asked, err := w.claimed.asking.Read(ctx, w.records)
	if err != nil {
		return "", "", err
	}
	in.Task, in.Messages = asked.Task, asked.Messages
	for _, told := range asked.History {
		in.History = append(in.History, prompts.Said{Role: told.Role, Outcome: told.Outcome, Text: told.Text})
	}
	if previous, err = w.previous(ctx); err != nil {
		return "", "", err
	}
	in.Previous = previous
	if t.Paired == "" {
		// A lone turn is asked what the person wrote and owes no verdict.
		return lone(in), previous, nil
	}
	prompt, err = prompts.Render(h.Prompts, in)
	if err != nil {
		return "", "", turns.Fail(turns.ClassConfig, "prompt: %v", err)
	}
	return prompt, previous, nil
}

func lone(in prompts.Input) string {
	var b strings.Builder
	b.WriteString(in.Task)
	for _, m := range in.Messages {
		b.WriteString("\n\n" + m.Text)
	}
	if in.Previous != "" {
		b.WriteString("\n\n" + in.Previous)
	}
	return b.String()
}

// previous tells the agent what earlier attempts of the turn did after tools had
// run: it goes on in the same workspace.
func (w *work) previous(ctx context.Context) (string, error) {
	if w.records.Attempt.Number == 1 && w.records.Attempt.Progress != turns.ProgressTools {
		return "", nil
	}
	attempts, err := w.handler.Store.Attempts(ctx, w.records.Turn)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, a := range attempts {
		if a.Progress != turns.ProgressTools {
			continue
		}
		line := fmt.Sprintf("An earlier attempt at this turn (%s, on %s) used tools in this workspace", a.ID, a.Service)
		if a.Class != "" {
			line += fmt.Sprintf(" and then ended: %s", a.Class)
		}
		lines = append(lines, line+".")
	}
	if len(lines) == 0 {
		return "", nil
	}
	return strings.Join(lines, "\n") + "\nLook at the state of the workspace first and continue from there.", nil
}

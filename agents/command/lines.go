package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"rota/agents"
	"rota/turns"
)

// Input is the object on the program's standard input.
type Input struct {
	Thread    string `json:"thread"`
	Turn      string `json:"turn"`
	Attempt   string `json:"attempt"`
	Role      string `json:"role"`
	Intent    string `json:"intent"`
	Prompt    string `json:"prompt"`
	Workspace string `json:"workspace"`
	Session   string `json:"session"`
	Previous  string `json:"previous"`
}

// line is a line of output of any known type.
type line struct {
	Type string `json:"type"`

	Progress string `json:"progress"`
	Text     string `json:"text"`

	ID     string `json:"id"`
	Kind   string `json:"kind"`
	State  string `json:"state"`
	Title  string `json:"title"`
	Child  string `json:"child"`
	Parent string `json:"parent"`

	Outcome string          `json:"outcome"`
	Session string          `json:"session"`
	Usage   json.RawMessage `json:"usage"`

	Class      string `json:"class"`
	Message    string `json:"message"`
	RetryAfter string `json:"retry_after"`
	ResetsAt   string `json:"resets_at"`
}

var known = []string{"accepted", "progress", "item", "result", "error"}

// typeOf returns the known type of a line, or "" for any other line.
func typeOf(b []byte) string {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || b[0] != '{' {
		return ""
	}
	var l struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(b, &l) != nil || !slices.Contains(known, l.Type) {
		return ""
	}
	return l.Type
}

// The bounds of what a program may name.
const (
	maxID    = 128
	maxTitle = 500
)

func (l line) item(task agents.Task) (turns.Item, error) {
	item := turns.Item{
		ID: l.ID, Kind: turns.ItemKind(strings.ReplaceAll(l.Kind, "-", "_")), State: turns.ItemState(l.State), Title: cut(l.Title, maxTitle),
		Thread: task.Thread, Turn: task.Turn, Attempt: task.Attempt, Parent: l.Parent, Child: l.Child,
	}
	switch {
	case item.ID == "" || len(item.ID) > maxID:
		return item, turns.Fail(turns.ClassBadOutput, "an item needs an id of 1 to %d bytes", maxID)
	case item.Kind == turns.ItemRoot || !slices.Contains(turns.ItemKinds, item.Kind):
		return item, turns.Fail(turns.ClassBadOutput, "item %s: unknown kind %q (agent_turn, tool, sub_agent, message, request or error)", item.ID, cut(l.Kind, 40))
	case !slices.Contains([]turns.ItemState{turns.ItemOpen, turns.ItemCompleted, turns.ItemFailed}, item.State):
		return item, turns.Fail(turns.ClassBadOutput, "item %s: unknown state %q (open, completed or failed)", item.ID, cut(l.State, 40))
	case len(item.Child) > maxID || len(item.Parent) > maxID:
		return item, turns.Fail(turns.ClassBadOutput, "item %s: its child or parent is longer than %d bytes", item.ID, maxID)
	}
	return item, nil
}

func (l line) result(task agents.Task) (agents.Result, error) {
	result := agents.Result{Text: l.Text, Session: l.Session}
	if len(l.Session) > maxID {
		return result, turns.Fail(turns.ClassBadOutput, "the result's session is longer than %d bytes", maxID)
	}
	if l.Outcome != "" {
		outcome, err := turns.ParseOutcome(task.Role, l.Outcome)
		if err == nil && len(task.Outcomes) > 0 && !slices.Contains(task.Outcomes, outcome) {
			err = fmt.Errorf("%q is no verdict of this turn", outcome)
		}
		if err != nil {
			return result, turns.Fail(turns.ClassBadOutput, "result: %v", err)
		}
		result.Outcome = outcome
	}
	if len(l.Usage) > 0 {
		if err := json.Unmarshal(l.Usage, &result.Usage); err != nil {
			return result, turns.Fail(turns.ClassBadOutput, "the result's usage: %v", err)
		}
	}
	return result, nil
}

// ours are the classes that only rota itself gives.
var ours = []turns.Class{turns.ClassShutdown, turns.ClassLost, turns.ClassUnresolvable, turns.ClassWaited}

func (l line) failure(now time.Time) *turns.Failure {
	f := &turns.Failure{Class: turns.Class(l.Class), Message: l.Message}
	if !f.Class.Valid() || slices.Contains(ours, f.Class) {
		f.Class = turns.ClassUnknown
		f.Message = fmt.Sprintf("unknown class %q: %s", cut(l.Class, 40), l.Message)
		if l.Class == "" {
			f.Message = "an error without a class: " + l.Message
		}
	}
	if l.RetryAfter != "" {
		if d, err := time.ParseDuration(l.RetryAfter); err == nil && d >= 0 {
			f.RetryAfter = d
		} else {
			f.Message += fmt.Sprintf(" (retry_after %q is no duration)", cut(l.RetryAfter, 40))
		}
	}
	if l.ResetsAt != "" {
		if at, err := time.Parse(time.RFC3339, l.ResetsAt); err != nil {
			f.Message += fmt.Sprintf(" (resets_at %q is no RFC 3339 time)", cut(l.ResetsAt, 40))
		} else if at.After(now) {
			f.ResetsAt = at
		}
	}
	return f
}

// cut bounds a text to n bytes of whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

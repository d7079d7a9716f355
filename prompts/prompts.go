// Package prompts writes what an agent is asked, for exactly one role and
// intent. The texts are templates in files, one for each intent, built into the
// program; a file of the same name in a folder of the user's takes the place of
// the built-in one.
//
// The names are owner-work.md, owner-follow-up.md, owner-finalize.md,
// reviewer-review.md, arbiter-arbitrate.md, and parts.md with the pieces that
// they share. They are of text/template and see an Input.
package prompts

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"text/template"

	"rota/pairs"
	"rota/turns"
)

//go:embed templates/*.md
var builtIn embed.FS

// partsFile holds the named pieces that the other templates use.
const partsFile = "parts.md"

// Input is what a template may tell the agent.
type Input struct {
	Role   turns.Role
	Intent turns.Intent

	Task     string          // the human's words that began the work
	Messages []turns.Message // what people said since, to be answered in this turn
	History  []Said          // what the last turns came to, oldest first
	Previous string          // what an earlier attempt at this turn did; set after tools were used
	Reminder bool            // an earlier attempt ended without a verdict

	// Outcomes are the verdicts to choose from. Empty means those of the role.
	Outcomes []turns.Outcome
	// Structured says that the agent gives its verdict as structured output; else
	// it is asked for the one strict line.
	Structured bool
}

// Said is what a completed turn came to.
type Said struct {
	Role    turns.Role
	Outcome turns.Outcome
	Text    string
}

// FileName returns the name of the template of an intent.
func FileName(i turns.Intent) string { return fmt.Sprintf("%s-%s.md", i.Role(), i) }

// Render returns the prompt. The folder dir may be empty or lack any file; a
// file that is there and can't be used is an error and never replaced by the
// built-in one. Role and intent must belong together: there is no prompt for
// any other pair.
func Render(dir string, v Input) (string, error) {
	if err := turns.CheckRole(v.Role, v.Intent); err != nil {
		return "", fmt.Errorf("prompt: %w", err)
	}
	if len(v.Outcomes) == 0 {
		v.Outcomes = turns.Outcomes(v.Role)
	}
	for _, o := range v.Outcomes {
		if _, err := turns.ParseOutcome(v.Role, string(o)); err != nil {
			return "", fmt.Errorf("prompt: %w", err)
		}
	}
	t, err := parse(dir, FileName(v.Intent))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if err := t.Execute(&b, v); err != nil {
		return "", fmt.Errorf("prompt: %w", err)
	}
	text := strings.TrimSpace(blankLines(b.String())) + "\n"
	if text == "\n" {
		return "", fmt.Errorf("prompt: template %s gives an empty text", t.Name())
	}
	return text, nil
}

// Check returns an error unless every template, with those of dir in their
// place, can be read and gives a text. It is for doctor and for the start of a
// worker, so that a mistake does not wait for the first arbiter.
func Check(dir string) error {
	var errs []error
	for _, i := range turns.Intents {
		_, err := Render(dir, Input{
			Role: i.Role(), Intent: i, Task: "task", Previous: "previous", Reminder: true,
			Messages: []turns.Message{{Text: "message"}},
			History:  []Said{{Role: turns.Owner, Outcome: turns.Done, Text: "report"}},
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// parsed keeps the built-in templates, by name: they don't change.
var parsed sync.Map

func parse(dir, name string) (*template.Template, error) {
	if dir != "" {
		return parseFiles(dir, name)
	}
	if t, ok := parsed.Load(name); ok {
		return t.(*template.Template), nil
	}
	t, err := parseFiles("", name)
	if err == nil {
		parsed.Store(name, t)
	}
	return t, err
}

func parseFiles(dir, name string) (*template.Template, error) {
	t := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{
		"verdict": pairs.VerdictLine,
		"meaning": func(o turns.Outcome) string { return meanings[o] },
		"quote":   quote,
	})
	for _, file := range []string{partsFile, name} {
		text, from, err := read(dir, file)
		if err != nil {
			return nil, err
		}
		if _, err := t.New(file).Parse(text); err != nil {
			return nil, fmt.Errorf("prompt: %s: %w", from, err)
		}
	}
	return t.Lookup(name), nil
}

// maxTemplate bounds a template's file, in bytes.
const maxTemplate = 256 << 10

// read returns a template's text and where it is from.
func read(dir, name string) (text, from string, err error) {
	if dir != "" {
		from = filepath.Join(dir, name)
		own, err := os.ReadFile(from)
		switch {
		case err == nil && len(own) > maxTemplate:
			return "", from, fmt.Errorf("prompt: %s is larger than 256 KiB", from)
		case err == nil:
			return string(own), from, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", from, fmt.Errorf("prompt: %w", err)
		}
	}
	from = "templates/" + name
	own, err := builtIn.ReadFile(from)
	return string(own), from, err
}

// meanings says in a few words what each outcome is for.
var meanings = map[turns.Outcome]string{
	turns.Done:             "the work is complete",
	turns.StepDone:         "a part of the work is complete, more is to follow",
	turns.DoneWithConcerns: "the work is complete, but you doubt something that a reviewer should look at",
	turns.Approve:          "the work can go in as it is",
	turns.Changes:          "something must be changed first; say what and why",
	turns.Proceed:          "the work is good enough: let the reviewer judge it once more in this light",
	turns.Revise:           "the owner must change something; say what",
	turns.Reset:            "the owner must begin anew in another way; say which",
	turns.Escalate:         "only a person can decide; ask the question",
	turns.Blocked:          "you can't go on; say what stands in the way",
	turns.NeedsContext:     "you lack knowledge that others may have; say what",
}

// quote marks somebody's words line by line, so that no line of theirs can pass
// for a line of the prompt.
func quote(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.TrimSpace(s))
	if s == "" {
		return "> (nothing)"
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight("> "+l, " \t")
	}
	return strings.Join(lines, "\n")
}

// blankLines leaves at most one blank line between two others.
func blankLines(s string) string {
	for strings.Contains(s, "\n\n\n") {
		s = strings.ReplaceAll(s, "\n\n\n", "\n\n")
	}
	return s
}

package recording

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"rota/agents"
	"rota/agents/transcript"
	"rota/turns"
)

// Stream reads what a program prints.
type Stream interface {
	Line(line []byte) error
	End(exit transcript.Exit) (agents.Result, error)
	Finished() bool
}

// Fuzz feeds any output to the reader of a program's stream: it never panics, it
// calls nothing a success without the program's own success event, an outcome is one
// that the role may say, and a failure has a known class and a readable text. The
// recordings of the program are where it begins.
func Fuzz(f *testing.F, testdata, program string, task agents.Task, read func(agents.Task, agents.Reporter) Stream) {
	files, err := filepath.Glob(filepath.Join(testdata, program, "*", "stdout*"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no recordings: %v", err)
	}
	for _, name := range files {
		if text, err := os.ReadFile(name); err == nil && len(text) < 64<<10 {
			f.Add(string(text), 0)
		}
	}
	f.Add("", 1)
	f.Add("{}\n[]\nnull\n\"x\"\n{\"type\":7}", 0)
	task.WantVerdict, task.Outcomes = true, turns.Outcomes(task.Role)
	f.Fuzz(func(t *testing.T, output string, code int) {
		s := read(task, &Heard{})
		for _, line := range Lines(output) {
			if err := s.Line(line); err != nil {
				failure(t, err)
				return
			}
		}
		result, err := s.End(transcript.Exit{Code: code})
		if err != nil {
			failure(t, err)
			return
		}
		if !s.Finished() || code != 0 {
			t.Fatalf("a success with exit status %d, finished: %v", code, s.Finished())
		}
		if result.Outcome != "" {
			if _, err := turns.ParseOutcome(task.Role, string(result.Outcome)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func failure(t *testing.T, err error) {
	t.Helper()
	if f := turns.FailureOf(err); !f.Class.Valid() || !utf8.ValidString(f.Message) || strings.TrimSpace(f.Error()) == "" {
		t.Fatalf("class %q, message %q", f.Class, f.Message)
	}
}

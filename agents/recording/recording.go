// Package recording serves tests: it reads what real programs printed in known
// situations (agents/testdata) and hears what a reader reports.
package recording

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"rota/agents/transcript"
	"rota/turns"
)

// Situation is one recorded run: what the program printed and how it ended.
type Situation struct {
	Name  string
	Lines [][]byte
	Exit  transcript.Exit
}

// Load returns all recorded situations of a program. root is the path of
// agents/testdata.
func Load(t *testing.T, root, program string) []Situation {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(root, program, "*", "stdout.jsonl"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recordings of %s under %s: %v", program, root, err)
	}
	var all []Situation
	for _, file := range dirs {
		all = append(all, load(t, filepath.Dir(file)))
	}
	return all
}

func load(t *testing.T, dir string) Situation {
	t.Helper()
	s := Situation{Name: filepath.Base(dir)}
	out, err := os.ReadFile(filepath.Join(dir, "stdout.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	s.Lines = Lines(string(out))
	if stderr, err := os.ReadFile(filepath.Join(dir, "stderr.txt")); err == nil {
		s.Exit.Stderr = string(stderr)
	}
	exit, err := os.ReadFile(filepath.Join(dir, "exit.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(exit)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case key == "exit_code" && value != "none":
			if s.Exit.Code, err = strconv.Atoi(value); err != nil {
				t.Fatalf("%s: exit_code=%s", dir, value)
			}
		case key == "signal" && value != "none":
			s.Exit.Signal = value
		case key == "hard_timeout_kill_s":
			s.Exit.Stopped = turns.ClassStalled // our clock ended it
		}
	}
	return s
}

// Lines splits output into lines without their ends.
func Lines(s string) [][]byte {
	var lines [][]byte
	scan := bufio.NewScanner(strings.NewReader(s))
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		lines = append(lines, bytes.Clone(scan.Bytes()))
	}
	return lines
}

// Heard is a Reporter that keeps what it hears.
type Heard struct {
	Accepts  int
	Sessions []string
	Level    turns.Progress
	Words    []string
	Items    []turns.Item
	Err      error // what Accepted and Item answer
}

// Accepted counts.
func (h *Heard) Accepted() error { h.Accepts++; return h.Err }

// Session keeps the id.
func (h *Heard) Session(id string) { h.Sessions = append(h.Sessions, id) }

// Progress keeps the level and the words.
func (h *Heard) Progress(level turns.Progress, text string) {
	h.Level = level
	if text != "" {
		h.Words = append(h.Words, text)
	}
}

// Item keeps the item.
func (h *Heard) Item(item turns.Item) error {
	h.Items = append(h.Items, item)
	return h.Err
}

// Open returns the ids of items that were opened and not closed.
func (h *Heard) Open() []string {
	last := map[string]turns.ItemState{}
	for _, i := range h.Items {
		last[i.ID] = i.State
	}
	var open []string
	for id, state := range last {
		if state == turns.ItemOpen {
			open = append(open, id)
		}
	}
	return open
}

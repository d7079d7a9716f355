package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"rota/commands"
	"rota/turns"
)

// tty reports whether a stream is a terminal, and its width.
func tty(w any) (width int, ok bool) {
	if s, ok := w.(*screen); ok {
		w = s.Writer
	}
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 40 {
		width = 80
	}
	return width, true
}

// table prints rows in columns. The last column is cut where the terminal ends;
// what goes into a pipe is never cut.
type table struct {
	width  int // 0: no bound
	colour bool
	rows   [][]string
}

func (m *Main) table(heads ...string) *table {
	width, terminal := tty(m.out)
	return &table{width: width, colour: terminal && os.Getenv("NO_COLOR") == "", rows: [][]string{heads}}
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) print(w io.Writer) {
	widths := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	last := len(widths) - 1
	for n, row := range t.rows {
		var b strings.Builder
		used := 0
		for i, cell := range row {
			if i == last {
				if t.width > 0 {
					cell = shorten(cell, max(10, t.width-used))
				}
				b.WriteString(t.paint(n, cell))
				break
			}
			pad := widths[i] - utf8.RuneCountInString(cell) + 2
			b.WriteString(t.paint(n, cell) + strings.Repeat(" ", pad))
			used += widths[i] + 2
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

var colours = map[string]string{
	"running": "32", "starting": "32", "in_review": "32", "in_arbitration": "32", "completed": "34", "queued": "33",
	"failed": "31", "lost": "31", "needs_human": "35", "cancelled": "90", "disabled": "31", "cooling": "33", "usable": "32",
	"problem": "31", "warning": "33", "ok": "32",
}

func (t *table) paint(row int, cell string) string {
	switch code := colours[cell]; {
	case !t.colour:
		return cell
	case row == 0:
		return "\x1b[1m" + cell + "\x1b[0m"
	case code != "":
		return "\x1b[" + code + "m" + cell + "\x1b[0m"
	}
	return cell
}

// shorten cuts a text to a number of characters, on one line.
func shorten(s string, most int) string {
	s = oneLine(s)
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}

// printJSON prints one value: indented, or as one line.
func (m *Main) printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if m.output == "json" {
		e.SetIndent("", "  ")
	}
	return e.Encode(v)
}

// printList prints a list as one JSON array, or one value a line.
func printList[T any](m *Main, w io.Writer, list []T) error {
	if m.output == "json" {
		return m.printJSON(w, list)
	}
	for _, v := range list {
		if err := m.printJSON(w, v); err != nil {
			return err
		}
	}
	return nil
}

// answer is what a command that changes something prints.
type answer struct {
	Schema  int    `json:"schema"`
	Thread  string `json:"thread"`
	Turn    string `json:"turn"`
	Attempt string `json:"attempt"`
	ID      string `json:"id,omitempty"` // of a command stored until its time
}

// done prints what a command came to: the sentence for people on stderr, the id
// that the next command takes on stdout.
func (m *Main) done(r commands.Result, id string) error {
	if m.output != "table" {
		m.say(r.Note)
		return m.printJSON(m.out, answer{commands.Schema, r.Thread, r.Turn, r.Attempt, r.Stored})
	}
	fmt.Fprintln(m.err, r.Text)
	m.say(r.Note)
	if id != "" {
		fmt.Fprintln(m.out, id)
	}
	return nil
}

func (m *Main) say(note string) {
	if note != "" {
		fmt.Fprintf(m.err, "note: %s\n", note)
	}
}

// age shows how long ago something was.
func age(s commands.Stamp) string {
	t := time.Time(s)
	if t.IsZero() {
		return "-"
	}
	return span(time.Since(t))
}

func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// local shows a time in the reader's zone.
func local(s commands.Stamp) string {
	t := time.Time(s)
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// failure says how something failed: its class, and the words unless they begin with it.
func failure(class turns.Class, words string) string {
	switch c := string(class); {
	case words == "":
		return c
	case c != "" && !strings.HasPrefix(words, c):
		return oneLine(c + ": " + words)
	}
	return oneLine(words)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// show prints once, or with --watch again whenever something moved, until it is
// interrupted; lines of JSON only when they are new.
func (m *Main) show(ctx context.Context, c *connection, print func(w io.Writer) error) error {
	if !m.watch {
		return print(m.out)
	}
	tail, err := c.store.Tail(ctx)
	if err != nil {
		return err
	}
	view, terminal := m.out.(*screen)
	before := ""
	for {
		var b strings.Builder
		if err := print(&b); err != nil {
			return err
		}
		if text := b.String(); text != before {
			news := text
			if m.output == "jsonl" {
				news = newLines(before, text)
			}
			if before = text; terminal {
				view.clear()
				news = text
			}
			if _, err := fmt.Fprint(m.out, news); err != nil {
				return err
			}
		}
		if _, err := tail.Next(ctx, 2*time.Second); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// newLines returns the lines of a text that were not in the one before.
func newLines(before, text string) string {
	known := map[string]bool{}
	for line := range strings.Lines(before) {
		known[line] = true
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !known[line] {
			b.WriteString(line)
		}
	}
	return b.String()
}

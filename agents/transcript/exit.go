// Package transcript holds what the readers of agent programs' output share:
// how a process ended, the items a run has opened so far, and the schema of a
// verdict. A reader is a pure thing: it is fed with lines and an end, and it
// reports and judges. It starts nothing and waits for nothing.
package transcript

import (
	"strings"

	"rota/turns"
)

// Exit is how a program ended.
type Exit struct {
	Code   int    // exit status; meaningless when Signal is set
	Signal string // name of the signal that ended it, empty for a plain exit
	Stderr string // the tail of its standard error

	// Stopped is set when we ended it ourselves: ClassStalled after silence,
	// ClassTimeout when it did not start. What it was busy with is then the reason.
	Stopped turns.Class
	// Kept is set when we ended it after its own success event, because it did
	// not go by itself. Its result stands.
	Kept bool
}

// MaxMessage bounds the text of a failure, in bytes.
const MaxMessage = 2048

// Clip returns the first line of a text that says something, trimmed and cut
// to n bytes at a rune's start.
func Clip(s string, n int) string {
	s = strings.TrimSpace(s)
	if i := strings.IndexByte(s, '\n'); i >= 0 {
		s = strings.TrimSpace(s[:i])
	}
	return Cut(s, n)
}

// Cut returns s cut to n bytes at a rune's start, with a mark when it was longer.
func Cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}

// LastLine returns the last line of a text that is not blank.
func LastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return Cut(strings.TrimSpace(lines[len(lines)-1]), MaxMessage)
}

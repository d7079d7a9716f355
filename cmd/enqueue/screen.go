package main

import (
	"io"
	"strings"
	"unicode"
)

// screen is standard output that a person looks at. What agents wrote must not
// clear it, move in it or rename its window: control characters and escape
// sequences are left out, but for line ends, tabs and colours. A pipe or a file
// gets every byte.
type screen struct {
	io.Writer
	state    byte   // of the sequence that is being read, see below
	sequence []byte // a sequence of colours so far
}

const (
	plain   = byte(iota)
	escape  // after ESC
	control // after ESC [
	word    // after ESC ] and the like: until BEL, ESC \ or the end of the line
	closing // after ESC in a word
	c1      // after 0xc2, which begins the control characters above ASCII
)

// Write writes what may be seen. It says that all was written.
func (s *screen) Write(p []byte) (int, error) {
	seen := make([]byte, 0, len(p))
	for _, b := range p {
		seen = s.take(seen, b)
	}
	_, err := s.Writer.Write(seen)
	return len(p), err
}

func (s *screen) take(seen []byte, b byte) []byte {
	switch s.state {
	case escape:
		s.state = plain
		switch b {
		case '[':
			s.state, s.sequence = control, append(s.sequence[:0], "\x1b["...)
		case ']', 'P', 'X', '^', '_':
			s.state = word
		}
		return seen
	case control:
		if s.sequence = append(s.sequence, b); b >= ' ' && b < '@' && len(s.sequence) < 32 {
			return seen
		}
		if s.state = plain; b == 'm' {
			return append(seen, s.sequence...)
		}
		return seen
	case word:
		switch b {
		case '\n':
			s.state = plain
			return append(seen, b)
		case '\a':
			s.state = plain
		case '\x1b':
			s.state = closing
		}
		return seen
	case closing:
		s.state = plain
		return seen
	case c1:
		if s.state = plain; b >= 0x80 && b < 0xa0 {
			return seen
		}
		return append(seen, 0xc2, b)
	}
	switch {
	case b == '\x1b':
		s.state = escape
	case b == 0xc2:
		s.state = c1
	case b == '\n' || b == '\t' || b >= ' ' && b != 0x7f:
		return append(seen, b)
	}
	return seen
}

// clear empties the screen, where there is one.
func (s *screen) clear() { _, _ = io.WriteString(s.Writer, "\x1b[H\x1b[2J") }

// oneLine shows a text on one line, without control characters.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

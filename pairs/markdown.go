package pairs

import "strings"

// line is a line of an answer that is not blank. An opaque one is code, a quote
// or a comment: it can be seen, but what it says is not said by the agent.
type line struct {
	text   string
	opaque bool
}

// visibleLines splits an answer in Markdown into its lines without the blank
// ones. In doubt a line is opaque: a verdict that is overlooked is asked for
// again, one that is made up moves the work.
func visibleLines(text string) []line {
	text = strings.TrimPrefix(text, "\ufeff")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n").Replace(text)
	var (
		lines   []line
		fence   string // of the open fenced block
		comment bool   // inside <!-- -->
		start   int    // first line of the paragraph
	)
	for raw := range strings.SplitSeq(text, "\n") {
		trimmed := strings.TrimSpace(raw)
		if trimmed == "" {
			if fence == "" && !comment {
				hideSpans(lines[start:])
				start = len(lines)
			}
			continue
		}
		l := line{text: raw, opaque: true}
		switch {
		case fence != "":
			if closes(trimmed, fence) {
				fence, start = "", len(lines)+1
			}
		case comment:
			comment = !strings.Contains(raw, "-->")
		case opens(raw) != "":
			fence = opens(raw)
			hideSpans(lines[start:])
		case strings.HasPrefix(trimmed, "<!--"):
			comment = !strings.Contains(raw, "-->")
		case indented(raw) || strings.HasPrefix(trimmed, ">"):
		default:
			l.opaque = false
		}
		lines = append(lines, l)
	}
	if fence == "" {
		hideSpans(lines[start:])
	}
	return lines
}

// opens returns the fence that a line opens, also behind list markers, or nothing.
func opens(raw string) string {
	s := strings.TrimSpace(raw)
	for {
		marker, rest, ok := strings.Cut(s, " ")
		if !ok || !listMarker(marker) {
			break
		}
		s = strings.TrimSpace(rest)
	}
	for _, c := range []string{"`", "~"} {
		n := len(s) - len(strings.TrimLeft(s, c))
		if n >= 3 && (c == "~" || !strings.Contains(s[n:], c)) {
			return s[:n]
		}
	}
	return ""
}

// closes reports whether a line is the end of a block that the fence opened.
func closes(trimmed, fence string) bool {
	return len(trimmed) >= len(fence) && strings.Trim(trimmed, fence[:1]) == ""
}

func listMarker(s string) bool {
	if s == "-" || s == "*" || s == "+" {
		return true
	}
	digits := strings.TrimRight(s, ".)")
	return len(digits) == len(s)-1 && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// indented reports whether a line stands as far in as indented code.
func indented(raw string) bool {
	width := 0
	for _, c := range raw {
		switch c {
		case ' ':
			width++
		case '\t':
			width += 4 - width%4
		default:
			return width >= 4
		}
	}
	return false
}

// hideSpans makes the lines of a paragraph opaque that lie inside a span of
// inline code which began on an earlier line.
func hideSpans(paragraph []line) {
	var runs []run
	for i, l := range paragraph {
		runs = append(runs, backticks(l.text, i)...)
	}
	for i := 0; i < len(runs); i++ {
		for j := i + 1; j < len(runs); j++ {
			if runs[j].length != runs[i].length {
				continue
			}
			for k := runs[i].line + 1; k <= runs[j].line; k++ {
				paragraph[k].opaque = true
			}
			i = j
			break
		}
	}
}

// run is a row of backticks in a line of a paragraph.
type run struct{ line, length int }

func backticks(s string, line int) []run {
	var runs []run
	for len(s) > 0 {
		i := strings.IndexByte(s, '`')
		if i < 0 {
			break
		}
		s = s[i:]
		n := len(s) - len(strings.TrimLeft(s, "`"))
		runs = append(runs, run{line, n})
		s = s[n:]
	}
	return runs
}

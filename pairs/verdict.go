package pairs

import (
	"strings"

	"rota/turns"
)

// verdictWord starts the line by which an agent gives its verdict in plain text.
const verdictWord = "VERDICT: "

// VerdictLine returns the strict line that gives an outcome.
func VerdictLine(o turns.Outcome) string { return verdictWord + string(o) }

// ParseVerdict returns the outcome that a final answer gives by its verdict
// line, for a program without structured output. The line reads exactly
//
//	VERDICT: approve
//
// apart from white space and ** around the whole of it. It must be the first or
// the last visible line of the text and the only line of its kind. Lines in
// fenced, indented or inline code, in HTML comments and in quotes are not
// verdict lines. A second one, even an equal one, a misspelt one and another
// role's word are errors; prose never counts.
//
// Every error is a *turns.Failure of class no_verdict whose message tells the
// agent what to write. Only the text of a run that succeeded may be given here.
func ParseVerdict(role turns.Role, text string) (turns.Outcome, error) {
	lines := visibleLines(text)
	at := -1
	for i, l := range lines {
		if l.opaque || !claimsVerdict(l.text) {
			continue
		}
		if at >= 0 {
			return "", noVerdict(role, "there is more than one verdict line")
		}
		at = i
	}
	switch {
	case at < 0:
		return "", noVerdict(role, "there is no verdict line")
	case at != 0 && at != len(lines)-1:
		return "", noVerdict(role, "the verdict line is neither the first nor the last line")
	}
	word, ok := strings.CutPrefix(unbold(lines[at].text), verdictWord)
	if !ok {
		return "", noVerdict(role, "the verdict line is misspelt")
	}
	o, err := turns.ParseOutcome(role, word)
	if err != nil {
		return "", noVerdict(role, err.Error())
	}
	return o, nil
}

func noVerdict(role turns.Role, what string) error {
	words := make([]string, 0, 5)
	for _, o := range turns.Outcomes(role) {
		words = append(words, string(o))
	}
	return turns.Fail(turns.ClassNoVerdict, "%s: end with one line %s… and one of %s",
		what, verdictWord, strings.Join(words, ", "))
}

// claimsVerdict reports whether a line means to be a verdict line, well spelt or
// not. It is wider than the strict form, so that a sloppy line beside a strict
// one is a contradiction and not overlooked.
func claimsVerdict(line string) bool {
	line = strings.ToLower(strings.TrimLeft(unbold(line), "*_ \t"))
	rest, ok := strings.CutPrefix(line, "verdict")
	return ok && strings.HasPrefix(strings.TrimLeft(rest, "*_ \t"), ":")
}

// unbold strips white space and one pair of ** around a whole line.
func unbold(line string) string {
	line = strings.TrimSpace(line)
	if len(line) > 4 && strings.HasPrefix(line, "**") && strings.HasSuffix(line, "**") {
		return strings.TrimSpace(line[2 : len(line)-2])
	}
	return line
}

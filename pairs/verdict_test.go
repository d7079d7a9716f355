package pairs

import (
	"errors"
	"strings"
	"testing"

	"rota/turns"
)

func TestParseVerdict(t *testing.T) {
	for _, tt := range []struct {
		name string
		role turns.Role
		text string
		want turns.Outcome // empty: no verdict
	}{
		{"last line", turns.Reviewer, "Looks good.\n\nVERDICT: approve", turns.Approve},
		{"first line", turns.Reviewer, "VERDICT: changes\n\nThe test is missing.", turns.Changes},
		{"only line", turns.Owner, "VERDICT: done", turns.Done},
		{"blank lines around", turns.Owner, "\n\n  VERDICT: step_done  \n\n\t\n", turns.StepDone},
		{"bold", turns.Arbiter, "Reasons.\n**VERDICT: proceed**", turns.Proceed},
		{"bold with white space", turns.Arbiter, "  ** VERDICT: reset ** ", turns.Reset},
		{"carriage returns", turns.Owner, "Report.\r\nVERDICT: blocked\r\n", turns.Blocked},
		{"byte order mark", turns.Owner, "\ufeffVERDICT: done\nReport.", turns.Done},
		{"after closed code", turns.Reviewer, "```go\nx := 1\n```\nVERDICT: approve", turns.Approve},
		{"mentioned in prose", turns.Reviewer, "I was asked for VERDICT: changes or another.\nVERDICT: approve", turns.Approve},
		{"example in code", turns.Reviewer, "The prompt says\n\n    VERDICT: changes\n\nbut no.\nVERDICT: approve", turns.Approve},
		{"example in a quote", turns.Reviewer, "> VERDICT: changes\n\nNot any more.\nVERDICT: approve", turns.Approve},
		{"example in inline code over lines", turns.Reviewer, "He wrote `x\nVERDICT: changes\ny`, but\nVERDICT: approve", turns.Approve},
		{"stray backtick before", turns.Reviewer, "A ` in the text.\n\nVERDICT: approve", turns.Approve},

		{"empty", turns.Owner, "", ""},
		{"prose", turns.Owner, "Done with part 1, tests failing", ""},
		{"prose that approves", turns.Reviewer, "I approve.", ""},
		{"prose after the word", turns.Owner, "VERDICT: done with part 1, tests failing", ""},
		{"in the middle", turns.Reviewer, "Hello.\nVERDICT: approve\nBye.", ""},
		{"two equal", turns.Reviewer, "VERDICT: approve\n\ntext\n\nVERDICT: approve", ""},
		{"two different", turns.Reviewer, "VERDICT: approve\nVERDICT: changes", ""},
		{"two words", turns.Reviewer, "VERDICT: approve changes", ""},
		{"another role's word", turns.Owner, "VERDICT: approve", ""},
		{"the arbiter's word", turns.Reviewer, "VERDICT: proceed", ""},
		{"no role", "", "VERDICT: done", ""},
		{"unknown word", turns.Reviewer, "VERDICT: lgtm", ""},
		{"word in capitals", turns.Reviewer, "VERDICT: APPROVE", ""},
		{"small letters", turns.Reviewer, "Verdict: approve", ""},
		{"small beside strict", turns.Reviewer, "Verdict: changes\n\nVERDICT: approve", ""},
		{"no white space", turns.Reviewer, "VERDICT:approve", ""},
		{"full stop", turns.Reviewer, "VERDICT: approve.", ""},
		{"half bold", turns.Reviewer, "**VERDICT:** approve", ""},
		{"half bold beside strict", turns.Reviewer, "**VERDICT:** changes\nVERDICT: approve", ""},
		{"fenced", turns.Reviewer, "```\nVERDICT: approve\n```", ""},
		{"fenced with tildes", turns.Reviewer, "~~~~\n~~~\nVERDICT: approve\n~~~~", ""},
		{"fence never closed", turns.Reviewer, "```text\nsome output\nVERDICT: approve", ""},
		{"shorter fence inside", turns.Reviewer, "````\n```\nVERDICT: approve", ""},
		{"fence in a list", turns.Reviewer, "1. - ```\n     VERDICT: approve", ""},
		{"indented code", turns.Reviewer, "text\n\n    VERDICT: approve", ""},
		{"indented by a tab", turns.Reviewer, "text\n\n\tVERDICT: approve", ""},
		{"indented by a tab after blanks", turns.Reviewer, "text\n\n  \tVERDICT: approve", ""},
		{"inline code", turns.Reviewer, "`VERDICT: approve`", ""},
		{"inline code over lines", turns.Reviewer, "He wrote `x\nVERDICT: approve`", ""},
		{"inline code opened above", turns.Reviewer, "`` x ` y\nVERDICT: approve\n`` and so on", ""},
		{"quoted", turns.Reviewer, "> VERDICT: approve", ""},
		{"list item", turns.Reviewer, "- VERDICT: approve", ""},
		{"comment", turns.Reviewer, "<!--\nVERDICT: approve", ""},
		{"followed by code", turns.Reviewer, "Text.\nVERDICT: approve\n```\nx\n```", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseVerdict(tt.role, tt.text)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Fatalf("%q, %v; want %q", got, err, tt.want)
			}
			if f, ok := errors.AsType[*turns.Failure](err); err != nil && (!ok || f.Class != turns.ClassNoVerdict) {
				t.Errorf("error %v is no failure of class no_verdict", err)
			}
		})
	}
}

func TestVerdictLineIsRead(t *testing.T) {
	for _, r := range turns.Roles {
		for _, o := range turns.Outcomes(r) {
			if got, err := ParseVerdict(r, "Report.\n"+VerdictLine(o)); got != o || err != nil {
				t.Errorf("%s: %q, %v", r, got, err)
			}
		}
	}
}

// FuzzParseVerdict: whatever the text, a verdict is one of the role's words, it
// stands in the text as the strict line says, a second line takes it back, and
// quoting the text takes it away.
func FuzzParseVerdict(f *testing.F) {
	for _, s := range []string{
		"VERDICT: approve", "x\n**VERDICT: changes**", "```\nVERDICT: approve\n```", "` \nVERDICT: done`", "> VERDICT: done",
		"- ```\n  VERDICT: approve\n  ```", "<!--\n-->\nVERDICT: proceed", "Verdict: done\n\xff", "\tVERDICT: reset",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range turns.Roles {
			o, err := ParseVerdict(r, text)
			if (err == nil) == (o == "") {
				t.Fatalf("%q with error %v", o, err)
			}
			if err != nil {
				continue
			}
			if _, err := turns.ParseOutcome(r, string(o)); err != nil || !strings.Contains(text, VerdictLine(o)) {
				t.Fatalf("%q of the %s is not in %q", o, r, text)
			}
			if again, err := ParseVerdict(r, VerdictLine(o)+"\n"+text); err == nil {
				t.Fatalf("two lines give %q", again)
			}
			if quoted, err := ParseVerdict(r, "> "+strings.NewReplacer("\r", "\n> ", "\n", "\n> ", "\u2028", "\n> ", "\u2029", "\n> ").Replace(text)); err == nil {
				t.Fatalf("a quote gives %q", quoted)
			}
		}
	})
}

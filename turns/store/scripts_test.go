package store

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// header is what a script says about itself.
type header struct {
	keys, args []string // as written: "3", "3.." or "3i-1"
	answers    []string // words in single quotes
}

var (
	headerLine = regexp.MustCompile(`^-- (KEYS|ARGV)\[([^\]]+)\] +(\S.*)$`)
	usedIndex  = regexp.MustCompile(`(KEYS|ARGV)\[([^\]]+)\]`)
	answerWord = regexp.MustCompile(`return \{'([a-z_]+)'`)
	quotedWord = regexp.MustCompile(`'([a-z_]+):?'`)
)

// parse splits a script into its header and the code, the included pieces with
// it, without comments.
func parse(t *testing.T, name string) (header, string) {
	t.Helper()
	raw, err := scriptFiles.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	if !strings.HasPrefix(lines[0], "-- "+name+": ") || !strings.HasSuffix(lines[0], ".") {
		t.Errorf("%s: the first line is %q, want its name and one sentence", name, lines[0])
	}
	var h header
	inAnswers := false
	for _, line := range lines[1:] {
		if !strings.HasPrefix(line, "-- ") || strings.HasPrefix(line, "-- @include") {
			break
		}
		if m := headerLine.FindStringSubmatch(line); m != nil && !inAnswers {
			if m[1] == "KEYS" {
				h.keys = append(h.keys, m[2])
			} else {
				h.args = append(h.args, m[2])
			}
			continue
		}
		if strings.HasPrefix(line, "-- Answers: ") {
			inAnswers = true
		}
		if !inAnswers {
			t.Errorf("%s: header line %q is neither a key, an argument nor the answers", name, line)
		}
		for _, m := range quotedWord.FindAllStringSubmatch(line, -1) {
			h.answers = append(h.answers, m[1])
		}
	}
	if !inAnswers {
		t.Errorf("%s: no answers in the header", name)
	}
	return h, regexp.MustCompile(`--[^\n]*`).ReplaceAllString(source(name), "")
}

func scriptNames(t *testing.T) []string {
	t.Helper()
	entries, err := scriptFiles.ReadDir("scripts")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".lua"); ok {
			names = append(names, name)
		}
	}
	if len(names) < 25 {
		t.Fatalf("only %d scripts", len(names))
	}
	return names
}

// Every header lists the keys and arguments that the script uses, in order and
// without a gap, and every word that it answers.
func TestScriptHeaders(t *testing.T) {
	for _, name := range scriptNames(t) {
		h, code := parse(t, name)
		for what, listed := range map[string][]string{"KEYS": h.keys, "ARGV": h.args} {
			for i, index := range listed {
				if name != "renew" && index != fmt.Sprint(i+1) && !strings.HasSuffix(index, "..") {
					t.Errorf("%s: %s[%s] stands at place %d of the header", name, what, index, i+1)
				}
			}
		}
		for _, m := range usedIndex.FindAllStringSubmatch(code, -1) {
			listed := h.keys
			if m[1] == "ARGV" {
				listed = h.args
			}
			index := strings.ReplaceAll(strings.ReplaceAll(m[2], " ", ""), "*", "")
			if index == "i" && name == "remove" {
				index = "5.."
			}
			if !slices.Contains(listed, index) {
				t.Errorf("%s: uses %s, which its header does not list", name, m[0])
			}
		}
		for _, m := range answerWord.FindAllStringSubmatch(code, -1) {
			if !slices.Contains(h.answers, m[1]) {
				t.Errorf("%s: answers %q, which its header does not list", name, m[1])
			}
		}
		for _, word := range h.answers {
			if !strings.Contains(code, "'"+word) {
				t.Errorf("%s: its header lists the answer %q, which it never gives", name, word)
			}
		}
	}
}

// Role and intent come in only with the record of a new turn.
func TestNoScriptWritesRoleOrIntent(t *testing.T) {
	write := regexp.MustCompile(`'H(SET|SETNX|MSET|INCRBY|DEL)'[^\n]*'(role|intent)'`)
	for _, name := range scriptNames(t) {
		_, code := parse(t, name)
		if m := write.FindString(code); m != "" {
			t.Errorf("%s: %s", name, m)
		}
		if strings.Contains(code, "v.turn_record") && !slices.Contains([]string{"open", "settle", "compensate", "end", "cancel", "lose_last"}, name) {
			t.Errorf("%s: may write the record of a turn", name)
		}
	}
}

// What is not on every Redis and on miniredis, or makes a script differ between
// two runs, stays out.
func TestScriptsKeepToPlainLua(t *testing.T) {
	banned := regexp.MustCompile(`cmsgpack|\bstruct\.|\bbit\.|math\.random|\bos\.|'(KEYS|SCAN|HSCAN|SORT|RANDOMKEY|SRANDMEMBER|SPOP|EVAL|PUBLISH|FLUSHALL|FLUSHDB|SELECT)'|HGETDEL|HEXPIRE`)
	for _, name := range scriptNames(t) {
		_, code := parse(t, name)
		if m := banned.FindString(code); m != "" {
			t.Errorf("%s uses %s", name, m)
		}
		if size := len(source(name)); size > 20_000 {
			t.Errorf("%s has %d bytes", name, size)
		}
	}
}

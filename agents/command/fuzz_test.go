package command

import (
	"strings"
	"testing"
	"unicode/utf8"

	"rota/agents"
	"rota/agents/process"
	"rota/agents/recording"
	"rota/turns"
)

// FuzzLines feeds any output to the reader as if the agent had printed it and ended
// with a status: it never panics, a result's outcome is one that the role may say,
// what it reports has known kinds and states, and a failure has a known class.
func FuzzLines(f *testing.F) {
	for _, s := range []string{
		"", "done\nVERDICT: done\n", "{\"type\":\"accepted\"}\n{\"type\":\"result\",\"text\":\"fine\",\"outcome\":\"done\",\"session\":\"s\"}\n",
		"{\"type\":\"progress\",\"progress\":\"tools\",\"text\":\"x\"}\n{\"type\":\"item\",\"id\":\"i\",\"kind\":\"tool\",\"state\":\"open\",\"child\":\"t~2\"}\n",
		"{\"type\":\"error\",\"class\":\"quota\",\"retry_after\":\"30s\",\"resets_at\":\"2030-01-01T00:00:00Z\"}\n",
		"{\"type\":\"result\",\"outcome\":\"approve\"}\n", "{\"type\":\"result\",\"usage\":{\"input_tokens\":-1}}\n", "\xff\xfe\n{\"type\":\n",
	} {
		f.Add(s, 0)
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, output string, code int) {
		var heard recording.Heard
		r := &run{agent: New("agent"), report: &heard, p: &process.Process{}, accepted: true,
			task: agents.Task{Thread: "t", Turn: "t/1", Attempt: "t/1.1", Role: turns.Owner, WantVerdict: true, Outcomes: turns.Outcomes(turns.Owner)}}
		var err error
		for _, line := range recording.Lines(output) {
			if err = r.line(line); err != nil {
				break
			}
		}
		var result agents.Result
		if err == nil {
			result, err = r.judge(process.Exit{Code: code})
		}
		for _, i := range heard.Items {
			if _, known := turns.ItemClosed[i.Kind]; !known || i.State == "" || i.ID == "" {
				t.Fatalf("item %+v", i)
			}
		}
		if err != nil {
			if fail := turns.FailureOf(err); !fail.Class.Valid() || !utf8.ValidString(fail.Message) || strings.TrimSpace(fail.Error()) == "" {
				t.Fatalf("class %q, message %q", fail.Class, fail.Message)
			}
			return
		}
		if code != 0 {
			t.Fatalf("a success with exit status %d", code)
		}
		if result.Outcome != "" {
			if _, err := turns.ParseOutcome(turns.Owner, string(result.Outcome)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

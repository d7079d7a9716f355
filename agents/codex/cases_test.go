package codex

import (
	"errors"
	"testing"
	"time"

	"rota/agents"
	"rota/agents/recording"
	"rota/agents/transcript"
	"rota/turns"
)

const (
	start = `{"type":"thread.started","thread_id":"s-1"}` + "\n" + `{"type":"turn.started"}` + "\n"
	end   = `{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":2}}` + "\n"
)

func says(text string) string {
	return `{"type":"item.completed","item":{"id":"item_9","type":"agent_message","text":"` + text + `"}}` + "\n"
}

func fails(message string) string {
	return `{"type":"error","message":"` + message + `"}` + "\n" + `{"type":"turn.failed","error":{"message":"` + message + `"}}` + "\n"
}

// TestCases holds situations that no recording has.
func TestCases(t *testing.T) {
	failed := transcript.Exit{Code: 1}
	tests := []struct {
		name string
		out  string
		exit transcript.Exit
		want turns.Class
		text string
	}{
		{"answer about line 429", start + says("last status: 429 in line 429") + end, transcript.Exit{}, "", "last status: 429 in line 429"},
		{"answer about 401 Unauthorized", start + says("unexpected status 401 Unauthorized") + end, transcript.Exit{}, "", "unexpected status 401 Unauthorized"},
		{"unknown events", `{"type":"novelty","item":[1]}` + "\n" + start + `{"type":"item.completed","item":{"id":"x","type":"novelty"}}` + "\n" + says("fine") + end, transcript.Exit{}, "", "fine"},
		{"errors on the way", start + `{"type":"error","message":"Reconnecting... 1/5 (unexpected status 401 Unauthorized)"}` + "\n" + says("fine") + end, transcript.Exit{}, "", "fine"},
		{"events after the end", start + says("fine") + end + `{"type":"novelty"}`, transcript.Exit{}, "", "fine"},
		{"garbage between the lines", "warning\n" + start + "\x00\xff\n{\"type\":\n" + says("fine") + end, transcript.Exit{}, "", "fine"},
		{"the last message counts", start + says("first") + says("last") + end, transcript.Exit{}, "", "last"},
		{"we ended it after its end", start + says("fine") + end, transcript.Exit{Signal: "SIGKILL", Kept: true}, "", "fine"},

		{"text then 500", start + says("APPROVE") + fails("We’re currently experiencing high demand, which may cause temporary errors."), failed, turns.ClassServer, ""},
		{"failed after completed", start + says("APPROVE") + end + fails("unexpected status 403 Forbidden: x"), transcript.Exit{}, turns.ClassAuth, ""},
		{"completed, exit 1", start + says("fine") + end, failed, turns.ClassCrash, ""},
		{"server text that names another status", start + fails("unexpected status 500 Internal Server Error: unexpected status 401 upstream, url: x"), failed, turns.ClassServer, ""},
		{"rate limit in mid-stream", start + fails("rate limit exceeded: Please try again in 1.5s."), failed, turns.ClassRateLimited, ""},
		{"overloaded retries", start + fails("exceeded retry limit, last status: 503 Service Unavailable"), failed, turns.ClassServer, ""},
		{"new sentence", start + fails("something new"), failed, turns.ClassUnknown, ""},
		{"no reason", start + `{"type":"turn.failed"}`, failed, turns.ClassUnknown, ""},
		{"body of a server", start + fails(`{\"error\":{\"message\":\"too long\",\"code\":\"context_length_exceeded\"}}`), failed, turns.ClassContextOverflow, ""},
		{"only blanks", start + says(" ") + end, transcript.Exit{}, turns.ClassEmpty, ""},
		{"no output at all", "", transcript.Exit{}, turns.ClassCrash, ""},
		{"only garbage", "hello\n{\"type\":\"turn", transcript.Exit{}, turns.ClassBadOutput, ""},
		{"cut end", start + says("fine") + `{"type":"turn.comple`, transcript.Exit{}, turns.ClassBadOutput, ""},
		{"panic of the program", start, transcript.Exit{Code: 101, Stderr: "thread 'main' panicked: failed printing to stdout"}, turns.ClassCrash, ""},
		{"not installed, by a shell", "", transcript.Exit{Code: 127, Stderr: "sh: codex: not found"}, turns.ClassConfig, ""},
		{"words of a tool on standard error", start, transcript.Exit{Code: 1, Stderr: "unexpected status 401 in my tool"}, turns.ClassCrash, ""},
		{"prompt too long", `{"type":"thread.started","thread_id":"s-1"}`, transcript.Exit{Code: 1, Stderr: "Error: Input exceeds the maximum length of 1048576 characters"}, turns.ClassConfig, ""},
		{"stopped though it had begun to speak", start + says("APPROVE"), transcript.Exit{Signal: "SIGKILL", Stopped: turns.ClassStalled}, turns.ClassStalled, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res, err := replay(task, &recording.Heard{}, recording.Lines(tt.out), tt.exit)
			if tt.want == "" {
				if err != nil || res.Text != tt.text {
					t.Fatalf("got %+v, %v", res, err)
				}
				return
			}
			recording.Check(t, res, err, tt.want)
		})
	}
}

func TestStructuredVerdict(t *testing.T) {
	reviewer := agents.Task{Role: turns.Reviewer, WantVerdict: true, Outcomes: turns.Outcomes(turns.Reviewer)}
	tests := []struct {
		answer  string
		outcome turns.Outcome
		text    string
	}{
		{`{\"outcome\":\"changes\",\"text\":\"line 3\"}`, turns.Changes, "line 3"},
		{`{\"outcome\":\"done\",\"text\":\"x\"}`, "", `{"outcome":"done","text":"x"}`},
		{`VERDICT: approve`, "", "VERDICT: approve"},
	}
	for _, tt := range tests {
		res, err := replay(reviewer, &recording.Heard{}, recording.Lines(start+says(tt.answer)+end), transcript.Exit{})
		if err != nil || res.Outcome != tt.outcome || res.Text != tt.text {
			t.Errorf("%s: %+v, %v", tt.answer, res, err)
		}
	}
}

func TestResetTimes(t *testing.T) {
	at := func(month time.Month, day, hour, minute int) time.Time {
		return time.Date(2026, month, day, hour, minute, 0, 0, time.UTC)
	}
	tests := map[string]time.Time{
		"try again at 2:11 PM.":                 at(11, 30, 14, 11),
		"try again at 12:00 PM.":                at(11, 30, 12, 0),
		"try again at 9:05 AM.":                 at(12, 1, 9, 5),
		"try again at Dec 3rd, 2026 12:30 AM.":  at(12, 3, 0, 30),
		"try again at Nov 21st, 2026 11:59 PM.": at(11, 21, 23, 59),
		"try again later.":                      {},
		"try again at 25:00 PM.":                {},
	}
	for text, want := range tests {
		if got := resets(text, noon); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	if got := retryAfter("Please try again in 1.5s."); got != 1500*time.Millisecond {
		t.Errorf("retry after %v", got)
	}
}

func TestItems(t *testing.T) {
	lines := start +
		`{"type":"item.started","item":{"id":"item_0","type":"command_execution","command":"make","status":"in_progress","exit_code":null}}` + "\n" +
		`{"type":"item.completed","item":{"id":"item_0","type":"command_execution","command":"make","status":"completed","exit_code":2}}` + "\n" +
		`{"type":"item.completed","item":{"id":"item_1","type":"file_change","changes":[{"path":"a.go","kind":"add"}],"status":"completed"}}` + "\n" +
		`{"type":"item.completed","item":{"id":"item_2","type":"error","message":"a warning"}}` + "\n" + says("fine") + end
	var heard recording.Heard
	if _, err := replay(task, &heard, recording.Lines(lines), transcript.Exit{}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, i := range heard.Items {
		got = append(got, i.ID+" "+string(i.Kind)+" "+string(i.State)+" "+i.Title)
	}
	want := []string{
		"z-item_0 tool open make", "z-item_0 tool failed make",
		"z-item_1 tool open file_change: a.go", "z-item_1 tool completed file_change: a.go",
	}
	if len(got) != len(want) {
		t.Fatalf("items %q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("item %d: %s, want %s", i, got[i], want[i])
		}
	}
}

func TestReportersErrorEndsTheRun(t *testing.T) {
	lost := errors.New("fence lost")
	_, err := replay(task, &recording.Heard{Err: lost}, recording.Lines(start+says("fine")+end), transcript.Exit{})
	if !errors.Is(err, lost) {
		t.Errorf("got %v", err)
	}
}

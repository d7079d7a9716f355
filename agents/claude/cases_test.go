package claude

import (
	"errors"
	"testing"

	"rota/agents"
	"rota/agents/recording"
	"rota/agents/transcript"
	"rota/turns"
)

const (
	start = `{"type":"system","subtype":"init","session_id":"s-1","model":"m-1"}` + "\n"
	says  = `{"type":"assistant","message":{"id":"msg_1","model":"m-1","content":[{"type":"text","text":"APPROVE all good"}]},"session_id":"s-1"}` + "\n"
	good  = `{"type":"result","subtype":"success","is_error":false,"result":"fine","session_id":"s-1","usage":{"input_tokens":1,"output_tokens":2}}` + "\n"
)

func errored(fields string) string {
	return `{"type":"result","subtype":"success","is_error":true,` + fields + `,"session_id":"s-1"}` + "\n"
}

func fault(kind string) string {
	return `{"type":"assistant","error":"` + kind + `","message":{"model":"<synthetic>","content":[{"type":"text","text":"x"}]}}` + "\n"
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
		{"answer about line 429", start + `{"type":"result","subtype":"success","is_error":false,"result":"API Error: 429 is handled in line 429"}`, transcript.Exit{}, "", "API Error: 429 is handled in line 429"},
		{"answer about 401 Unauthorized", start + `{"type":"result","subtype":"success","is_error":false,"result":"401 Unauthorized: Not logged in"}`, transcript.Exit{}, "", "401 Unauthorized: Not logged in"},
		{"unknown events", `{"type":"novelty","message":7}` + "\n" + start + `{"type":"system","subtype":"novelty"}` + "\n" + good, transcript.Exit{}, "", "fine"},
		{"events after the result", start + good + `{"type":"system","subtype":"task_notification","status":"stopped"}` + "\n" + says, transcript.Exit{}, "", "fine"},
		{"garbage between the lines", "warning: x\n" + start + "\x00\xff\n{\"type\":\n" + good, transcript.Exit{}, "", "fine"},
		{"we ended it after its result", start + good, transcript.Exit{Signal: "SIGKILL", Kept: true}, "", "fine"},

		{"text then 500", start + says + fault("server_error") + errored(`"api_error_status":500,"result":"API Error: 500 x"`), failed, turns.ClassServer, ""},
		{"success result, exit 1", start + good, failed, turns.ClassCrash, ""},
		{"success subtype, is_error, nothing else known", start + errored(`"result":"something new"`), failed, turns.ClassUnknown, ""},
		{"error exit 0", start + errored(`"api_error_status":401,"result":"x"`), transcript.Exit{}, turns.ClassAuth, ""},
		{"kind without status", start + fault("billing_error") + errored(`"result":"x"`), failed, turns.ClassQuota, ""},
		{"server error, 529 retried", start + `{"type":"system","subtype":"api_retry","error":"overloaded","error_status":529,"attempt":1}` + "\n" + fault("server_error") + errored(`"api_error_status":null,"result":"Repeated"`), failed, turns.ClassOverloaded, ""},
		{"server error, 502 retried", start + `{"type":"system","subtype":"api_retry","error":"server_error","error_status":502,"attempt":1}` + "\n" + fault("server_error") + errored(`"api_error_status":null,"result":"gave up"`), failed, turns.ClassServer, ""},
		{"an old retry is forgotten", start + `{"type":"system","subtype":"api_retry","error":"overloaded","error_status":529}` + "\n" + says + fault("server_error") + errored(`"result":"lost"`), failed, turns.ClassNetwork, ""},
		{"rate limit without a reset", start + `{"type":"rate_limit_event","rate_limit_info":{"status":"rejected"}}` + "\n" + fault("rate_limit") + errored(`"api_error_status":429,"result":"x"`), failed, turns.ClassRateLimited, ""},
		{"warning of a limit, then 500", start + `{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1796047072}}` + "\n" + fault("server_error") + errored(`"api_error_status":500,"result":"x"`), failed, turns.ClassServer, ""},
		{"budget", start + `{"type":"result","subtype":"error_max_budget_usd","is_error":true,"errors":["Reached maximum budget"]}`, failed, turns.ClassOutputLimit, ""},
		{"stream that ended early", start + says + `{"type":"result","subtype":"success","is_error":false,"result":"APPROVE all g","stop_reason":null}`, transcript.Exit{}, turns.ClassBadOutput, ""},
		{"only blanks", start + `{"type":"result","subtype":"success","is_error":false,"result":" \n"}`, transcript.Exit{}, turns.ClassEmpty, ""},
		{"no output at all", "", transcript.Exit{}, turns.ClassCrash, ""},
		{"only garbage", "hello\n{\"type\":\"resu", transcript.Exit{}, turns.ClassBadOutput, ""},
		{"cut result", start + says + `{"type":"result","subtype":"success","is_error":fal`, transcript.Exit{}, turns.ClassBadOutput, ""},
		{"no result after words", start + says, transcript.Exit{}, turns.ClassCrash, ""},
		{"not installed, by a shell", "", transcript.Exit{Code: 127, Stderr: "env: claude: No such file or directory"}, turns.ClassConfig, ""},
		{"stack trace", "", transcript.Exit{Code: 1, Stderr: "TypeError: x\n at y\nBun v1.4.0 (Linux x64 baseline)"}, turns.ClassCrash, ""},
		{"stopped though it had begun to speak", start + says, transcript.Exit{Signal: "SIGKILL", Stopped: turns.ClassStalled}, turns.ClassStalled, ""},
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
	result := func(structured string) [][]byte {
		return recording.Lines(start + `{"type":"result","subtype":"success","is_error":false,"result":"plain","structured_output":` + structured + `}`)
	}
	tests := []struct {
		structured string
		outcome    turns.Outcome
		text       string
	}{
		{`{"outcome":"approve","text":"well done"}`, turns.Approve, "well done"},
		{`{"outcome":"done","text":"an owner's word"}`, "", "plain"},
		{`{"outcome":"approve"}`, "", "plain"},
		{`"approve"`, "", "plain"},
		{`null`, "", "plain"},
	}
	for _, tt := range tests {
		res, err := replay(reviewer, &recording.Heard{}, result(tt.structured), transcript.Exit{})
		if err != nil || res.Outcome != tt.outcome || res.Text != tt.text {
			t.Errorf("%s: %+v, %v", tt.structured, res, err)
		}
	}
}

func TestResumedSessionMustBeTheOneAskedFor(t *testing.T) {
	resume := task
	resume.Session = "s-2"
	var heard recording.Heard
	_, err := replay(resume, &heard, recording.Lines(start+good), transcript.Exit{})
	if f := turns.FailureOf(err); f.Class != turns.ClassSessionLost {
		t.Errorf("got %v", err)
	}
	if heard.Accepts != 0 || len(heard.Sessions) != 0 {
		t.Error("the wrong session was reported")
	}
	resume.Session = "s-1"
	if res, err := replay(resume, &heard, recording.Lines(start+good), transcript.Exit{}); err != nil || res.Session != "s-1" {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestItemsOfASubAgentHangBelowIt(t *testing.T) {
	lines := start +
		`{"type":"assistant","message":{"id":"a","model":"m","content":[{"type":"tool_use","id":"t1","name":"Task","input":{"description":"look around"}}]}}` + "\n" +
		`{"type":"assistant","parent_tool_use_id":"t1","message":{"id":"b","model":"small","content":[{"type":"tool_use","id":"t2","name":"Bash","input":{"command":"ls"}}]}}` + "\n" +
		`{"type":"user","parent_tool_use_id":"t1","message":{"content":[{"type":"tool_result","tool_use_id":"t2","is_error":true}]}}` + "\n" +
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}}` + "\n" + good
	var heard recording.Heard
	res, err := replay(task, &heard, recording.Lines(lines), transcript.Exit{})
	if err != nil || res.Model != "m" {
		t.Fatalf("got %+v, %v", res, err)
	}
	item := func(id string, kind turns.ItemKind, state turns.ItemState, title, parent string) turns.Item {
		return turns.Item{ID: id, Kind: kind, State: state, Title: title, Parent: parent, Thread: "t", Turn: "t/1", Attempt: "t/1.1"}
	}
	want := []turns.Item{
		item("z-t1", turns.ItemSubAgent, turns.ItemOpen, "Task: look around", ""),
		item("z-t2", turns.ItemTool, turns.ItemOpen, "Bash: ls", "z-t1"),
		item("z-t2", turns.ItemTool, turns.ItemFailed, "Bash: ls", "z-t1"),
		item("z-t1", turns.ItemSubAgent, turns.ItemCompleted, "Task: look around", ""),
	}
	if len(heard.Items) != len(want) {
		t.Fatalf("items %+v", heard.Items)
	}
	for i := range want {
		if heard.Items[i] != want[i] {
			t.Errorf("item %d: %+v, want %+v", i, heard.Items[i], want[i])
		}
	}
	if heard.Level != turns.ProgressTools {
		t.Errorf("progress %s", heard.Level)
	}
}

func TestReportersErrorEndsTheRun(t *testing.T) {
	lost := errors.New("fence lost")
	_, err := replay(task, &recording.Heard{Err: lost}, recording.Lines(start+good), transcript.Exit{})
	if !errors.Is(err, lost) {
		t.Errorf("got %v", err)
	}
}

package acp

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"rota/agents"
	"rota/agents/recording"
	"rota/turns"
)

// situations says what each recorded conversation means. A new recording is a
// folder in agents/testdata/acp and a row here.
var situations = map[string]turns.Class{
	"ok":                   "",
	"permission_allow":     "",
	"401_invalid":          turns.ClassAuth,
	"auth_required_at_new": turns.ClassAuth,
	"no_credentials":       turns.ClassAuth,
	"cancel_stall":         turns.ClassStalled,
	"protocol_errors":      turns.ClassConfig,
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func taskOf(t *testing.T, role turns.Role) agents.Task {
	return agents.Task{
		Thread: "t", Turn: "t/1", Attempt: "t/1.1", Role: role, Fence: 35, Prompt: "say hello",
		Workspace: t.TempDir(), ReadOnly: role != turns.Owner, Start: 20 * time.Second, Silence: 20 * time.Second,
	}
}

// recorded returns an agent that plays a recording.
func recorded(t *testing.T, name string) *Agent {
	t.Helper()
	file, err := filepath.Abs(filepath.Join("../testdata/acp", name, "wire.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return quick(Options{Command: []string{self(t)}, Env: map[string]string{replayVar: file}})
}

func TestRecordings(t *testing.T) {
	dirs, err := os.ReadDir("../testdata/acp")
	if err != nil || len(dirs) != len(situations) {
		t.Fatalf("%d recordings for %d rows, %v", len(dirs), len(situations), err)
	}
	for _, d := range dirs {
		t.Run(d.Name(), func(t *testing.T) {
			want, known := situations[d.Name()]
			if !known {
				t.Fatal("no row for this recording")
			}
			task := taskOf(t, turns.Owner)
			if want == turns.ClassStalled {
				task.Silence = 500 * time.Millisecond
			}
			var heard recording.Heard
			res, err := recorded(t, d.Name()).Run(t.Context(), task, &heard)
			if want == "" {
				if err != nil || res.Text != "DONE\nhello" || heard.Accepts != 1 || len(heard.Sessions) != 1 || heard.Sessions[0] != res.Session {
					t.Errorf("got %+v, %v, heard %+v", res, err, heard)
				}
				return
			}
			var f *turns.Failure
			if !errors.As(err, &f) || f.Class != want || f.Message == "" {
				t.Errorf("want %s, got %+v, %v", want, res, err)
			}
		})
	}
}

// script is an agent that says what is written here. The lines start with > for
// what the client must have said and < for what the agent says.
func script(t *testing.T, lines ...string) *Agent {
	t.Helper()
	var wire []string
	for _, l := range lines {
		switch kind, msg := l[:1], strings.TrimSpace(l[1:]); kind {
		case ">":
			wire = append(wire, `{"dir":"client>agent","msg":`+msg+`}`)
		case "<":
			wire = append(wire, `{"dir":"agent>client","msg":`+msg+`}`)
		case "x":
			wire = append(wire, `{"exit":`+msg+`}`)
		}
	}
	return quick(Options{Command: []string{self(t)}, Env: map[string]string{scriptVar: "[" + strings.Join(wire, ",") + "]"}})
}

const (
	hello     = `> {"id":1,"method":"initialize"}`
	helloBack = `< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}`
	open      = `> {"id":2,"method":"session/new"}`
	opened    = `< {"jsonrpc":"2.0","id":2,"result":{"sessionId":"s-1"}}`
	prompt    = `> {"id":3,"method":"session/prompt"}`
	endTurn   = `< {"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}`
	toolEdit  = `< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"tool_call","toolCallId":"c1","kind":"edit","title":"Write x","status":"pending"}}}`
	askEdit   = `< {"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s-1","options":[{"kind":"allow_always","name":"Always","optionId":"aa"},{"kind":"allow_once","name":"Allow","optionId":"a"},{"kind":"reject_once","name":"Reject","optionId":"r"}],"toolCall":{"toolCallId":"c1","title":"Write x"}}}`
	answered  = `> {"id":0,"method":""}`
)

func says(text string) string {
	return `< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}}}`
}

func TestCases(t *testing.T) {
	stop := func(reason string) string {
		return `< {"jsonrpc":"2.0","id":3,"result":{"stopReason":"` + reason + `"}}`
	}
	fails := func(message string) string {
		return `< {"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"Internal error: ` + message + `"}}`
	}
	begin := []string{hello, helloBack, open, opened, prompt}
	tests := []struct {
		name  string
		lines []string
		want  turns.Class
		text  string
	}{
		{"answer about 401", []string{says("API Error: 401 in line 429"), endTurn}, "", "API Error: 401 in line 429"},
		{"unknown update and a line that is none", []string{`< {"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-1","update":{"sessionUpdate":"novelty"}}}`, says("fine"), endTurn}, "", "fine"},
		{"what was said before a tool is commentary", []string{says("I write."), toolEdit, says("fine"), endTurn}, "", "fine"},
		{"nothing said", []string{endTurn}, turns.ClassEmpty, ""},
		{"text then an error", []string{says("APPROVE"), fails("API Error: 500 {}")}, turns.ClassServer, ""},
		{"usage limit", []string{fails("You've hit your limit · resets 2:33pm (UTC)")}, turns.ClassQuota, ""},
		{"expired token", []string{fails(`Failed to authenticate. API Error: 401 {}`)}, turns.ClassAuth, ""},
		{"overloaded", []string{fails("API Error: 529 Overloaded")}, turns.ClassOverloaded, ""},
		{"connection", []string{fails("API Error: Unable to connect to API (ECONNREFUSED)")}, turns.ClassNetwork, ""},
		{"output limit as an error", []string{fails("API Error: Claude's response exceeded the 32000 output token maximum.")}, turns.ClassOutputLimit, ""},
		{"refusal as an error", []string{fails("API Error: unable to respond to this request, which appears to violate our Usage Policy")}, turns.ClassRefusal, ""},
		{"new sentence", []string{fails("something new")}, turns.ClassUnknown, ""},
		{"refusal", []string{says("no"), stop("refusal")}, turns.ClassRefusal, ""},
		{"output limit", []string{says("x"), stop("max_tokens")}, turns.ClassOutputLimit, ""},
		{"too many requests", []string{says("x"), stop("max_turn_requests")}, turns.ClassOutputLimit, ""},
		{"cancelled by somebody else", []string{says("x"), stop("cancelled")}, turns.ClassCrash, ""},
		{"gone in the middle", []string{says("APPROVE"), "x 3"}, turns.ClassCrash, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res, err := script(t, slices.Concat(begin, tt.lines)...).Run(t.Context(), taskOf(t, turns.Owner), &recording.Heard{})
			if tt.want == "" {
				if err != nil || res.Text != tt.text || res.Session != "s-1" {
					t.Errorf("got %+v, %v", res, err)
				}
				return
			}
			if f := turns.FailureOf(cmpErr(err)); f.Class != tt.want || f.Message == "" || res.Text != "" {
				t.Errorf("want %s, got %+v, %v", tt.want, res, err)
			}
		})
	}
}

func cmpErr(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

func TestOtherVersionOfTheProtocol(t *testing.T) {
	a := script(t, hello, `< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":2}}`)
	_, err := a.Run(t.Context(), taskOf(t, turns.Owner), &recording.Heard{})
	if f := turns.FailureOf(cmpErr(err)); f.Class != turns.ClassConfig {
		t.Errorf("got %v", err)
	}
	if err := a.Check(t.Context()); err == nil {
		t.Error("Check finds nothing wrong")
	}
	if err := recorded(t, "ok").Check(t.Context()); err != nil {
		t.Errorf("Check of a good one: %v", err)
	}
}

func TestResets(t *testing.T) {
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"You've hit your limit · resets 2:33pm (UTC)": noon.Add(2*time.Hour + 33*time.Minute),
		"You've hit your limit · resets 9am (UTC)":    noon.Add(21 * time.Hour),
		"You've hit your limit · resets Monday":       {},
	} {
		if got := resets(text, noon); !got.Equal(want) {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// TestResume: the old conversation is told again and is no answer.
func TestResume(t *testing.T) {
	task := taskOf(t, turns.Owner)
	task.Session = "s-1"
	load := `> {"id":2,"method":"session/load"}`
	loaded := `< {"jsonrpc":"2.0","id":2,"result":{}}`
	res, err := script(t, hello, helloBack, load, says("old words"), loaded, prompt, says("new words"), endTurn).Run(t.Context(), task, &recording.Heard{})
	if err != nil || res.Text != "new words" || res.Session != "s-1" {
		t.Errorf("got %+v, %v", res, err)
	}
	missing := `< {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"Internal error","data":{"details":"Session not found"}}}`
	cant := `< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{}}}`
	for name, a := range map[string]*Agent{"not found": script(t, hello, helloBack, load, missing), "can't resume": script(t, hello, cant)} {
		var heard recording.Heard
		_, err := a.Run(t.Context(), task, &heard)
		if f := turns.FailureOf(cmpErr(err)); f.Class != turns.ClassSessionLost || len(heard.Sessions) > 0 {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

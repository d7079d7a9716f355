package claude

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"rota/agents"
	"rota/agents/agenttest"
	"rota/agents/recording"
	"rota/turns"
)

// The plays of the fake that asks.
const (
	asksOnce  agenttest.Scenario = "asks once"
	takesLate agenttest.Scenario = "takes a message after its first end"
	withdraws agenttest.Scenario = "withdraws its question"
)

// asker is Claude Code with an open input: it asks whether it may run a command
// and tells in its answer what it heard.
type asker struct {
	in     *bufio.Scanner
	script agenttest.Script
	heard  []string
	later  []heardLine // messages that it did not take yet
	ends   int
}

type heardLine struct {
	Type    string `json:"type"`
	UUID    string `json:"uuid"`
	Message struct {
		Content string `json:"content"`
	} `json:"message"`
	ID      string `json:"request_id"`
	Request struct {
		Subtype string `json:"subtype"`
	} `json:"request"`
	Response struct {
		ID       string `json:"request_id"`
		Response struct {
			Behavior string `json:"behavior"`
			Message  string `json:"message"`
			Input    struct {
				Command string `json:"command"`
			} `json:"updatedInput"`
		} `json:"response"`
	} `json:"response"`
}

func (f *asker) say(line string) { fmt.Println(line) }

// next returns the next line of the input, false at its end.
func (f *asker) next() (heardLine, bool) {
	var l heardLine
	if !f.in.Scan() {
		return l, false
	}
	if err := json.Unmarshal(f.in.Bytes(), &l); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(70)
	}
	return l, true
}

func (f *asker) take(l heardLine) {
	f.heard = append(f.heard, l.Message.Content)
	f.say(fmt.Sprintf(`{"type":"user","message":{"content":%q},"uuid":%q,"isReplay":true}`, l.Message.Content, l.UUID))
}

func (f *asker) end() {
	f.ends++
	f.say(fmt.Sprintf(`{"type":"result","subtype":"success","is_error":false,"result":%q,"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":1}}`,
		strings.Join(f.heard, "; ")))
}

func fakeThatAsks(s *agenttest.Stage) int {
	f := &asker{in: bufio.NewScanner(os.Stdin), script: s.Script}
	prompt, ok := f.next()
	if !ok || prompt.Type != "user" {
		return 70
	}
	s.Record(prompt.Message.Content)
	f.say(`{"type":"system","subtype":"init","session_id":"s-1","model":"fake"}`)
	f.take(prompt)
	f.say(says[:len(says)-1])
	f.say(`{"type":"control_request","request_id":"r0","request":{"subtype":"hook_callback"}}`)
	f.say(`{"type":"assistant","message":{"model":"fake","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make"}}]}}`)
	f.say(`{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"make"},"tool_use_id":"t1"}}`)
	for {
		l, ok := f.next()
		switch {
		case !ok && f.ends > 0:
			return 0
		case !ok:
			return 71 // the input ended before the turn
		case l.Type == "control_request" && l.Request.Subtype == "interrupt":
			return f.interrupted(l)
		case l.Type == "user":
			f.later = append(f.later, l)
			if s.Script.Scenario == withdraws {
				f.say(`{"type":"control_cancel_request","request_id":"r1"}`)
				f.finish()
			}
		case l.Type == "control_response" && l.Response.ID == "r1":
			r := l.Response.Response
			f.heard = append(f.heard, strings.TrimSpace(r.Behavior+" "+r.Message+r.Input.Command))
			f.finish()
		}
	}
}

// finish ends the turn; messages are taken before it, or after it.
func (f *asker) finish() {
	f.say(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}}`)
	if f.script.Scenario == takesLate {
		f.end()
	}
	for _, l := range f.later {
		f.take(l)
	}
	f.later = nil
	f.end()
}

func (f *asker) interrupted(l heardLine) int {
	f.say(`{"type":"control_cancel_request","request_id":"r1"}`)
	f.say(`{"type":"control_response","response":{"subtype":"success","request_id":"` + l.ID + `"}}`)
	f.say(`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","is_error":true}]}}`)
	f.say(`{"type":"result","subtype":"error_during_execution","is_error":true}`)
	for f.in.Scan() {
	}
	return 1
}

// asking hears a run and says when a question waits.
type asking struct {
	recording.Heard
	asked chan turns.Item
}

func (a *asking) Item(i turns.Item) error {
	if i.Kind == turns.ItemRequest && i.State == turns.ItemOpen {
		a.asked <- i
	}
	return a.Heard.Item(i)
}

// askRun runs the fake; when it asks, a person does what controls say. An empty
// item of a Respond stands for the question's own.
func askRun(t *testing.T, play agenttest.Scenario, controls ...agents.Control) (agents.Result, *asking, []error) {
	t.Helper()
	line := make(chan agents.Control)
	asked := agents.Task{
		Thread: "t", Turn: "t/1", Attempt: "t/1.1", Role: turns.Owner, Fence: 35, Prompt: agenttest.Prompt, Workspace: t.TempDir(),
		Start: 30 * time.Second, Silence: 30 * time.Second, Controls: line,
	}
	heard := &asking{asked: make(chan turns.Item, 1)}
	answers := make(chan error, len(controls))
	go func() {
		item := <-heard.asked
		for _, c := range controls {
			if c.Kind == agents.Respond && c.Item == "" {
				c.Item = item.ID
			}
			c.Done = func(err error) { answers <- err }
			line <- c
		}
	}()
	res, err := New(Options{Program: agenttest.Program(t, agenttest.Script{Scenario: play}), Ask: true}).Run(t.Context(), asked, heard)
	if err != nil {
		t.Fatal(err)
	}
	if got := agenttest.ReadCall(t, asked.Workspace).Stdin; got != agenttest.Prompt {
		t.Errorf("prompt %q", got)
	}
	if left := heard.Open(); len(left) > 0 {
		t.Errorf("left open: %v", left)
	}
	var errs []error
	for range controls {
		errs = append(errs, <-answers)
	}
	return res, heard, errs
}

func respond(text string) agents.Control { return agents.Control{Kind: agents.Respond, Text: text} }

func TestQuestionWaitsForAPerson(t *testing.T) {
	steer := agents.Control{Kind: agents.Steer, Text: "faster"}
	for _, tt := range []struct {
		name     string
		play     agenttest.Scenario
		controls []agents.Control
		refused  []bool
		text     string
		input    int64
		state    turns.ItemState
	}{
		{"yes", asksOnce, []agents.Control{respond(" Yes ")}, []bool{false}, "allow make", 10, turns.ItemCompleted},
		{"no", asksOnce, []agents.Control{respond("no")}, []bool{false}, "deny This was not allowed.", 10, turns.ItemCompleted},
		{"why not", asksOnce, []agents.Control{respond("use go build")}, []bool{false}, "deny use go build", 10, turns.ItemCompleted},
		{"wrong ones first", asksOnce, []agents.Control{{Kind: agents.Respond, Item: "z-other", Text: "yes"}, respond(" "), respond("allow")},
			[]bool{true, true, false}, "allow make", 10, turns.ItemCompleted},
		{"a steer before the answer", asksOnce, []agents.Control{steer, respond("ok")}, []bool{false, false}, "allow make; faster", 10, turns.ItemCompleted},
		{"a steer that is taken after an end", takesLate, []agents.Control{steer, respond("ok")}, []bool{false, false}, "allow make; faster", 20, turns.ItemCompleted},
		{"the program asks no longer", withdraws, []agents.Control{steer}, []bool{false}, "faster", 10, turns.ItemCancelled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			res, heard, errs := askRun(t, tt.play, tt.controls...)
			if want := agenttest.Prompt + "; " + tt.text; res.Text != want || res.Session != "s-1" || res.Usage.InputTokens != tt.input {
				t.Errorf("got %+v, want %q", res, want)
			}
			for i, err := range errs {
				if (err != nil) != tt.refused[i] {
					t.Errorf("control %d: %v", i, err)
				}
			}
			checkQuestion(t, heard, tt.state)
		})
	}
}

func checkQuestion(t *testing.T, heard *asking, state turns.ItemState) {
	t.Helper()
	asked := slices.DeleteFunc(slices.Clone(heard.Items), func(i turns.Item) bool { return i.Kind != turns.ItemRequest })
	if len(asked) != 2 || asked[0].ID != "z-ask-r1" || asked[0].Title != "Bash: make (yes, no, or why not)" || asked[1].State != state {
		t.Errorf("questions %+v", asked)
	}
}

func TestInterruptWhileAQuestionWaits(t *testing.T) {
	res, heard, errs := askRun(t, asksOnce, agents.Control{Kind: agents.Interrupt})
	if !res.Interrupted || res.Text != "APPROVE all good" || res.Session != "s-1" || errs[0] != nil {
		t.Errorf("got %+v, %v", res, errs)
	}
	checkQuestion(t, heard, turns.ItemCancelled)
}

// TestWhoAsks: only an owner whose run can bring an answer, and only when told to.
func TestWhoAsks(t *testing.T) {
	controls := make(chan agents.Control)
	for _, tt := range []struct {
		name string
		ask  bool
		task agents.Task
		want bool
	}{
		{"owner", true, agents.Task{Role: turns.Owner, Controls: controls}, true},
		{"not told to", false, agents.Task{Role: turns.Owner, Controls: controls}, false},
		{"nobody to ask", true, agents.Task{Role: turns.Owner}, false},
		{"owner that reads", true, agents.Task{Role: turns.Owner, ReadOnly: true, Controls: controls}, false},
		{"reviewer", true, agents.Task{Role: turns.Reviewer, ReadOnly: true, Controls: controls}, false},
		{"arbiter", true, agents.Task{Role: turns.Arbiter, ReadOnly: true, Controls: controls}, false},
	} {
		args := argsOf(t, Options{Ask: tt.ask}, tt.task)
		if got := slices.Contains(args, "--permission-prompt-tool"); got != tt.want {
			t.Errorf("%s: asks %v", tt.name, got)
		}
		if tt.want && (value(t, args, "--permission-mode") != "default" || slices.Contains(args, "--allowedTools")) {
			t.Errorf("%s: something is allowed without a question: %q", tt.name, args)
		}
	}
}

func TestAnswersOfAQuestion(t *testing.T) {
	fruit := `{"questions":[{"question":"Which fruit?","options":[{"label":"Quince"},{"label":"Pear"}]},{"question":"Why?"}]}`
	all := `{"answers":{"Which fruit?":"Plum","Why?":"Plum"},` + fruit[1:]
	for _, tt := range []struct{ tool, input, title, text, want string }{
		{userQuestion, fruit, "Which fruit? (Quince, Pear) / Why?", "Plum", `{"behavior":"allow","updatedInput":` + all + `}`},
		{userQuestion, fruit, "Which fruit? (Quince, Pear) / Why?", "no", `{"behavior":"deny","message":"The answer is no, or nobody answered. Go on by your own judgement."}`},
		{userQuestion, `{"questions":7}`, "AskUserQuestion (yes, no, or why not)", "what?", `{"behavior":"deny","message":"what?"}`},
		{"Write", `{"file_path":"a.go","content":"x"}`, "Write: a.go (yes, no, or why not)", "OK", `{"behavior":"allow","updatedInput":{"content":"x","file_path":"a.go"}}`},
		{"Other", ``, "Other (yes, no, or why not)", "y", `{"behavior":"allow","updatedInput":{}}`},
		{"Bash", `{"command":"` + strings.Repeat("ä", 500) + `"}`, "", "yes please", `{"behavior":"deny","message":"yes please"}`},
	} {
		q := questionOf("r", tt.tool, json.RawMessage(tt.input))
		if tt.title != "" && q.title != tt.title || !strings.HasSuffix(q.title, ")") && tt.tool == "Bash" || len(q.title) > 200 {
			t.Errorf("%s: title %q", tt.tool, q.title)
		}
		answer, err := q.answer(tt.text)
		if got, _ := json.Marshal(answer); err != nil || string(got) != tt.want {
			t.Errorf("%s: %s, %v, want %s", tt.tool, got, err, tt.want)
		}
	}
	if _, err := questionOf("r", "Bash", nil).answer("\n "); err == nil {
		t.Error("an empty answer is one")
	}
}

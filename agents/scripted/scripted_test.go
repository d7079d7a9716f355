package scripted

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rota/agents"
	"rota/agents/agenttest"
	"rota/turns"
)

func parse(t *testing.T, text string) *Script {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSuite(t *testing.T) {
	const begin = `{"do":[{"accept":true},{"progress":"text","text":"` + agenttest.Progress + `"},`
	const open = `{"item":"tool-1","kind":"tool","state":"open"},`
	const closed = `{"item":"tool-1","kind":"tool","state":"completed"},`
	scripts := map[agenttest.Scenario]string{
		agenttest.Answers: begin + open + closed + `{"result":"%s","text":"` + agenttest.Answer + `"}]}`,
		agenttest.Waits:   begin + open + `{"file":".go"},` + closed + `{"result":"%s","text":"` + agenttest.Answer + `"}]}`,
		agenttest.Empty:   begin + `{"result":""}]}`,
		agenttest.Crashes: begin + `{"error":"crash"}]}`,
		agenttest.Hangs:   begin + `{"hang":true}]}`,
	}
	agenttest.Run(t, agenttest.Subject{
		InProcess: true,
		New: func(t *testing.T, s agenttest.Script) agents.Agent {
			text := scripts[s.Scenario]
			if strings.Contains(text, "%s") {
				text = fmt.Sprintf(text, s.Outcome)
			}
			return New(parse(t, text), "any")
		},
	})
}

func TestWithoutAScriptEveryRoleSucceeds(t *testing.T) {
	for role, want := range map[turns.Role]turns.Outcome{turns.Owner: turns.Done, turns.Reviewer: turns.Approve, turns.Arbiter: turns.Proceed} {
		r := &agenttest.Recorder{}
		result, err := New(nil, "any").Run(t.Context(), agenttest.NewTask(t, role), r)
		if err != nil || result.Outcome != want || result.Text == "" || r.Seen().Accepted != 1 {
			t.Errorf("%s: %+v, %v", role, result, err)
		}
	}
}

func TestSelectors(t *testing.T) {
	s := parse(t, `
# the first rule that matches counts
{"role":"reviewer","times":2,"do":[{"error":"overloaded"}]}
{"role":"reviewer","service":"claude","do":[{"error":"auth"}]}
{"intent":"review","attempt":2,"do":[{"error":"quota"}]}
{"turn":7,"do":[{"error":"refusal"}]}
{"thread":"other","do":[{"error":"server"}]}
`)
	class := func(role turns.Role, service, thread string, turn, attempt int) turns.Class {
		task := agenttest.NewTask(t, role)
		task.Thread, task.Turn = thread, turns.TurnID(thread, turn)
		task.Attempt = turns.AttemptID(task.Turn, attempt)
		_, err := New(s, service).Run(t.Context(), task, &agenttest.Recorder{})
		if err == nil {
			return ""
		}
		return turns.FailureOf(err).Class
	}
	for i, c := range []struct {
		role            turns.Role
		service, thread string
		turn, attempt   int
		want            turns.Class
	}{
		{turns.Owner, "claude", "t", 1, 1, ""},
		{turns.Reviewer, "codex", "t", 1, 1, turns.ClassOverloaded},
		{turns.Reviewer, "claude", "t", 1, 1, turns.ClassOverloaded},
		{turns.Reviewer, "claude", "t", 1, 1, turns.ClassAuth},
		{turns.Reviewer, "codex", "t", 1, 2, turns.ClassQuota},
		{turns.Reviewer, "codex", "t", 1, 1, ""},
		{turns.Owner, "codex", "t", 7, 3, turns.ClassRefusal},
		{turns.Owner, "codex", "other", 1, 1, turns.ClassServer},
	} {
		if got := class(c.role, c.service, c.thread, c.turn, c.attempt); got != c.want {
			t.Errorf("run %d: class %q, want %q", i+1, got, c.want)
		}
	}
}

func TestProblemsAreNamedWithTheirLines(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"# fine\n\n{\"role\":\"boss\"}", `script line 3: unknown role "boss"`},
		{"{}\n{\"intent\":\"play\"}\n{\"turn\":-1}", "script line 2: unknown intent \"play\"\nscript line 3: turn, attempt and times count from 1"},
		{"{\"do\":[\n{\"accept\":true},\n{}]}", "script line 1: step 2: it has 0 verbs"},
		{`{"do":[{"hang":true,"deaf":true}]}`, "script line 1: step 1: it has 2 verbs"},
		{"{\"do\":[\n{\"wait\":7}]}", "script line 2: "},
		{`{"do":[{"wait":"soon"}]}`, "script line 1: time: invalid duration"},
		{`{"do":[{"wait":"-1s"}]}`, "script line 1: duration"},
		{`{"do":[{"error":"bad luck"}]}`, `script line 1: step 1: unknown error class "bad luck"`},
		{`{"do":[{"result":"yes"}]}`, `script line 1: step 1: unknown outcome "yes"`},
		{`{"do":[{"write":"../x"}]}`, "script line 1: step 1: write"},
		{`{"do":[{"item":"i","kind":"thing","state":"open"}]}`, "script line 1: step 1: item i: unknown kind"},
		{`{"do":[{"item":"i","kind":"tool","state":"half"}]}`, "script line 1: step 1: item i: unknown state"},
		{`{"do":[{"progress":"none"}]}`, "script line 1: step 1: progress"},
		{"{}\n{\"rolle\":\"owner\"}", `script line 2: json: unknown field "rolle"`},
		{"{}\n\n{\"role\":}", "script line 3: "},
		{"{}\n{\"role\":", "script line 2: "},
	} {
		_, err := Parse(c.text)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestStepsThatFailOrWrite(t *testing.T) {
	task := agenttest.NewTask(t, turns.Owner)
	do := func(steps string) (agents.Result, error) {
		return New(parse(t, `{"do":[`+steps+`]}`), "any").Run(t.Context(), task, &agenttest.Recorder{})
	}
	if _, err := do(`{"write":"a/b.txt","text":"hello"},{"wait":"1ms"}`); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(task.Workspace, "a/b.txt")); string(b) != "hello" {
		t.Error(string(b), err)
	}
	_, err := do(`{"error":"quota","text":"used up","retry_after":"30s","resets_in":"1h"}`)
	if f := turns.FailureOf(err); f.Class != turns.ClassQuota || f.RetryAfter != 30*time.Second || time.Until(f.ResetsAt) < 59*time.Minute {
		t.Errorf("%+v", f)
	}
	if _, err := do(`{"result":"approve","text":"x"}`); err == nil || turns.FailureOf(err).Class != turns.ClassBadOutput {
		t.Errorf("another role's verdict: %v", err)
	}
	func() {
		defer func() {
			if v := recover(); fmt.Sprint(v) != "scripted agent: boom" {
				t.Errorf("recovered %v", v)
			}
		}()
		do(`{"panic":"boom"}`)
	}()
	task.Start = 20 * time.Millisecond
	if _, err := do(`{"hang":true}`); err == nil || turns.FailureOf(err).Class != turns.ClassTimeout {
		t.Errorf("not accepted in time: %v", err)
	}
}

func TestADeafRunDoesNotHearTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	task, r, done := agenttest.NewTask(t, turns.Owner), &agenttest.Recorder{}, make(chan error, 1)
	a := New(parse(t, `{"do":[{"deaf":true},{"accept":true},{"file":"go"},{"progress":"text","text":"late"}]}`), "any")
	go func() {
		_, err := a.Run(ctx, task, r)
		done <- err
	}()
	r.Wait(t, "accepted", func(s agenttest.Seen) bool { return s.Accepted == 1 })
	cancel()
	if err := os.WriteFile(filepath.Join(task.Workspace, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.Wait(t, "a late word", func(s agenttest.Seen) bool { return len(s.Texts) == 1 })
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestControls(t *testing.T) {
	controls := make(chan agents.Control)
	task, r := agenttest.NewTask(t, turns.Owner), &agenttest.Recorder{}
	task.Controls = controls
	a := New(parse(t, `{"do":[
		{"item":"q1","kind":"request","state":"open","title":"may I?"},
		{"answer":"q1"},
		{"hang":true}]}`), "any")
	type end struct {
		result agents.Result
		err    error
	}
	done := make(chan end, 1)
	go func() {
		result, err := a.Run(t.Context(), task, r)
		done <- end{result, err}
	}()
	send := func(c agents.Control) {
		taken := make(chan error, 1)
		c.Done = func(err error) { taken <- err }
		controls <- c
		if err := <-taken; err != nil {
			t.Errorf("%s: %v", c.Kind, err)
		}
	}
	send(agents.Control{Kind: agents.Respond, Item: "q1", Text: "yes"})
	r.Wait(t, "the request is closed", func(s agenttest.Seen) bool {
		return len(s.Items) == 2 && s.Items[1].State == turns.ItemCompleted
	})
	send(agents.Control{Kind: agents.Steer, Text: "more to the left"})
	send(agents.Control{Kind: agents.Interrupt})
	e := <-done
	if e.err != nil || !e.result.Interrupted || e.result.Text != "more to the left" {
		t.Errorf("%+v, %v", e.result, e.err)
	}
}

func TestTheCauseOfTheContextIsReturned(t *testing.T) {
	cause := errors.New("fence lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for _, script := range []*Script{nil, parse(t, `{"do":[{"hang":true}]}`)} {
		if _, err := New(script, "any").Run(ctx, agenttest.NewTask(t, turns.Owner), &agenttest.Recorder{}); err != cause {
			t.Errorf("run: %v", err)
		}
	}
}

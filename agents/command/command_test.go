package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"rota/agents"
	"rota/agents/agenttest"
	"rota/turns"
)

func script(lines string) *Agent { return New("sh", "-c", "cat >/dev/null\n"+lines) }

func TestWhatAnExitMeans(t *testing.T) {
	reviewer := agenttest.NewTask(t, turns.Reviewer)
	for _, c := range []struct {
		name   string
		script string
		text   string
		out    turns.Outcome
		class  turns.Class // empty for success
		says   string      // in the error
	}{
		{"plain text", `printf 'Looks good.\n\nVERDICT: approve\n'`, "Looks good.\n\nVERDICT: approve", "", "", ""},
		{"plain text without a last line end", `printf 'no end'`, "no end", "", "", ""},
		{"plain text that is not UTF-8", `printf 'caf\351\n'`, "caf\uFFFD", "", "", ""},
		{"JSON of an unknown type is plain text", `echo '{"type":"log"}'; echo '{"type":"result","text":"x"}'`,
			"{\"type\":\"log\"}\n{\"type\":\"result\",\"text\":\"x\"}", "", "", ""},
		{"plain text and a failure", `echo 'VERDICT: approve'; echo no disk >&2; exit 1`, "", "", turns.ClassCrash, "exit status 1: no disk"},
		{"nothing", `exit 0`, "", "", turns.ClassEmpty, ""},
		{"blank lines", `printf '\n \n'`, "", "", turns.ClassEmpty, ""},
		{"nothing and a failure", `exit 4`, "", "", turns.ClassCrash, "exit status 4"},
		{"a signal", `kill -9 $$`, "", "", turns.ClassCrash, "signal 9"},

		{"result", `echo '{"type":"result","text":"ok","outcome":"approve"}'`, "ok", turns.Approve, "", ""},
		{"result after noise", `echo; echo '{"type":"accepted"}'; echo noise; echo '{"type":"log","x":1}'; echo '[1]'; echo '{"type":"result","text":"ok"}'`, "ok", "", "", ""},
		{"the last result counts", `echo '{"type":"result","text":"one"}'; echo '{"type":"result","text":"two"}'`, "two", "", "", ""},
		{"a verdict without words", `echo '{"type":"result","outcome":"changes"}'`, "", turns.Changes, "", ""},
		{"result with status 1", `echo '{"type":"result","text":"ok","outcome":"approve"}'; exit 1`, "", "", turns.ClassCrash, "exit status 1"},
		{"no result", `echo '{"type":"accepted"}'`, "", "", turns.ClassCrash, "without a result"},
		{"a result that is cut off", `echo '{"type":"accepted"}'; printf '{"type":"result","te'`, "", "", turns.ClassBadOutput, "valid JSON"},
		{"empty result", `echo '{"type":"result","text":""}'`, "", "", turns.ClassEmpty, ""},
		{"another role's verdict", `echo '{"type":"result","text":"ok","outcome":"done"}'`, "", "", turns.ClassBadOutput, "done"},
		{"prose as a verdict", `echo '{"type":"result","text":"ok","outcome":"Approve!"}'`, "", "", turns.ClassBadOutput, "Approve!"},
		{"text that is no string", `echo '{"type":"result","text":7}'`, "", "", turns.ClassBadOutput, "result"},
		{"unknown progress", `echo '{"type":"progress","progress":"most"}'; sleep 600`, "", "", turns.ClassBadOutput, "most"},
		{"unknown kind", `echo '{"type":"item","id":"i","kind":"root","state":"open"}'; sleep 600`, "", "", turns.ClassBadOutput, "root"},
		{"a kind with a hyphen", `echo '{"type":"item","id":"i","kind":"sub-agent","state":"open"}'; echo '{"type":"result","text":"ok"}'`, "ok", "", "", ""},
		{"unknown state", `echo '{"type":"item","id":"i","kind":"tool","state":"half"}'; sleep 600`, "", "", turns.ClassBadOutput, "half"},
		{"no id", `echo '{"type":"item","kind":"tool","state":"open"}'; sleep 600`, "", "", turns.ClassBadOutput, "id"},

		{"error", `echo '{"type":"error","class":"auth","message":"token expired"}'; exit 1`, "", "", turns.ClassAuth, "token expired"},
		{"error with status 0", `echo '{"type":"error","class":"refusal"}'`, "", "", turns.ClassRefusal, ""},
		{"error after a result", `echo '{"type":"result","text":"ok"}'; echo '{"type":"error","class":"server"}'`, "", "", turns.ClassServer, ""},
		{"unknown class", `echo '{"type":"error","class":"bad luck","message":"m"}'`, "", "", turns.ClassUnknown, "bad luck"},
		{"no class", `echo '{"type":"error","message":"m"}'`, "", "", turns.ClassUnknown, "an error without a class: m"},
		{"a class of rota's own", `echo '{"type":"error","class":"shutdown"}'`, "", "", turns.ClassUnknown, "shutdown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &agenttest.Recorder{}
			result, err := script(c.script).Run(t.Context(), reviewer, r)
			if c.class == "" {
				if err != nil || result.Text != c.text || result.Outcome != c.out {
					t.Errorf("result %+v, %v", result, err)
				}
				if r.Seen().Accepted != 1 {
					t.Errorf("accepted %d times", r.Seen().Accepted)
				}
				return
			}
			if err == nil {
				t.Fatalf("success %+v, want %s", result, c.class)
			}
			if f := turns.FailureOf(err); f.Class != c.class || !strings.Contains(f.Error(), c.says) || strings.Contains(f.Error(), "\n") {
				t.Errorf("failure %v, want %s with %q", f, c.class, c.says)
			}
			if !reflect.DeepEqual(result, agents.Result{}) {
				t.Errorf("a result came with the failure: %+v", result)
			}
		})
	}
}

func TestAnErrorsTimes(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		retry, resets string
		after         time.Duration
		at            time.Time
		says          string
	}{
		{"30s", "2030-01-02T04:00:00Z", 30 * time.Second, time.Date(2030, 1, 2, 4, 0, 0, 0, time.UTC), "m"},
		{"", "2030-01-02T05:00:00+01:00", 0, time.Date(2030, 1, 2, 4, 0, 0, 0, time.UTC), "m"},
		{"", "2029-01-02T04:00:00Z", 0, time.Time{}, "m"},
		{"soon", "tomorrow", 0, time.Time{}, `m (retry_after "soon" is no duration) (resets_at "tomorrow" is no RFC 3339 time)`},
		{"-1s", "", 0, time.Time{}, `m (retry_after "-1s" is no duration)`},
	} {
		f := line{Class: "quota", Message: "m", RetryAfter: c.retry, ResetsAt: c.resets}.failure(now)
		if f.Class != turns.ClassQuota || f.RetryAfter != c.after || !f.ResetsAt.Equal(c.at) || f.Message != c.says {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

func TestInputAndEnvironment(t *testing.T) {
	task := agenttest.NewTask(t, turns.Reviewer)
	task.Session, task.Previous, task.Login = "s-1", "it wrote a test", map[string]string{"LOGIN": "sk-fake-not-a-secret"}
	a := New("sh", "-c", `cat >input; env >env; pwd >pwd; echo ok`).WithEnv(map[string]string{"MODE": "strict", "LOGIN": "of nobody"})
	if _, err := a.Run(t.Context(), task, &agenttest.Recorder{}); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(task.Workspace, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(read("input")), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"thread": "fix-login", "turn": "fix-login/3", "attempt": "fix-login/3.1", "role": "reviewer", "intent": "review",
		"prompt": agenttest.Prompt, "workspace": task.Workspace, "session": "s-1", "previous": "it wrote a test",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("input %v, want %v", got, want)
	}
	if !strings.Contains(read("env"), "LOGIN=sk-fake-not-a-secret\n") || os.Getenv("LOGIN") != "" {
		t.Error("the login is not in the environment of the agent, and of it alone")
	}
	if !strings.Contains(read("env"), "MODE=strict\n") {
		t.Error("the configured variable is not in the environment of the agent")
	}
	if at := strings.TrimSpace(read("pwd")); at != task.Workspace {
		t.Errorf("started in %s", at)
	}
}

func TestItems(t *testing.T) {
	r := &agenttest.Recorder{}
	_, err := script(`
		echo '{"type":"item","id":"i1","kind":"sub_agent","state":"open","title":"search","child":"helper-a","parent":"i0"}'
		echo '{"type":"item","id":"i1","kind":"sub_agent","state":"failed","child":"helper-a"}'
		echo '{"type":"result","text":"ok"}'`).Run(t.Context(), agenttest.NewTask(t, turns.Owner), r)
	if err != nil {
		t.Fatal(err)
	}
	open := turns.Item{ID: "i1", Kind: turns.ItemSubAgent, State: turns.ItemOpen, Title: "search", Child: "helper-a",
		Parent: "i0", Thread: "fix-login", Turn: "fix-login/3", Attempt: "fix-login/3.1"}
	closed := open
	closed.State, closed.Title, closed.Parent = turns.ItemFailed, "", ""
	if seen := r.Seen(); !reflect.DeepEqual(seen.Items, []turns.Item{open, closed}) {
		t.Errorf("items %+v", seen.Items)
	}
}

// What accepts, and what does not.
func TestAccepted(t *testing.T) {
	for _, c := range []struct {
		name, script string
		after        time.Duration
		accepted     int
	}{
		{"alive long enough", "sleep 600", time.Millisecond, 1},
		{"not alive long enough", "exit 1", time.Hour, 0},
		{"the first word", "echo; echo hm; exit 1", time.Hour, 1},
		{"blank lines are no word", "echo; exit 1", time.Hour, 0},
		{"exit status 0", "exit 0", time.Hour, 1},
		{"the accepted line", `echo '{"type":"accepted"}'; exit 1`, time.Hour, 1},
		{"an error is no word of acceptance", `echo '{"type":"error","class":"auth"}'; exit 1`, time.Hour, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			a, r, done := script(c.script), &agenttest.Recorder{}, make(chan error, 1)
			a.acceptAfter = c.after
			go func() {
				_, err := a.Run(ctx, agenttest.NewTask(t, turns.Owner), r)
				done <- err
			}()
			if c.script == "sleep 600" {
				r.Wait(t, "accepted", func(s agenttest.Seen) bool { return s.Accepted == 1 })
				cancel()
			}
			if err := <-done; err == nil {
				t.Error("success")
			}
			if n := r.Seen().Accepted; n != c.accepted {
				t.Errorf("accepted %d times, want %d", n, c.accepted)
			}
		})
	}
}

// A program that never takes the prompt has not accepted it.
func TestAPromptThatIsNotTaken(t *testing.T) {
	a, r := New("sleep", "600"), &agenttest.Recorder{}
	a.acceptAfter = time.Millisecond
	task := agenttest.NewTask(t, turns.Owner)
	task.Prompt = strings.Repeat("x", 1<<20)
	task.Start = 200 * time.Millisecond
	_, err := a.Run(t.Context(), task, r)
	if err == nil || turns.FailureOf(err).Class != turns.ClassTimeout || r.Seen().Accepted != 0 {
		t.Errorf("run: %v, accepted %d times", err, r.Seen().Accepted)
	}
}

func TestControls(t *testing.T) {
	for _, c := range []struct{ name, script, text string }{
		{"plain text", `trap 'echo more; exit 130' INT; echo half; while :; do sleep 0.01; done`, "half\nmore"},
		{"deaf", `trap '' INT; echo half; while :; do sleep 0.01; done`, "half"},
		{"JSON lines", `trap 'exit 130' INT; echo '{"type":"progress","progress":"text","text":"half"}'; while :; do sleep 0.01; done`, "half"},
	} {
		t.Run(c.name, func(t *testing.T) {
			controls, answers := make(chan agents.Control), make(chan error, 1)
			task, r := agenttest.NewTask(t, turns.Owner), &agenttest.Recorder{}
			task.Controls = controls
			a := script(c.script)
			a.stopGrace = 300 * time.Millisecond
			type end struct {
				result agents.Result
				err    error
			}
			done := make(chan end, 1)
			go func() {
				result, err := a.Run(t.Context(), task, r)
				done <- end{result, err}
			}()
			r.Wait(t, "half an answer", func(s agenttest.Seen) bool { return len(s.Texts) == 1 })
			controls <- agents.Control{Kind: agents.Steer, Text: "left", Done: func(err error) { answers <- err }}
			if err := <-answers; err == nil || err.Error() != "a command agent can't take a steer while it runs" {
				t.Errorf("steer: %v", err)
			}
			controls <- agents.Control{Kind: agents.Interrupt, Done: func(err error) { answers <- err }}
			if err := <-answers; err != nil {
				t.Errorf("interrupt: %v", err)
			}
			e := <-done
			if e.err != nil || !e.result.Interrupted || e.result.Text != c.text {
				t.Errorf("%+v, %v", e.result, e.err)
			}
		})
	}
}

func TestARelativeProgramIsNotTakenFromTheWorkspace(t *testing.T) {
	task := agenttest.NewTask(t, turns.Reviewer)
	planted := filepath.Join(task.Workspace, "review.sh")
	if err := os.WriteFile(planted, []byte("#!/bin/sh\necho 'VERDICT: approve'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := New("./review.sh").Run(t.Context(), task, &agenttest.Recorder{})
	if err == nil || turns.FailureOf(err).Class != turns.ClassConfig {
		t.Errorf("run: %v", err)
	}
}

func TestCheck(t *testing.T) {
	if err := New("sh").Check(t.Context()); err != nil {
		t.Error(err)
	}
	for _, argv := range [][]string{nil, {"no-such-program"}, {"./no-such-program"}} {
		if err := New(argv...).Check(t.Context()); err == nil {
			t.Errorf("%q is found", argv)
		}
	}
}

package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"rota/commands"
	"rota/integration/processes"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// stopTime is what the contract gives a cancel until the agent's process tree is gone.
const stopTime = 5 * time.Second

// longLease keeps the lease and the renewals out of a story: what happens at once
// happened because the run was told.
const longLease = "{lease: 60s, start: 20s, silence: 50s, run: 60s, grace: 1s}"

// solo is a deployment with one service, or two, for the owner alone.
func solo(limits string, services ...string) setup {
	return setup{roles: map[string][]string{"owner": services}, limits: limits}
}

// hurried lets the commands of the test use the control queues too.
func (r *rig) hurried() *rig {
	controls := tasks.NewControls(r.rdb)
	r.commands.Order = controls.Order
	r.commands.Hurry = func(ctx context.Context, a turns.Attempt, ask store.Ask) error {
		return controls.Hurry(ctx, a, ask.Kind, ask.ID)
	}
	return r
}

// configure changes the configuration, before a worker reads it.
func (r *rig) configure(old, with string) {
	r.t.Helper()
	text, err := os.ReadFile(r.file)
	if err == nil {
		changed := strings.Replace(string(text), old, with, 1)
		if changed == string(text) {
			r.t.Fatalf("%q is not in the configuration:\n%s", old, text)
		}
		err = os.WriteFile(r.file, []byte(changed), 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// ok fails the test on an error.
func (r *rig) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// did fails the test unless a command succeeded.
func (r *rig) did(res commands.Result, err error) commands.Result {
	r.t.Helper()
	r.ok(err)
	return res
}

func (r *rig) client() *asynq.Client { return asynq.NewClientFromRedisClient(r.rdb) }

// refuses starts a worker that is not to come up, and returns how it ended.
func (r *rig) refuses(service string) (code int, log string) {
	r.t.Helper()
	cmd := exec.Command(program("worker"), "--service", service, "--config", r.file, "--http", "off")
	cmd.Env = append(clean(), "HOME="+r.dir)
	out, err := cmd.CombinedOutput()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return ended.ExitCode(), string(out)
	}
	r.ok(err)
	return 0, string(out)
}

func kind(err error) commands.Kind { return commands.KindOf(err) }

// alive reports whether a process is there and no zombie.
func alive(pid int) bool {
	for _, p := range processes.All() {
		if p.PID == pid {
			return p.Living()
		}
	}
	return false
}

// A cancel is final: the agent's whole process tree is gone within five seconds,
// also what left its session and ignores signals, and nothing runs the turn again.
func TestCancelKillsTheTree(t *testing.T) {
	t.Parallel()
	r := newRig(t, solo(longLease, "codex-main"))
	r.rules(rule{Attempt: 1, Steps: []string{"accepted", "tools", "deaf", "spawn", "spawn", "mark up", "hang"}})
	r.start("codex-main")
	turn := r.task("stop")
	e := r.entry(turn + ".1")
	r.await("the agent with its children", func() bool { return r.marked("up") && len(r.agents()) >= 3 })
	began := time.Now()
	r.did(r.commands.Cancel(t.Context(), "k", turn))
	r.await("the tree's end", func() bool { return len(r.agents()) == 0 })
	r.promised("the tree was gone", time.Since(began), stopTime)
	r.await("the thread to be free", func() bool { return r.thread("stop").Hold == 0 })

	// Whatever asynq delivers again, nobody runs it.
	for k := 1; k <= 3; k++ {
		r.ok(tasks.Enqueue(t.Context(), r.client(), e, k, nil))
		r.await("the late task to be dealt with", func() bool {
			_, err := r.inspect.GetTaskInfo("codex-main", tasks.TaskID(e.Attempt, k))
			return err != nil
		})
	}
	if again := r.did(r.commands.Cancel(t.Context(), "k2", turn)); !again.Already {
		t.Errorf("a second cancel: %+v", again)
	}
	if runs := r.runs(of(turn)); len(runs) != 1 {
		t.Errorf("%d runs of a cancelled turn", len(runs))
	}
	if p := r.paired("stop"); p.Status != turns.NeedsHuman {
		t.Errorf("the paired task is %s", p.Status)
	}
}

// An interrupt lets the agent stop by itself, keeps what it said and ends the turn
// as cancelled; one that does not stop is stopped.
func TestInterruptKeepsTheText(t *testing.T) {
	t.Parallel()
	r := newRig(t, solo(longLease, "codex-main"))
	said := `json {"type":"progress","progress":"text","text":"half of it"}`
	r.rules(rule{Thread: "polite", Steps: []string{"accepted", said, "mark polite", "hang"}},
		rule{Thread: "rude", Steps: []string{"accepted", said, "deaf", "spawn", "mark rude", "hang"}})
	r.configure("codex-main: {agent", "codex-main: {concurrency: 2, agent")
	r.start("codex-main")
	for _, thread := range []string{"polite", "rude"} {
		turn := r.task(thread)
		r.await("the agent", func() bool { return r.marked(thread) })
		r.did(r.commands.Interrupt(t.Context(), "k", turn))
		r.await("the turn's end", func() bool { return !r.turn(turn).State.Open() })
		u := r.turn(turn)
		text, err := r.store.Text(t.Context(), turn)
		if err != nil || u.State != turns.Cancelled || u.Reason != "interrupted" || !strings.Contains(text, "half of it") {
			t.Errorf("%s is %s (%s) with text %q, %v", turn, u.State, u.Reason, text, err)
		}
		if left := r.agents(); len(left) > 0 {
			t.Errorf("left after the end of %s: %v", turn, left)
		}
	}
}

// An interrupt before the agent runs ends the turn in one write; the agent never
// comes.
func TestInterruptBeforeTheAgentRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, solo(shortLimits, "codex-main"))
	turn := r.task("early")
	r.did(r.commands.Interrupt(t.Context(), "k", turn))
	log, err := r.store.Log(t.Context(), turn)
	if err != nil || len(log) != 2 || log[1].Verb != turns.VerbCancel || log[1].From != turns.Queued {
		t.Fatalf("log %+v, %v", log, err)
	}
	r.start("codex-main")
	r.task("after") // the queue has moved past the cancelled one when this has ended
	r.await("the next task's run", func() bool { return len(r.runs(of("after"))) > 0 })
	if runs := r.runs(of("early")); len(runs) > 0 {
		t.Errorf("it ran: %+v", runs)
	}
}

// A restart and an operator's handoff of a running turn: the old agent's tree is
// gone before the new agent begins. The restarted one inherits what is open.
func TestSuccessorWaitsForTheOldAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, solo(longLease, "codex-main", "codex-spare"))
	first := []string{"accepted", "tools", "item i1 tool open", "deaf", "spawn", "mark first", "hang"}
	second := []string{"accepted", "mark second", "wait go", "result done"}
	r.rules(rule{Attempt: 1, Steps: first}, rule{Attempt: 2, Steps: second})
	r.startAll()
	for _, row := range []struct {
		thread, story string
		move          func(turn string) (commands.Result, error)
		inherits      bool
	}{
		{"again", "codex-main restart running", func(turn string) (commands.Result, error) { return r.commands.Restart(t.Context(), "k", turn) }, true},
		{"over", "codex-spare operator running", func(turn string) (commands.Result, error) {
			return r.commands.Handoff(t.Context(), "k", turn, "codex-spare")
		}, false},
	} {
		turn := r.task(row.thread)
		r.await("the first agent and its item", func() bool {
			items, _ := r.store.OpenItems(t.Context(), row.thread)
			return r.marked("first") && len(r.agents()) >= 2 && len(items) == 1
		})
		old := r.agents()
		r.did(row.move(turn))
		r.await("the second agent", func() bool { return r.marked("second") })
		if left := slices.DeleteFunc(slices.Clone(old), func(pid int) bool { return !alive(pid) }); len(left) > 0 {
			t.Errorf("%s: the second agent runs beside %v", row.thread, left)
		}
		items, err := r.store.OpenItems(t.Context(), row.thread)
		if err != nil || (len(items) == 1) != row.inherits {
			t.Errorf("%s: open items %+v, %v", row.thread, items, err)
		}
		r.comes(turn+".2", turns.Running)
		if got := r.states(turn); len(got) != 2 || got[1] != row.story {
			t.Errorf("%s: attempts %v", row.thread, got)
		}
		r.mark("go")
		r.await("the end", func() bool { return !r.turn(turn).State.Open() })
		if items, _ := r.store.OpenItems(t.Context(), row.thread); len(items) > 0 {
			t.Errorf("%s: left open %+v", row.thread, items)
		}
		for _, m := range []string{"first", "second", "go"} {
			r.forget(m)
		}
		if n := r.turn(turn).Opened; n != 0 {
			t.Errorf("%s: %d attempts count against the budget", row.thread, n)
		}
	}
}

// A command agent has no steer: that is answered, and the text is the next human
// message, once. Commands that saw another attempt are refused.
func TestSteerACommandAgent(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{limits: longLease})
	r.rules(rule{Role: "owner", Times: 1, Steps: []string{"accepted", "mark up", "wait go", "result done"}})
	r.startAll()
	turn := r.task("talk")
	r.await("the agent", func() bool { return r.marked("up") })
	r.did(r.commands.Steer(t.Context(), "k", turn, "use the new API"))
	r.await("the answer", func() bool {
		asks, _ := r.store.Asks(t.Context(), turn, 0)
		return len(asks) == 1 && strings.HasPrefix(asks[0].Answer, "not taken: a command agent can't take a steer")
	})
	if _, err := r.commands.Steer(t.Context(), "k2", turn+".2", "no"); kind(err) != commands.NotFound {
		t.Errorf("steered an attempt that is not: %v", err)
	}
	r.mark("go")
	p := r.rests("talk", turns.PairCompleted)
	heard := 0
	for _, e := range r.runs(of("talk")) {
		if e.Role == "owner" && strings.Contains(e.Prompt, "use the new API") {
			heard++
			if e.Intent != "follow-up" {
				t.Errorf("heard as %s", e.Intent)
			}
		}
	}
	if heard != 1 {
		t.Errorf("%d owner turns heard the text (%d turns)", heard, p.Turns)
	}
	if _, err := r.commands.Steer(t.Context(), "k3", turn, "late"); kind(err) != commands.Conflict {
		t.Errorf("steered what has ended: %v", err)
	}
}

// An agent's question is listed, answered, and the answer reaches the live run.
func TestRequestIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t, solo(longLease, "codex-main"))
	script := filepath.Join(r.dir, "play.json")
	play := `{"do":[{"accept":true},{"item":"may-1","kind":"request","state":"open","title":"may I delete it?"},{"answer":"may-1"},{"result":"done","text":"deleted"}]}`
	r.ok(os.WriteFile(script, []byte(play), 0o600))
	r.configure("{agent: command, command: ["+quoted(program("puppet"), r.dir)+", codex-main]}", "{agent: scripted, script: "+script+"}")
	r.start("codex-main")
	turn := r.lone("ask", turns.Owner)
	var list []commands.Request
	r.await("the question", func() bool { list, _ = r.commands.Requests(t.Context(), ""); return len(list) == 1 })
	if list[0].ID != turn+":may-1" || list[0].Text != "may I delete it?" {
		t.Errorf("asked %+v", list[0])
	}
	if _, err := r.commands.Respond(t.Context(), "k0", turn+":nobody", "yes"); kind(err) != commands.NotFound {
		t.Errorf("answered what nobody asked: %v", err)
	}
	r.did(r.commands.Respond(t.Context(), "k", "may-1", "yes"))
	if u := r.ends(turn); u.State != turns.Completed {
		t.Errorf("%s is %s", turn, u.State)
	}
	if list, _ = r.commands.Requests(t.Context(), "ask"); len(list) != 0 {
		t.Errorf("still asked: %+v", list)
	}
	if _, err := r.commands.Respond(t.Context(), "k1", turn+":may-1", "no"); kind(err) != commands.NotFound {
		t.Errorf("answered twice: %v", err)
	}
}

func quoted(words ...string) string {
	for i, w := range words {
		words[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(words, ", ")
}

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hibiken/asynq"

	"rota/commands"
	"rota/internal/redistest"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// What only a person can settle runs the configured command, once, with the reason.
func TestEscalation(t *testing.T) {
	t.Parallel()
	r := newRig(t, solo(shortLimits, "codex-main"))
	file := filepath.Join(r.dir, "mail")
	r.configure("services:\n", fmt.Sprintf("escalate: [/bin/sh, -c, %q]\nservices:\n", "cat >> "+file+"; echo \" $ROTA_TURN\" >> "+file))
	r.rules(rule{Steps: []string{"accepted", "error config no such model", "exit 1"}})
	r.start("codex-main")
	turn := r.task("help")
	r.rests("help", turns.NeedsHuman)
	r.await("the mail", func() bool { b, _ := os.ReadFile(file); return strings.HasSuffix(string(b), " "+turn+"\n") })
	text, _ := os.ReadFile(file)
	var told map[string]string
	if err := json.Unmarshal([]byte(strings.TrimSuffix(string(text), " "+turn+"\n")), &told); err != nil || told["thread"] != "help" || told["turn"] != turn ||
		told["status"] != "needs_human" || told["reason"] == "" {
		t.Errorf("told %s, %v", text, err)
	}
	rows, err := r.commands.Ls(t.Context(), commands.Filter{NeedsHuman: true})
	if err != nil || len(rows) != 1 || rows[0].ID != turn {
		t.Errorf("needs a human: %+v, %v", rows, err)
	}
	// Retry takes the same role again; the second failure is told too.
	r.did(r.commands.Retry(t.Context(), "k", turn))
	r.await("the second mail", func() bool { b, _ := os.ReadFile(file); return strings.HasSuffix(string(b), " help/2\n") })
	if u := r.turn("help/2"); u.Role != turns.Owner || u.RetryOf != turn {
		t.Errorf("retried as %+v", u)
	}
}

// Also the guard of a killed worker asks people, when it ends the turn: nobody else
// is left to do it.
func TestEscalationByTheGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t, solo("{lease: 20s, start: 20s, silence: 50s, run: 60s, grace: 1s, losses: 1}", "codex-main"))
	file := filepath.Join(r.dir, "mail")
	r.configure("services:\n", fmt.Sprintf("escalate: [/bin/sh, -c, %q]\nservices:\n", "echo $ROTA_TURN >> "+file))
	r.rules(rule{Steps: []string{"accepted", "mark up", "hang"}})
	turn := r.task("dies")
	for range 2 {
		w := r.start("codex-main")
		r.await("the agent", func() bool { return r.marked("up") })
		r.forget("up")
		w.kill9()
	}
	r.await("the mail", func() bool { b, _ := os.ReadFile(file); return string(b) == turn+"\n" })
	if u := r.turn(turn); u.State != turns.Failed || u.Class != turns.ClassLost {
		t.Errorf("%s is %s (%s)", turn, u.State, u.Class)
	}
	r.story(turn, "codex-main initial lost", "codex-main lost lost")
}

// Redis restarts between a command and its effect: the stored command is the truth.
func TestRedisRestartsAfterACommand(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{roles: map[string][]string{"owner": {"codex-main"}}, limits: "{lease: 6s, start: 10s, silence: 50s, run: 60s, grace: 1s}",
		services: map[string]string{"codex-main": "concurrency: 2"}, redis: []redistest.Option{redistest.AppendOnly(), redistest.AppendFsync("always")}})
	r.rules(rule{Steps: []string{"accepted", "tools", "deaf", "spawn", "hang"}})
	w := r.start("codex-main")
	r.commands.Hurry = nil // nobody is told: the renewal brings it
	stop, ask := r.task("stop"), r.task("ask")
	r.comes(stop+".1", turns.Running)
	r.comes(ask+".1", turns.Running)
	w.signal(syscall.SIGSTOP) // no renewal comes in between
	r.did(r.commands.Cancel(t.Context(), "k", stop))
	r.did(r.commands.Interrupt(t.Context(), "k", ask))
	r.redis.Kill9()
	r.redis.Restart()
	w.signal(syscall.SIGCONT)
	for _, turn := range []string{stop, ask} {
		r.await("the end of "+turn, func() bool {
			u, err := r.store.Turn(t.Context(), turn)
			return err == nil && u.State == turns.Cancelled
		})
	}
	r.await("the agents' end", func() bool { return len(r.agents()) == 0 })
	r.await("free threads", func() bool { return r.thread("stop").Hold == 0 && r.thread("ask").Hold == 0 })
}

// A control task that no agent needs is done; a broken one is a warning in the log
// and the metric of its worker.
func TestControlQueueOfAWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t, solo(shortLimits, "codex-main")).hurried()
	w := r.start("codex-main")
	turn := r.task("keep")
	r.rests("keep", turns.NeedsHuman) // no reviewer is configured
	done := func(o commands.Ordered, err error) string {
		r.ok(err)
		var failed string
		controls := tasks.NewControls(r.rdb)
		r.await(o.Text, func() (done bool) { done, failed, _ = controls.Done(o.Type, o.Upkeep); return done })
		return failed
	}
	if failed := done(r.commands.Capture(t.Context(), "k1", "keep")); failed != "" {
		t.Error(failed)
	}
	if failed := done(r.commands.Rollback(t.Context(), "k2", "keep", "1")); failed != "" {
		t.Error(failed)
	}
	if failed := done(r.commands.Rollback(t.Context(), "k3", "keep", "99")); !strings.HasPrefix(failed, "no such checkpoint") {
		t.Errorf("rolled back to what is not: %q", failed)
	}
	r.await("the warning", func() bool { return w.logged("control task is a dead letter", "checkpoint:rollback", "WARN") })
	if n := w.metric(`rota_dead_letters_total{done="warn",service="codex-main",type="checkpoint:rollback"}`); n != "1" {
		t.Errorf("the metric says %q", n)
	}
	// A person's request to a run that is nowhere.
	r.ok(tasks.NewControls(r.rdb).Hurry(t.Context(), turns.Attempt{ID: turn + ".1", Turn: turn, Service: "codex-main"}, "steer", "k"))
	r.await("an empty control queue", func() bool {
		info, err := r.inspect.GetQueueInfo("codex-main.control")
		return err == nil && info.Pending+info.Active+info.Retry == 0
	})
	if failed := done(r.commands.Cleanup(t.Context(), "k4", "keep")); failed != "" {
		t.Error(failed)
	}
	if u := r.turn(turn); u.State != turns.Completed {
		t.Errorf("the turn was touched: %s", u.State)
	}
}

// Data or a message of a newer program: the worker does not start on the one, and
// leaves the other alone.
func TestNewerVersions(t *testing.T) {
	t.Parallel()
	r := newRig(t, solo(shortLimits, "codex-main"))
	w := r.start("codex-main")
	r.commands.Hand = nil
	turn := r.task("later")
	e := r.entry(turn + ".1")
	p := tasks.PayloadOf(e)
	p.Version++
	_, err := r.client().Enqueue(asynq.NewTask(string(tasks.TurnStart), p.Encode()), asynq.Queue("codex-main"), asynq.TaskID(e.Attempt))
	r.ok(err)
	r.await("the polite refusal", func() bool {
		return w.metric(`rota_messages_refused_total{cause="version",service="codex-main"}`) != ""
	})
	if info, err := r.inspect.GetTaskInfo("codex-main", e.Attempt); err == nil && info.Retried > 0 {
		t.Errorf("it counts: retried %d", info.Retried)
	}
	archived, err := r.inspect.ListArchivedTasks("codex-main")
	if err != nil || len(archived) > 0 {
		t.Errorf("archived %v, %v", archived, err)
	}
	if u := r.turn(turn); u.State != turns.Queued {
		t.Errorf("the turn is %s", u.State)
	}
	r.did(r.commands.Cancel(t.Context(), "k", turn))
	// It is counted before asynq has put the task back.
	r.await("the refused task to rest", func() bool { return r.inspect.DeleteTask("codex-main", e.Attempt) == nil })

	version := fmt.Sprint(store.Version + 1)
	was := r.rdb.HGet(t.Context(), "rota:meta", "version").Val()
	r.ok(r.rdb.HSet(t.Context(), "rota:meta", "version", version).Err())
	code, log := r.refuses("codex-main")
	r.ok(r.rdb.HSet(t.Context(), "rota:meta", "version", was).Err())
	if code != 78 || !strings.Contains(log, "version") {
		t.Errorf("a worker on newer data ended with %d:\n%s", code, log)
	}
}

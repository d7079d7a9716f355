package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"rota/tasks"
	"rota/turns"
)

// entry is what the relay handed to asynq for a queued attempt.
func (r *rig) entry(attempt string) turns.OutboxEntry {
	r.t.Helper()
	w, err := r.store.Waiter(r.t.Context(), attempt)
	if err != nil {
		r.t.Fatal(err)
	}
	return w.Entry
}

// push puts a message into a queue by hand, and waits until it is dealt with. It
// returns what asynq says of it then; nil when it is gone.
func (r *rig) push(queue, id string, payload []byte) *asynq.TaskInfo {
	r.t.Helper()
	client := asynq.NewClientFromRedisClient(r.rdb)
	if _, err := client.Enqueue(asynq.NewTask(string(tasks.TurnStart), payload), asynq.Queue(queue), asynq.TaskID(id)); err != nil {
		r.t.Fatal(err)
	}
	r.rdb.Publish(r.t.Context(), tasks.WakeChannel(queue), id)
	var found *asynq.TaskInfo
	r.await("message "+id+" to be dealt with", func() bool {
		at, err := r.inspect.GetTaskInfo(queue, id)
		found = nil
		if err != nil {
			return true
		}
		found = at
		return at.State == asynq.TaskStateArchived
	})
	return found
}

// Promise 2: the owner's runtime never claims a reviewer attempt that is meant for
// codex-review, also when a copy of its task is pushed into its queue by hand.
func TestPromise2(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{roles: map[string][]string{"owner": {"codex-main"}, "reviewer": {"codex-review"}}})
	main := r.start("codex-main")
	r.task("mine")
	r.ends("mine/1")
	r.comes("mine/2.1", turns.Queued)
	before := r.attempt("mine/2.1")
	entry := r.entry("mine/2.1")

	// Its right task is lost; what is pushed into the owner's queue is refused.
	r.await("the right task", func() bool { _, err := r.inspect.GetTaskInfo("codex-review", "mine/2.1"); return err == nil })
	if err := r.inspect.DeleteTask("codex-review", "mine/2.1"); err != nil {
		t.Fatal(err)
	}
	mine := tasks.PayloadOf(entry)
	mine.Service = "codex-main"
	for id, payload := range map[string][]byte{"copy": tasks.PayloadOf(entry).Encode(), "renamed": mine.Encode()} {
		if got := r.push("codex-main", id, payload); got == nil || !tasks.Refused(got) {
			t.Fatalf("%s: %+v", id, got)
		}
	}
	after := r.attempt("mine/2.1")
	after.Due, after.Looks = before.Due, before.Looks
	if after.State != turns.Queued || after.Run != before.Run || after.Deliveries != 0 || len(r.runs(role("reviewer"))) != 0 {
		t.Fatalf("the attempt was touched: %+v", after)
	}
	if n := main.count("message refused", `"cause":"service"`, `"payload_role":"reviewer"`, `"target_service":"codex-review"`); n != 2 {
		t.Errorf("%d refusals logged, want 2\n%s", n, main.tail())
	}
	if got := main.metric(`rota_messages_refused_total{cause="service",service="codex-main"}`); got != "2" {
		t.Errorf("counted %q refusals, want 2", got)
	}
	r.await("the right task to be issued again", func() bool { _, err := r.inspect.GetTaskInfo("codex-review", "mine/2.1"); return err == nil })

	r.start("codex-review")
	r.rests("mine", turns.PairCompleted)
	r.story("mine/2", "codex-review initial completed")
	if runs := r.runs(role("reviewer")); len(runs) != 1 || runs[0].Service != "codex-review" {
		t.Fatalf("reviews: %+v", runs)
	}
}

// Promise 5: no path turns an attempt whose role can't be resolved into an owner's.
// A message that contradicts the stored turn is refused and harms nothing.
func TestPromise5(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{services: map[string]string{"claude": "concurrency: 2"}})
	r.rules(rule{Role: "reviewer", Times: 1, Steps: []string{"accepted", "mark reviewing", "wait go", "result approve"}})
	claude := r.start("claude")
	r.start("codex-main")
	r.task("one")
	r.await("the review", func() bool { return r.marked("reviewing") })
	stored := r.attempt("one/2.1")
	right := tasks.Payload{Version: 1, Thread: "one", Turn: "one/2", Attempt: "one/2.1", Role: turns.Reviewer, Intent: turns.Review,
		Service: "claude", Stamp: stored.Stamp}
	final := r.attempt("one/1.1")
	n := 0
	for name, change := range map[string]func(*tasks.Payload){
		"no role":         func(p *tasks.Payload) { p.Role = "" },
		"unknown role":    func(p *tasks.Payload) { p.Role = "boss" },
		"another role":    func(p *tasks.Payload) { p.Role, p.Intent = turns.Owner, turns.FollowUp },
		"another intent":  func(p *tasks.Payload) { p.Intent = turns.Arbitrate },
		"another service": func(p *tasks.Payload) { p.Service = "codex-review" },
		"another stamp":   func(p *tasks.Payload) { p.Stamp = "0123456789abcdef" },
		"unknown turn":    func(p *tasks.Payload) { p.Turn, p.Attempt = "one/9", "one/9.1" },
		"unknown attempt": func(p *tasks.Payload) { p.Attempt = "one/2.7" },
		"unknown thread":  func(p *tasks.Payload) { p.Thread, p.Turn, p.Attempt = "nowhere", "nowhere/1", "nowhere/1.1" },
		"final, as claude": func(p *tasks.Payload) {
			p.Turn, p.Attempt, p.Role, p.Intent, p.Stamp = "one/1", "one/1.1", turns.Owner, turns.Work, final.Stamp
		},
	} {
		n++
		p := right
		change(&p)
		got := r.push("claude", fmt.Sprintf("by-hand-%d", n), p.Encode())
		if got == nil || !tasks.Refused(got) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := claude.count("message refused", `"payload_role"`, `"stored_role"`, `"intent"`, `"service"`, `"target_service"`, `"cause"`, `"attempt"`); got != n {
		t.Errorf("%d refusals logged with all fields, want %d\n%s", got, n, claude.tail())
	}
	// The same message as the right one, in its own queue: a second delivery is busy.
	if got := r.push("claude", "second", right.Encode()); got != nil {
		t.Errorf("the second delivery became %+v", got)
	}
	// A right message for a final attempt does nothing.
	done := tasks.Payload{Version: 1, Thread: "one", Turn: "one/1", Attempt: "one/1.1", Role: turns.Owner, Intent: turns.Work, Service: "codex-main", Stamp: final.Stamp}
	if got := r.push("codex-main", "late", done.Encode()); got != nil {
		t.Errorf("the late message became %+v", got)
	}
	if now := r.attempt("one/2.1"); now.Run != stored.Run || now.State != turns.Running || now.Deliveries != 1 {
		t.Fatalf("the attempt was touched: %+v", now)
	}
	if runs := r.runs(nil); len(runs) != 2 {
		t.Fatalf("%d runs, want the owner's and the reviewer's", len(runs))
	}
	r.mark("go")
	r.rests("one", turns.PairCompleted)
}

// Promise 5, the other half: a stored turn that can't be resolved is ended visibly
// and nothing is executed.
func TestPromise5FailsClosed(t *testing.T) {
	t.Parallel()
	for name, corrupt := range map[string][2]string{
		"no role":            {"turn", "role="},
		"unknown role":       {"turn", "role=boss"},
		"role and intent":    {"turn", "role=owner"},
		"unknown intent":     {"turn", "intent=sing"},
		"service of nobody":  {"turn", "services=codex-main"},
		"role becomes owner": {"turn", "intent=work"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, setup{})
			r.start("codex-main")
			r.task("one")
			r.comes("one/2.1", turns.Queued)
			field, value, _ := strings.Cut(corrupt[1], "=")
			if err := r.rdb.HSet(t.Context(), r.key("one", "turn:one/2"), field, value).Err(); err != nil {
				t.Fatal(err)
			}
			claude := r.start("claude")
			u := r.ends("one/2")
			if u.State != turns.Failed || u.Class != turns.ClassUnresolvable || u.Error == "" {
				t.Fatalf("%s %s %q", u.State, u.Class, u.Error)
			}
			r.rests("one", turns.NeedsHuman)
			if n := len(r.runs(nil)); n != 1 {
				t.Fatalf("%d runs, want the first owner's only", n)
			}
			if !claude.tells("stored turn can't be resolved", `"attempt":"one/2.1"`, `"stored_role"`, `"payload_role":"reviewer"`) {
				t.Errorf("not logged:\n%s", claude.tail())
			}
			// The record stays as corrupt as it was made; verify would say so for ever.
			if _, err := r.commands.Remove(t.Context(), "", "one"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

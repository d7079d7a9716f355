package agenttest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/agents"
	"rota/turns"
)

// NewTask returns a task of a role with a workspace of its own.
func NewTask(t *testing.T, role turns.Role) agents.Task {
	t.Helper()
	intent, err := turns.FirstIntent(role)
	if err != nil {
		t.Fatal(err)
	}
	return agents.Task{
		Thread: "fix-login", Turn: "fix-login/3", Attempt: "fix-login/3.1", Role: role, Intent: intent, Fence: 42,
		Prompt: Prompt, Workspace: t.TempDir(), WantVerdict: true, Outcomes: turns.Outcomes(role),
		ReadOnly: role != turns.Owner,
	}
}

// Run puts an adapter through the suite.
func Run(t *testing.T, s Subject) {
	for _, story := range []struct {
		name string
		tell func(*testing.T, Subject)
	}{
		{"a turn completes", completes},
		{"the prompt goes in by standard input", promptByStdin},
		{"progress and items are heard live", live},
		{"a session is kept and resumed", sessions},
		{"the end of the context kills the tree and is the cause", cancelled},
		{"an empty answer is no answer", empty},
		{"a crash after the answer is a crash", crash},
		{"verdicts pass through", verdicts},
		{"a reporter's error ends the run", refused},
		{"silence is a stall", stall},
		{"the role is visible in the switches", roles},
		{"under a guard", guarded},
	} {
		t.Run(story.name, func(t *testing.T) { story.tell(t, s) })
	}
}

// wantOrder checks what holds for every run: accepted at most once, and for a
// success exactly once.
func wantOrder(t *testing.T, seen Seen, success bool) {
	t.Helper()
	if seen.Accepted > 1 || success && seen.Accepted != 1 {
		t.Errorf("accepted %d times: %q", seen.Accepted, seen.Order)
	}
}

func succeed(t *testing.T, a agents.Agent, task agents.Task, r *Recorder) agents.Result {
	t.Helper()
	result, err := a.Run(t.Context(), task, r)
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	wantOrder(t, r.Seen(), true)
	return result
}

func wantClass(t *testing.T, err error, class turns.Class) {
	t.Helper()
	if err == nil {
		t.Fatalf("success, want %s", class)
	}
	if f := turns.FailureOf(err); f.Class != class {
		t.Errorf("class %s, want %s: %v", f.Class, class, err)
	}
}

func completes(t *testing.T, s Subject) {
	r := &Recorder{}
	result := succeed(t, s.New(t, Script{Scenario: Answers, Outcome: turns.Done}), NewTask(t, turns.Owner), r)
	if !strings.Contains(result.Text, Answer) || result.Interrupted {
		t.Errorf("result %+v", result)
	}
}

func promptByStdin(t *testing.T, s Subject) {
	if s.InProcess {
		t.Skip("no program")
	}
	task := NewTask(t, turns.Owner)
	task.Prompt += strings.Repeat(" More words.", 20<<10) // more than a pipe holds
	succeed(t, s.New(t, Script{Scenario: Answers, Outcome: turns.Done}), task, &Recorder{})
	call := ReadCall(t, task.Workspace)
	if !strings.Contains(call.Stdin, task.Prompt) {
		t.Errorf("the prompt is not in the standard input of %d bytes", len(call.Stdin))
	}
	for _, where := range append(call.Args, call.Env...) {
		if strings.Contains(where, Prompt) {
			t.Errorf("the prompt is in %.200q", where)
		}
	}
	for name, want := range map[string]string{"ROTA_THREAD": "fix-login", "ROTA_TURN": "fix-login/3",
		"ROTA_ATTEMPT": "fix-login/3.1", "ROTA_ROLE": "owner", "ROTA_INTENT": "work", "ROTA_FENCE": "42",
		"ROTA_WORKSPACE": task.Workspace} {
		if got := call.Getenv(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func live(t *testing.T, s Subject) {
	task, r := NewTask(t, turns.Owner), &Recorder{}
	a := s.New(t, Script{Scenario: Waits, Outcome: turns.Done})
	done := make(chan error, 1)
	go func() {
		_, err := a.Run(t.Context(), task, r)
		done <- err
	}()
	r.Wait(t, "accepted", func(seen Seen) bool { return seen.Accepted == 1 })
	r.Wait(t, "progress", func(seen Seen) bool {
		return slices.ContainsFunc(seen.Texts, func(text string) bool { return strings.Contains(text, Progress) })
	})
	if !s.NoItems {
		r.Wait(t, "the open tool", func(seen Seen) bool { return len(seen.Items) > 0 })
		item := r.Seen().Items[0]
		if item.ID == "" || item.Kind != turns.ItemTool || item.State != turns.ItemOpen || item.Thread != task.Thread {
			t.Errorf("item %+v", item)
		}
		if !slices.Contains(r.Seen().Levels, turns.ProgressTools) {
			t.Errorf("a tool was opened and the progress is %q", r.Seen().Levels)
		}
	}
	if err := os.WriteFile(filepath.Join(task.Workspace, goFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if seen := r.Seen(); !s.NoItems && seen.Items[len(seen.Items)-1].State != turns.ItemCompleted {
		t.Errorf("items %+v", seen.Items)
	}
	wantOrder(t, r.Seen(), true)
}

func sessions(t *testing.T, s Subject) {
	if s.NoSession {
		t.Skip("no sessions")
	}
	task, r := NewTask(t, turns.Owner), &Recorder{}
	first := succeed(t, s.New(t, Script{Scenario: Answers, Outcome: turns.Done}), task, r)
	if first.Session == "" || !slices.Contains(r.Seen().Sessions, first.Session) {
		t.Fatalf("session %q, heard %q", first.Session, r.Seen().Sessions)
	}
	task.Session = first.Session
	again := succeed(t, s.New(t, Script{Scenario: Answers, Outcome: turns.Done, Session: first.Session}), task, &Recorder{})
	if again.Session != first.Session {
		t.Errorf("session %q, want %q", again.Session, first.Session)
	}
	if s.Resumed != nil && !s.Resumed(ReadCall(t, task.Workspace), first.Session) {
		t.Errorf("not resumed by %q", ReadCall(t, task.Workspace).Args)
	}
}

// hang runs a program that hangs and returns once its tool is up.
func hang(t *testing.T, ctx context.Context, s Subject, task agents.Task, r *Recorder) (end <-chan error, tree []int) {
	t.Helper()
	a, done := s.New(t, Script{Scenario: Hangs}), make(chan error, 1)
	go func() {
		_, err := a.Run(ctx, task, r)
		done <- err
	}()
	r.Wait(t, "accepted", func(seen Seen) bool { return seen.Accepted == 1 })
	if !s.InProcess {
		file := filepath.Join(task.Workspace, toolFile)
		Until(t, "the tool is up", func() bool { _, err := os.Stat(file); return err == nil })
		read(t, file, &tree)
	}
	return done, tree
}

func wantDead(t *testing.T, tree []int) {
	t.Helper()
	for _, pid := range tree {
		Until(t, "the whole tree is dead", func() bool { return dead(pid) })
	}
}

// dead reports whether a process is gone or only waits to be collected.
func dead(pid int) bool {
	if syscall.Kill(pid, 0) == syscall.ESRCH {
		return true
	}
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(state, "Z")
}

func cancelled(t *testing.T, s Subject) {
	cause := errors.New("cancelled by a person")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	end, tree := hang(t, ctx, s, NewTask(t, turns.Owner), &Recorder{})
	cancel(cause)
	if err := <-end; !errors.Is(err, cause) {
		t.Errorf("run: %v, want the cause", err)
	}
	wantDead(t, tree)
}

func empty(t *testing.T, s Subject) {
	r := &Recorder{}
	_, err := s.New(t, Script{Scenario: Empty}).Run(t.Context(), NewTask(t, turns.Owner), r)
	wantClass(t, err, turns.ClassEmpty)
	wantOrder(t, r.Seen(), false)
}

func crash(t *testing.T, s Subject) {
	r := &Recorder{}
	result, err := s.New(t, Script{Scenario: Crashes, Outcome: turns.Done}).Run(t.Context(), NewTask(t, turns.Owner), r)
	wantClass(t, err, turns.ClassCrash)
	if result.Text != "" || result.Outcome != "" {
		t.Errorf("a result came with the crash: %+v", result)
	}
	wantOrder(t, r.Seen(), false)
}

func verdicts(t *testing.T, s Subject) {
	for role, outcome := range map[turns.Role]turns.Outcome{
		turns.Owner: turns.DoneWithConcerns, turns.Reviewer: turns.Changes, turns.Arbiter: turns.Escalate,
	} {
		result := succeed(t, s.New(t, Script{Scenario: Answers, Outcome: outcome}), NewTask(t, role), &Recorder{})
		if result.Outcome != outcome && (s.Verdict == nil || !strings.Contains(result.Text, s.Verdict(outcome))) {
			t.Errorf("%s said %s: result %+v", role, outcome, result)
		}
	}
}

func refused(t *testing.T, s Subject) {
	lost := errors.New("the fence is lost")
	r := &Recorder{Refuse: func() error { return lost }}
	task := NewTask(t, turns.Owner)
	_, err := s.New(t, Script{Scenario: Hangs}).Run(t.Context(), task, r)
	if !errors.Is(err, lost) {
		t.Errorf("run: %v, want the reporter's error", err)
	}
}

func stall(t *testing.T, s Subject) {
	task := NewTask(t, turns.Owner)
	task.Silence = 300 * time.Millisecond
	r := &Recorder{}
	_, err := s.New(t, Script{Scenario: Hangs}).Run(t.Context(), task, r)
	wantClass(t, err, turns.ClassStalled)
}

func roles(t *testing.T, s Subject) {
	if s.ReadOnly == nil {
		t.Skip("no switches")
	}
	for _, role := range turns.Roles {
		task := NewTask(t, role)
		succeed(t, s.New(t, Script{Scenario: Answers, Outcome: turns.Outcomes(role)[0]}), task, &Recorder{})
		call := ReadCall(t, task.Workspace)
		if s.ReadOnly(call) != task.ReadOnly {
			t.Errorf("%s: read-only %v, want %v: %q", role, !task.ReadOnly, task.ReadOnly, call.Args)
		}
	}
}

func guarded(t *testing.T, s Subject) {
	if s.InProcess {
		t.Skip("no program")
	}
	task := NewTask(t, turns.Owner)
	task.Lease = &agents.Lease{
		Until:   func() time.Time { return time.Now().Add(time.Hour) },
		Silence: time.Minute, Store: "test-" + turns.NewToken(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end, tree := hang(t, ctx, s, task, &Recorder{})
	cancel()
	if err := <-end; !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v", err)
	}
	for _, pid := range tree {
		if !dead(pid) {
			t.Errorf("process %d outlived the run", pid)
		}
	}
}

package guard_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rota/agents/guard"
	"rota/agents/process"
	"rota/turns"
)

func newStage(t *testing.T) stage {
	dir, err := os.MkdirTemp("", "stage-")
	if err != nil {
		t.Fatal(err)
	}
	s := stage{
		Dir: dir, Token: turns.NewToken(), Store: "test-" + turns.NewToken(),
		Lease: time.Hour, Silence: time.Hour, End: "wait",
	}
	t.Cleanup(func() {
		until(t, "the stage is empty", func() bool {
			for _, pid := range alive(s.Token) {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			return count(s.Token) == 0
		})
		// A guard may still be writing that it gave its run back.
		until(t, "the stage's folder is gone", func() bool { return os.RemoveAll(dir) == nil })
	})
	return s
}

// until waits for a state; the bound is for a broken build only.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (s stage) said(file string) string {
	b, _ := os.ReadFile(filepath.Join(s.Dir, file))
	return string(b)
}

func (s stage) up(t *testing.T) {
	t.Helper()
	until(t, "the whole tree is up", func() bool { return count(s.Token) == tree+1 })
}

func (s stage) wantGone(t *testing.T) {
	t.Helper()
	if n := count(s.Token); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

func (s stage) wantGivenBack(t *testing.T) {
	t.Helper()
	until(t, "the run is given back", func() bool { return s.said("given-back") != "" })
	if n := s.said("given-back"); n != "0" {
		t.Errorf("given back while %s processes lived", n)
	}
}

// worker starts a worker of its own that runs the stage's agent.
func (s stage) worker(t *testing.T) *os.Process {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self(), "worker", string(text))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process
}

// guardOf returns the guard above the stage's agent.
func (s stage) guardOf(t *testing.T, agent int) int {
	t.Helper()
	b, err := os.ReadFile("/proc/" + strconv.Itoa(agent) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	pid, err := strconv.Atoi(strings.Fields(rest)[1])
	if err != nil {
		t.Fatal(err)
	}
	if args, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); !strings.HasSuffix(string(args), "\x00guard\x00") {
		t.Fatalf("the agent's parent is %q", args)
	}
	return pid
}

func (s stage) agent(t *testing.T) int {
	t.Helper()
	for _, pid := range alive(s.Token) {
		if args, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"); strings.Contains(string(args), "\x00agent\x00") {
			return pid
		}
	}
	t.Fatal("no agent")
	return 0
}

func TestNothingIsLeftAfterANormalEnd(t *testing.T) {
	s := newStage(t)
	s.End = "exit"
	p, err := process.Start(t.Context(), s.spec())
	if err != nil {
		t.Fatal(err)
	}
	if line, err := p.ReadLine(); string(line) != "up" {
		t.Fatal(line, err)
	}
	if _, err := p.ReadLine(); err != io.EOF {
		t.Error(err)
	}
	if exit := p.Wait(); !exit.OK() {
		t.Errorf("exit %+v", exit)
	}
	s.wantGone(t)
}

func TestNothingIsLeftAfterTheContextEnds(t *testing.T) {
	s := newStage(t)
	cause := errors.New("cancelled by a person")
	ctx, cancel := context.WithCancelCause(t.Context())
	p, err := process.Start(ctx, s.spec())
	if err != nil {
		t.Fatal(err)
	}
	s.up(t)
	cancel(cause)
	if exit := p.Wait(); exit.Err != cause {
		t.Errorf("exit %+v", exit)
	}
	s.wantGone(t)
	if s.said("given-back") != "" {
		t.Error("a run whose worker lives was given back")
	}
}

func TestAKilledWorkersRunIsGivenBackAfterItsTreeIsGone(t *testing.T) {
	s := newStage(t)
	s.Refuse = 2
	w := s.worker(t)
	s.up(t)
	w.Kill()
	s.wantGivenBack(t)
	s.wantGone(t)
	if tries := strings.Count(s.said("tries"), "try"); tries != 3 {
		t.Errorf("%d tries to give back, want 3", tries)
	}
}

func TestAStoppedWorkersRunIsGivenBackAndTheWorkerFindsItGone(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Silence = 2 * time.Second
	w := s.worker(t)
	s.up(t)
	w.Signal(syscall.SIGSTOP)
	s.wantGivenBack(t)
	s.wantGone(t)
	w.Signal(syscall.SIGCONT)
	until(t, "the worker finds its run lost", func() bool { return s.said("worker") == "lost" })
}

func TestNoLaunchAfterTheLease(t *testing.T) {
	s := newStage(t)
	s.Lease, s.Stuck = -time.Second, true
	_, err := process.Start(t.Context(), s.spec())
	if err == nil || turns.FailureOf(err).Class != turns.ClassLost {
		t.Errorf("start: %v", err)
	}
	s.wantGone(t)
}

func TestALeaseThatIsNotRenewedEndsTheTree(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.Silence = 4 * time.Second
	spec := s.spec()
	var over atomic.Bool
	end := time.Now().Add(time.Hour)
	spec.Lease.Until = func() time.Time {
		if over.Load() {
			return time.Now().Add(-time.Second)
		}
		return end
	}
	p, err := process.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s.up(t)
	over.Store(true)
	if exit := p.Wait(); exit.Err == nil || turns.FailureOf(exit.Err).Class != turns.ClassLost {
		t.Errorf("exit %+v", exit)
	}
	s.wantGone(t)
	if s.said("given-back") != "" {
		t.Error("a run whose worker lives was given back")
	}
}

func TestTheAgentDiesWithItsGuard(t *testing.T) {
	s := newStage(t)
	p, err := process.Start(t.Context(), s.spec())
	if err != nil {
		t.Fatal(err)
	}
	s.up(t)
	agent := s.agent(t)
	syscall.Kill(s.guardOf(t, agent), syscall.SIGKILL)
	if exit := p.Wait(); exit.Err == nil || turns.FailureOf(exit.Err).Class != turns.ClassCrash {
		t.Errorf("exit %+v", exit)
	}
	// The two tools that dropped the marks and have no guard any more are the gap
	// that the package comment names.
	until(t, "only the unmarked tools are left", func() bool { return count(s.Token) == 2 })
}

func TestAStoppedGuardIsKilledWithItsTree(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := process.Start(ctx, s.spec())
	if err != nil {
		t.Fatal(err)
	}
	s.up(t)
	syscall.Kill(s.guardOf(t, s.agent(t)), syscall.SIGSTOP)
	cancel()
	if exit := p.Wait(); exit.Err != context.Canceled {
		t.Errorf("exit %+v", exit)
	}
	until(t, "only the unmarked tools are left", func() bool { return count(s.Token) == 2 })
}

func TestARunStaysGuardedUntilItIsSettled(t *testing.T) {
	s := newStage(t)
	s.End, s.Held = "exit", true
	w := s.worker(t)
	until(t, "the worker saw the agent's end", func() bool { return s.said("worker") == "ended by itself" })
	s.wantGone(t)
	if s.said("given-back") != "" {
		t.Fatal("given back before the worker died")
	}
	w.Kill()
	s.wantGivenBack(t)
}

func TestASettledRunIsNotGivenBack(t *testing.T) {
	s := newStage(t)
	l := s.lease()
	settled := make(chan struct{})
	l.Settled = settled
	spec := s.spec()
	spec.Lease = l
	p, err := process.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	s.up(t)
	pid := s.guardOf(t, p.PID())
	p.Interrupt()
	if exit := p.Wait(); exit.Signal != int(syscall.SIGINT) || exit.Err != nil {
		t.Errorf("exit %+v", exit)
	}
	if syscall.Kill(pid, 0) != nil {
		t.Fatal("the guard left before the run was settled")
	}
	close(settled)
	until(t, "the guard leaves", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	if s.said("given-back") != "" {
		t.Error("given back")
	}
}

func TestSweepLeftovers(t *testing.T) {
	// Worker and guard are killed at once; the tools live on.
	orphans := newStage(t)
	w := orphans.worker(t)
	orphans.up(t)
	g := orphans.guardOf(t, orphans.agent(t))
	syscall.Kill(g, syscall.SIGSTOP) // it must not see its worker's end
	w.Kill()
	syscall.Kill(g, syscall.SIGKILL)
	until(t, "the agent is dead", func() bool { return count(orphans.Token) == tree })

	// Another run of the same store is alive, guarded by another worker.
	live := newStage(t)
	live.Store = orphans.Store
	live.worker(t)
	live.up(t)

	if n, err := guard.SweepLeftovers(t.Context(), "another-store"); n != 0 || err != nil {
		t.Errorf("swept %d of another store, %v", n, err)
	}
	n, err := guard.SweepLeftovers(t.Context(), orphans.Store)
	if n != tree-2 || err != nil { // two have dropped the marks
		t.Errorf("swept %d, %v, want %d", n, err, tree-2)
	}
	if n := count(orphans.Token); n != 2 {
		t.Errorf("%d left-overs", n)
	}
	if n := count(live.Token); n != tree+1 {
		t.Errorf("the live run has %d processes, want %d", n, tree+1)
	}
}

package integration

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"rota/integration/processes"
	"rota/turns"
)

var lengths atomic.Int64

// length is a number of seconds that no other test on this machine sleeps.
func length() string { return fmt.Sprintf("%d.%d", 70000+lengths.Add(1), os.Getpid()) }

// asleep reports whether a process sleeps for so long.
func asleep(seconds string) bool {
	for _, p := range processes.All() {
		if p.Living() && strings.HasSuffix(p.Args, "sleep "+seconds) {
			return true
		}
	}
	return false
}

// Whatever ends a run, nothing of what its agent started outlives it: not a process
// that has left its session and its parent and carries no mark.
func TestTreeEndsWithItsRun(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*rig, *workerProcess, string){
		"done":          func(r *rig, _ *workerProcess, _ string) { r.mark("go") },
		"worker killed": func(_ *rig, w *workerProcess, _ string) { w.kill9() },
		"worker ends":   func(_ *rig, w *workerProcess, _ string) { w.stop() },
		"cancelled": func(r *rig, _ *workerProcess, turn string) {
			if _, err := r.commands.Cancel(r.t.Context(), "", turn); err != nil {
				r.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, oneService("", ""))
			seconds := length()
			r.rules(rule{Steps: []string{"deaf", "accepted", "orphan " + seconds, "mark at-work", "wait go", "result done"}})
			w := r.start("builder")
			turn := r.lone("one", turns.Owner)
			r.await("the run", func() bool { return r.marked("at-work") })
			r.await("the orphan", func() bool { return asleep(seconds) })
			end(r, w, turn)
			r.await("the tree to be gone", func() bool { return !asleep(seconds) && len(r.agents()) == 0 })
			if name != "done" {
				return
			}
			if u := r.ends(turn); u.State != turns.Completed {
				t.Errorf("%s %s", u.State, u.Error)
			}
		})
	}
}

// The guard alone is killed: its agent dies with it, the worker clears what is left,
// and the turn goes on after that.
func TestGuardKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("{lease: 6s, start: 20s, silence: 50s, run: 90s, grace: 1s}", ""))
	r.rules(
		rule{Times: 1, Steps: []string{"deaf", "accepted", "spawn", "mark first", "hang"}},
		rule{Steps: []string{"accepted", "mark second", "wait go", "result done"}})
	w := r.start("builder")
	turn := r.lone("one", turns.Owner)
	r.await("the run", func() bool { return r.marked("first") })
	first := r.runs(nil)[0]
	guards := w.guards()
	if len(guards) != 1 {
		t.Fatalf("guards: %v", guards)
	}
	if err := syscall.Kill(guards[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r.await("the second run", func() bool { return r.marked("second") })
	for _, p := range processes.All() {
		for _, v := range p.Env {
			if v == "ROTA_FENCE="+first.Fence && p.Living() {
				t.Errorf("process %d of the first run is beside the second", p.PID)
			}
		}
	}
	r.mark("go")
	if u := r.ends(turn); u.State != turns.Completed || u.Losses != 0 {
		t.Errorf("%s %s, %d losses", u.State, u.Error, u.Losses)
	}
}

// Redis is out of memory while a run ends: its end is written once there is room,
// with one effect; and what is asked meanwhile is refused as a whole.
func TestRedisIsOutOfMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("{lease: 20s, start: 20s, silence: 50s, run: 90s, grace: 1s}", ""))
	r.rules(rule{Steps: []string{"accepted", "mark at-work", "wait go", "result done"}})
	r.start("builder")
	turn := r.lone("one", turns.Owner)
	r.await("the run", func() bool { return r.marked("at-work") })
	r.comes(turn+".1", turns.Running)
	r.redis.ConfigSet("maxmemory", "1")
	if _, err := r.commands.Turn(t.Context(), turnAsk("two")); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("a turn was opened without memory: %v", err)
	}
	r.mark("go")
	r.await("the agent's end", func() bool { return len(r.agents()) == 0 })
	if s := r.turn(turn).State; s != turns.Running {
		t.Errorf("the turn is %s", s)
	}
	r.redis.ConfigSet("maxmemory", "0")
	if u := r.ends(turn); u.State != turns.Completed {
		t.Errorf("%s %s", u.State, u.Error)
	}
	if names, err := r.store.Threads(t.Context(), 0); err != nil || len(names) != 1 {
		t.Errorf("threads %v, %v", names, err)
	}
	if n := len(r.runs(nil)); n != 1 {
		t.Errorf("%d runs", n)
	}
}

package integration

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/integration/processes"
	"rota/turns"
)

const lastDelivery = "{lease: 2s, start: 20s, silence: 50s, run: 90s, grace: 1s, deliveries: 1, losses: 1}"

// The worker is killed with kill -9 on the last delivery. The guard gives the run
// back, so that the turn goes on in seconds; with its losses used it ends visibly.
func TestKilledOnTheLastDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService(lastDelivery, ""))
	r.rules(
		rule{Attempt: 1, Steps: []string{"deaf", "spawn", "accepted", "mark first", "hang"}},
		rule{Thread: "two", Attempt: 2, Steps: []string{"spawn", "accepted", "mark second", "hang"}})
	w := r.start("builder")
	one := r.lone("one", turns.Owner)
	r.await("the run", func() bool { return r.marked("first") })
	died := time.Now()
	w.kill9()
	r.comes(one+".1", turns.Lost)
	r.promised("the guard gave the run back", time.Since(died), 5*time.Second)
	w = r.start("builder")
	r.ends(one)
	r.story(one, "builder initial lost", "builder lost completed")

	// Once more, twice: no loss is left.
	r.forget("first")
	two := r.lone("two", turns.Owner)
	r.await("the run", func() bool { return r.marked("first") })
	w.kill9()
	w = r.start("builder")
	r.await("the second run", func() bool { return r.marked("second") })
	w.kill9()
	u := r.ends(two)
	r.story(two, "builder initial lost", "builder lost lost")
	if u.State != turns.Failed || u.Class != turns.ClassLost || u.Error == "" {
		t.Errorf("%s %s %q", u.State, u.Class, u.Error)
	}
	r.oneError(two, two+".2")
}

// The same with the guard killed too: the lease decides, within lease + 15 s.
func TestKilledWithItsGuard(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService(lastDelivery, ""))
	r.rules(
		rule{Attempt: 1, Steps: []string{"accepted", "spawn", "mark first", "hang"}},
		rule{Attempt: 2, Steps: []string{"accepted", "mark second", "hang"}})
	first := r.start("builder")
	turn := r.lone("one", turns.Owner)
	r.await("the run", func() bool { return r.marked("first") })
	died := time.Now()
	first.killWithGuards()
	second := r.start("builder")
	r.await("the second run", func() bool { return r.marked("second") })
	r.promised("the next run began", time.Since(died), 2*time.Second+15*time.Second)
	if living := r.agentsOf(turn + ".1"); len(living) > 0 {
		t.Errorf("agents of the first run beside the second: %v", living)
	}
	second.killWithGuards()
	r.start("builder")
	u := r.ends(turn)
	if u.State != turns.Failed || u.Class != turns.ClassLost {
		t.Errorf("%s %s", u.State, u.Class)
	}
	r.oneError(turn, turn+".2")
}

// A worker is stopped with SIGSTOP beyond its lease and continued later: its guard
// has ended the agent and given the run back, no successor acts beside it, and what
// the worker does afterwards changes nothing.
func TestStoppedBeyondItsLease(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("{lease: 2s, start: 20s, silence: 50s, run: 90s, grace: 1s, deliveries: 1}", ""))
	r.rules(
		rule{Attempt: 1, Steps: []string{"deaf", "spawn", "accepted", "mark first", "hang"}},
		rule{Attempt: 2, Steps: []string{"accepted", "mark second", "wait go", "result done"}})
	first := r.start("builder")
	turn := r.lone("one", turns.Owner)
	r.await("the run", func() bool { return r.marked("first") })
	first.signal(syscall.SIGSTOP)
	stopped := time.Now()
	second := r.start("builder")
	r.await("the second run", func() bool { return r.marked("second") })
	if living := r.agentsOf(turn + ".1"); len(living) > 0 {
		t.Errorf("agents of the first run beside the second: %v", living)
	}
	before := r.attempt(turn + ".2")
	r.await("the first run's lease to be long over", func() bool { return time.Since(stopped) > 2*turns.MinLease })
	first.signal(syscall.SIGCONT)
	r.await("the stopped worker to see it", func() bool {
		return first.logged("run ended from outside") || first.logged("write came too late") || first.logged("run failed")
	})
	if after := r.attempt(turn + ".2"); after.Run != before.Run || after.State != turns.Running {
		t.Errorf("the stopped worker made %+v of %+v", after, before)
	}
	r.mark("go")
	r.ends(turn)
	r.story(turn, "builder initial lost", "builder lost completed")
	if !second.tells("turn settled") {
		t.Errorf("the second worker did not settle:\n%s", second.tail())
	}
}

// agentsOf returns the living processes of one attempt.
func (r *rig) agentsOf(attempt string) []int {
	var list []int
	for _, p := range processes.All() {
		if p.Living() && slices.Contains(p.Env, "ROTA_ATTEMPT="+attempt) &&
			slices.ContainsFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, "ROTA_WORKSPACE="+r.dir) }) {
			list = append(list, p.PID)
		}
	}
	return list
}

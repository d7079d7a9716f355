package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/turns"
)

// Redis is silent for a while, shorter than the lease: no healthy run is ended, by
// its worker or by anybody's pass.
func TestRedisIsSilentForAWhile(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("{lease: 12s, start: 20s, silence: 50s, run: 90s, grace: 1s}", ""))
	r.rules(rule{Steps: []string{"accepted", "mark at-work", "wait go", "result done"}})
	w := r.start("builder")
	turn := r.lone("one", turns.Owner)
	r.await("the run", func() bool { return r.marked("at-work") })
	r.comes(turn+".1", turns.Running)
	r.redis.Pause()
	r.await("a renewal to fail", func() bool { return w.logged("leases not renewed") })
	r.redis.Continue()
	fence := r.attempt(turn + ".1").Fence
	lease := r.key("one", "leases")
	before := r.rdb.ZScore(t.Context(), lease, turn+".1").Val()
	r.await("a renewal", func() bool { return r.rdb.ZScore(t.Context(), lease, turn+".1").Val() > before })
	r.mark("go")
	if u := r.ends(turn); u.State != turns.Completed {
		t.Errorf("%s %s", u.State, u.Error)
	}
	r.story(turn, "builder initial completed")
	if a := r.attempt(turn + ".1"); a.Fence != fence || len(r.runs(nil)) != 1 {
		t.Errorf("fence %d became %d, %d runs", fence, a.Fence, len(r.runs(nil)))
	}
}

// A worker loses its way to Redis for longer than its lease: it ends its agent
// before the lease ends, another worker goes on, and what the first one does when
// the way is there again changes nothing.
func TestWorkerCutFromRedis(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*redistest.Link){"reset": (*redistest.Link).Cut, "black hole": (*redistest.Link).BlackHole} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, oneService("{lease: 3s, start: 20s, silence: 50s, run: 90s, grace: 1s}", ""))
			r.rules(
				rule{Attempt: 1, Steps: []string{"deaf", "spawn", "accepted", "mark first", "hang"}},
				rule{Attempt: 2, Steps: []string{"accepted", "mark second", "wait go", "result done"}})
			link := redistest.Proxy(t, r.redis.Addr)
			defer r.stopAll() // before the link is gone
			first := r.start("builder", "--redis", link.URL())
			turn := r.lone("one", turns.Owner)
			r.await("the run", func() bool { return r.marked("first") })
			fault(link)
			second := r.start("builder")
			r.await("the second run", func() bool { return r.marked("second") })
			if living := r.agentsOf(turn + ".1"); len(living) > 0 {
				t.Errorf("agents of the first run beside the second: %v", living)
			}
			link.Mend()
			r.await("the first worker to see it", func() bool {
				return first.logged("run failed", `"class":"lost"`) || first.logged("write came too late") || first.logged("run ended from outside")
			})
			r.mark("go")
			r.ends(turn)
			r.story(turn, "builder initial lost", "builder lost completed")
			if !second.tells("turn settled") {
				t.Errorf("the second worker did not settle:\n%s", second.tail())
			}
		})
	}
}

// Workers of one service are restarted one after the other, under one name: nothing
// is stranded, nothing is done twice, and no failure is counted.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("{lease: 6s, start: 20s, silence: 50s, run: 90s, grace: 1s}", "concurrency: 3"))
	r.rules(rule{Times: 3, Steps: []string{"accepted", "spawn", "hang"}})
	w := r.start("builder", "--name", "the-one")
	var list []string
	for _, thread := range []string{"a", "b", "c", "d", "e"} {
		list = append(list, r.lone(thread, turns.Owner))
	}
	r.await("three runs", func() bool { return len(r.runs(nil)) == 3 })
	w.stop()
	if left := r.agents(); len(left) > 0 {
		t.Errorf("agents outlived their worker: %v", left)
	}
	r.start("builder", "--name", "the-one")
	for _, turn := range list {
		if u := r.ends(turn); u.State != turns.Completed {
			t.Errorf("%s: %s %s", turn, u.State, u.Error)
		}
		r.story(turn, "builder initial completed")
		if a := r.attempt(turn + ".1"); a.Deliveries != 1 {
			t.Errorf("%s took %d deliveries; one that was given back does not count", turn, a.Deliveries)
		}
	}
	if n := len(r.runs(nil)); n != 8 {
		t.Errorf("%d runs, want 3 that were given back and 5", n)
	}
}

// A start that is slow but renewed is left alone, however many leases it takes; one
// that takes too long fails as a start, with its own limit.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{roles: map[string][]string{"owner": {"builder"}}, limits: "{lease: 2s, start: 7s, silence: 50s, run: 90s, grace: 1s, deliveries: 1}",
		services: map[string]string{"builder": "concurrency: 2"}})
	// A first line of JSON that is no known one keeps the prompt from being accepted.
	r.rules(
		rule{Thread: "slow", Steps: []string{`json {"type":"warming"}`, "wait warm", "accepted", "result done"}},
		rule{Thread: "never", Steps: []string{"hang"}})
	r.startAll()
	slow := r.lone("slow", turns.Owner)
	r.comes(slow+".1", turns.Starting)
	began := time.Now()
	r.await("two leases to pass", func() bool { return time.Since(began) > 2*turns.MinLease })
	if a := r.attempt(slow + ".1"); a.Number != 1 || !a.State.Open() {
		t.Errorf("the slow start is %s", a.State)
	}
	r.mark("warm")
	if u := r.ends(slow); u.State != turns.Completed {
		t.Errorf("%s %s", u.State, u.Error)
	}
	r.story(slow, "builder initial completed")
}

// Cancel ends a turn in every state within seconds, and what ends later changes
// nothing.
func TestCancelInEveryState(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{services: map[string]string{"codex-main": "concurrency: 3"}, limits: "{lease: 6s, start: 20s, silence: 50s, run: 90s, grace: 1s}"})
	r.rules(
		rule{Thread: "running", Steps: []string{"deaf", "accepted", "spawn", "tools", "mark running", "hang"}},
		rule{Thread: "between", Steps: []string{"error server try again"}},
		rule{Thread: "waiting", Steps: []string{"error auth token expired"}})
	queued := r.lone("queued", turns.Reviewer) // nobody serves it yet
	r.start("codex-main")
	running, between := r.lone("running", turns.Owner), r.lone("between", turns.Owner)
	r.await("the run", func() bool { return r.marked("running") })
	r.await("two failed deliveries", func() bool {
		return r.attempt(between+".1").Deliveries >= 2 && r.attempt(between+".1").State == turns.Queued
	})
	waiting := r.lone("waiting", turns.Owner)
	r.await("the wait for a login", func() bool { return slices.Contains(r.states(waiting), "codex-main wait queued") })
	for _, turn := range []string{queued, running, between, waiting} {
		if _, err := r.commands.Cancel(t.Context(), "", turn); err != nil {
			t.Errorf("cancel %s: %v", turn, err)
		}
		if u := r.turn(turn); u.State != turns.Cancelled || !strings.Contains(u.Reason, "cancelled") {
			t.Errorf("%s is %s (%s)", turn, u.State, u.Reason)
		}
	}
	r.await("the agent's tree to be gone", func() bool { return len(r.agents()) == 0 })
	r.await("the hold to be cleared", func() bool { return r.thread("running").Hold == 0 })
	runs := len(r.runs(nil))
	r.start("claude")
	r.await("asynq to be done with them", func() bool { return len(r.carried()) == 0 })
	for _, turn := range []string{queued, running, between, waiting} {
		if u := r.turn(turn); u.State != turns.Cancelled {
			t.Errorf("%s became %s", turn, u.State)
		}
	}
	if n := len(r.runs(nil)); n != runs {
		t.Errorf("%d runs after the cancel", n-runs)
	}
}

package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"rota/commands"
	"rota/tasks"
	"rota/turns"
)

// scale is the size of a story under load: the small one in a normal test, the
// whole one with ROTA_SCALE=full.
func scale(small, whole int) int {
	if os.Getenv("ROTA_SCALE") == "full" {
		return whole
	}
	return small
}

// Many running turns are cancelled at random moments of their runs: no process of
// any agent is left, and no turn ever runs again, whatever asynq delivers.
func TestCancelsAtRandomMoments(t *testing.T) {
	t.Parallel()
	n := scale(40, 200)
	r := newRig(t, solo(longLease, "codex-main"))
	r.configure("codex-main: {agent", "codex-main: {concurrency: 8, agent")
	r.rules(rule{Steps: []string{"spawn", "deaf", "accepted", "tools", "spawn", "hang"}})
	w := r.start("codex-main")
	list := make([]string, n)
	entries := make([]turns.OutboxEntry, n)
	for i := range n {
		res := r.did(r.commands.Turn(t.Context(), commands.TurnAsk{Thread: fmt.Sprintf("c-%d", i), Text: "work", Role: turns.Owner}))
		list[i], entries[i] = res.Turn, res.Entry
	}
	var all sync.WaitGroup
	was := make([]turns.State, n)
	for i, turn := range list {
		all.Go(func() {
			r.await("the claim of "+turn, func() bool { return r.turn(turn).State != turns.Queued })
			time.Sleep(rand.N(400 * time.Millisecond)) // the random moment
			was[i] = r.turn(turn).State
			if _, err := r.commands.Cancel(t.Context(), "k", turn); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	r.await("the last agent's end", func() bool { return len(r.agents()) == 0 })
	r.await("free threads", func() bool {
		for i := range list {
			if r.thread(fmt.Sprintf("c-%d", i)).Hold != 0 {
				return false
			}
		}
		return true
	})
	ran := len(r.runs(nil))
	for _, e := range entries {
		r.ok(tasks.Enqueue(t.Context(), r.client(), e, 1, nil))
	}
	r.await("the late tasks to be dealt with", func() bool {
		info, err := r.inspect.GetQueueInfo("codex-main")
		return err == nil && info.Pending+info.Active+info.Retry+info.Scheduled == 0
	})
	count, moments := map[string]int{}, map[turns.State]int{}
	for _, e := range r.runs(nil) {
		count[e.Turn]++
	}
	for i, turn := range list {
		u := r.turn(turn)
		if u.State != turns.Cancelled || u.Attempt != 1 || count[turn] > 1 {
			t.Errorf("%s is %s with %d attempts and ran %d times", turn, u.State, u.Attempt, count[turn])
		}
		moments[was[i]]++
	}
	if len(r.runs(nil)) != ran || w.ended() {
		t.Errorf("%d runs before the late tasks, %d after", ran, len(r.runs(nil)))
	}
	t.Logf("%d cancelled: %v; %d agents had begun", n, moments, ran)
}

// A rolling restart of every worker under load: nothing is lost, nothing is
// doubled, and no budget is touched. What does not end within the grace is given
// back.
func TestRollingRestartBurnsNothing(t *testing.T) {
	t.Parallel()
	n := scale(16, 60)
	r := newRig(t, setup{roles: map[string][]string{"owner": {"codex-main"}, "reviewer": {"claude"}},
		limits:   "{lease: 10s, start: 20s, silence: 50s, run: 60s, grace: 1s}",
		services: map[string]string{"codex-main": "concurrency: 2", "claude": "concurrency: 2"}})
	// The first two runs of these are longer than any grace.
	r.rules(rule{Thread: "t-0", Role: "owner", Times: 1, Steps: []string{"accepted", "deaf", "spawn", "mark long-owner", "hang"}},
		rule{Thread: "t-1", Role: "reviewer", Times: 1, Steps: []string{"accepted", "spawn", "mark long-reviewer", "hang"}})
	var old []*workerProcess
	for _, s := range []string{"codex-main", "codex-main", "claude", "claude"} {
		old = append(old, r.start(s))
	}
	for i := range n / 2 {
		r.task(fmt.Sprintf("t-%d", i))
	}
	r.await("the long runs", func() bool { return r.marked("long-owner") && r.marked("long-reviewer") })
	for i, w := range old {
		r.start(w.service)
		for k := range n / 8 { // more keeps coming
			r.task(fmt.Sprintf("t-%d", n/2+i*(n/8)+k))
		}
		w.stop()
	}
	starts := map[string]int{}
	total := n/2 + 4*(n/8)
	for i := range total {
		r.rests(fmt.Sprintf("t-%d", i), turns.PairCompleted)
	}
	for _, e := range r.runs(nil) {
		starts[e.Turn]++
	}
	given := 0
	for i := range total {
		thread := fmt.Sprintf("t-%d", i)
		if k := r.thread(thread).Turns; k != 3 {
			t.Errorf("%s took %d turns, want 3", thread, k)
		}
		for k := 1; k <= 3; k++ {
			u := r.turn(turns.TurnID(thread, k))
			a := r.attempt(turns.AttemptID(u.ID, u.Attempt))
			if u.Attempt != 1 || u.Opened+u.Losses+u.Reminders != 0 || a.Deliveries != 1 || a.Class != "" {
				t.Errorf("%s: %d attempts, %d opened, %d lost, %d deliveries, class %q", u.ID, u.Attempt, u.Opened, u.Losses, a.Deliveries, a.Class)
			}
			claims, back := 0, 0
			for _, e := range r.log(u.ID) {
				switch e.Verb {
				case turns.VerbClaim:
					claims++
				case turns.VerbRequeue:
					back++
				}
			}
			if claims != back+1 || starts[u.ID] > claims || starts[u.ID] == 0 {
				t.Errorf("%s: %d claims, %d given back, %d agents", u.ID, claims, back, starts[u.ID])
			}
			given += back
		}
	}
	if given < 2 {
		t.Errorf("%d runs were given back, want the two long ones at least", given)
	}
	t.Logf("%d tasks through a rolling restart of 4 workers, %d runs given back", total, given)
}

// Accepted messages survive workers that are killed and replaced all the time:
// every task finishes or ends visibly, every message is in exactly one turn or
// waits visibly.
func TestMessagesSurviveKills(t *testing.T) {
	t.Parallel()
	n := scale(60, 500) / 2
	r := newRig(t, setup{roles: map[string][]string{"owner": {"codex-main"}, "reviewer": {"claude"}},
		limits: "{lease: 2s, start: 20s, silence: 50s, run: 60s, grace: 1s}"})
	script := filepath.Join(r.dir, "play.json")
	r.ok(os.WriteFile(script, []byte(`{"role":"owner","do":[{"accept":true},{"wait":"250ms"},{"result":"done","text":"done"}]}
{"role":"reviewer","do":[{"accept":true},{"wait":"250ms"},{"result":"approve","text":"fine"}]}`), 0o600))
	for _, s := range r.services {
		r.configure("{agent: command, command: ["+quoted(program("puppet"), r.dir)+", "+s+"]}", "{agent: scripted, concurrency: 4, script: "+script+"}")
	}
	workers := map[string]*workerProcess{}
	for _, s := range []string{"codex-main", "claude"} {
		workers[s+"-1"], workers[s+"-2"] = r.start(s), r.start(s)
	}
	accepted := make([]bool, n)
	message := func(i int) string { return fmt.Sprintf("message %d of a person", i) }
	var say sync.WaitGroup
	say.Go(func() {
		for i := range n {
			thread := fmt.Sprintf("m-%d", i)
			if _, err := r.commands.Task(t.Context(), commands.TaskAsk{Thread: thread, Text: "work"}); err != nil {
				t.Error(err)
				return
			}
			_, err := r.commands.Reply(t.Context(), commands.ReplyAsk{Thread: thread, Text: message(i)})
			if err != nil && kind(err) != commands.Conflict { // the task may be completed already
				t.Error(err)
				return
			}
			accepted[i] = err == nil
			time.Sleep(rand.N(10 * time.Millisecond))
		}
	})
	kills, stops := 0, 0
	for round := range scale(3, 8) {
		for _, name := range []string{"codex-main-1", "claude-2", "codex-main-2", "claude-1"} {
			w := workers[name]
			workers[name] = r.start(w.service)
			if (round+len(name))%3 == 0 {
				w.stop()
				stops++
			} else {
				w.kill9()
				kills++
			}
		}
	}
	say.Wait()
	ended := map[turns.PairedStatus]int{}
	lost, heard, waiting := 0, 0, 0
	for i := range n {
		thread := fmt.Sprintf("m-%d", i)
		r.await(thread+" to end", func() bool {
			s := r.paired(thread).Status
			return s == turns.PairCompleted || s == turns.NeedsHuman
		})
		ended[r.paired(thread).Status]++
		in := 0
		for k := 1; k <= r.thread(thread).Turns; k++ {
			id := turns.TurnID(thread, k)
			lost += r.turn(id).Losses
			said, err := r.store.Said(t.Context(), id)
			r.ok(err)
			for _, m := range said {
				if strings.Contains(m.Text, message(i)) {
					in++
				}
			}
		}
		left, err := r.store.Waiting(t.Context(), thread)
		r.ok(err)
		if want := map[bool]int{true: 1}[accepted[i]]; in+len(left) != want {
			t.Errorf("%s: the message is in %d turns and waits %d times, want %d", thread, in, len(left), want)
		}
		heard, waiting = heard+in, waiting+len(left)
	}
	if heard == 0 || kills == 0 || lost == 0 {
		t.Errorf("%d messages heard, %d kills, %d runs lost: this was no test", heard, kills, lost)
	}
	t.Logf("%d tasks, %d kills, %d stops, %d runs lost on the way: ended %v; messages %d heard, %d wait", n, kills, stops, lost, ended, heard, waiting)
}

package integration

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
)

// asynq loses its lease under a healthy run, by hand or because another worker
// holds it for dead: the run goes on, and a second delivery is answered busy.
func TestLostAsynqLeaseDoesNotDisturbARun(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("", ""))
	r.rules(rule{Attempt: 1, Steps: []string{"accepted", "mark at-work", "wait go", "result done"}})
	first := r.start("builder")
	turn := r.lone("one", turns.Owner)
	r.await("the run", func() bool { return r.marked("at-work") })
	lease := "asynq:{builder}:lease"
	if n := r.rdb.ZAddXX(t.Context(), lease, redis.Z{Score: 1, Member: turn + ".1"}).Err(); n != nil {
		t.Fatal(n)
	}
	// Its recoverer looks once when it starts, and brings the task again.
	second := r.start("builder")
	r.await("the second delivery", func() bool { return second.logged("attempt not claimed", `"busy"`) })
	if err := r.rdb.ZRem(t.Context(), lease, turn+".1").Err(); err != nil {
		t.Fatal(err)
	}
	r.mark("go")
	if u := r.ends(turn); u.State != turns.Completed {
		t.Errorf("%s %s", u.State, u.Error)
	}
	r.story(turn, "builder initial completed")
	if n := len(r.runs(nil)); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
	if !first.tells("turn settled") {
		t.Errorf("the first worker did not settle:\n%s", first.tail())
	}
}

// asynq's lease entry is deleted in the middle of a dead letter, or Redis is away:
// it still settles cleanly, once.
func TestAsynqLeaseLostInADeadLetter(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{roles: map[string][]string{"owner": {"builder"}}, limits: "{lease: 6s, start: 20s, silence: 50s, run: 90s, grace: 1s, deliveries: 1}",
		services: map[string]string{"builder": "concurrency: 2"}})
	r.rules(rule{Thread: "entry", Steps: []string{"mark entry", "wait go", "exit 1"}}, rule{Thread: "away", Steps: []string{"mark away", "wait gone", "exit 1"}})
	r.startAll()
	entry := r.lone("entry", turns.Owner)
	r.await("the run", func() bool { return r.marked("entry") })
	if err := r.rdb.ZRem(t.Context(), "asynq:{builder}:lease", entry+".1").Err(); err != nil {
		t.Fatal(err)
	}
	r.mark("go")
	r.ends(entry)
	r.oneError(entry, entry+".1")

	away := r.lone("away", turns.Owner)
	r.await("the run", func() bool { return r.marked("away") })
	r.redis.Pause()
	r.mark("gone")
	r.await("the agent's end", func() bool { return len(r.agents()) == 0 })
	r.redis.Continue()
	u := r.ends(away)
	if u.State != turns.Failed {
		t.Errorf("%s %s", u.State, u.Error)
	}
	r.oneError(away, turns.AttemptID(away, u.Attempt))
}

// A person archives, deletes or runs asynq's tasks by hand: every turn ends, none
// twice.
func TestTasksMovedByHand(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("", ""))
	r.rules(rule{Thread: "live", Steps: []string{"accepted", "mark live", "wait go", "result done"}})
	live := r.lone("live", turns.Owner)
	w := r.start("builder") // takes one at a time: what follows waits behind it
	r.await("the run", func() bool { return r.marked("live") })
	archived, deleted := r.lone("archived", turns.Owner), r.lone("deleted", turns.Owner)
	if err := r.inspect.ArchiveTask("builder", archived+".1"); err != nil {
		t.Fatal(err)
	}
	if err := r.inspect.DeleteTask("builder", deleted+".1"); err != nil {
		t.Fatal(err)
	}
	u := r.ends(archived)
	if u.State != turns.Failed || !strings.Contains(u.Error, "archived by hand") {
		t.Errorf("archived by hand: %s %q", u.State, u.Error)
	}
	r.oneError(archived, archived+".1")
	// asynq's own cancel of the live task does not end rota's run.
	if err := r.inspect.CancelProcessing(live + ".1"); err != nil {
		t.Fatal(err)
	}
	r.await("the cancelled task to leave asynq's hands", func() bool { return w.logged("delivery ended without a run") })
	if a := r.attempt(live + ".1"); a.State != turns.Running {
		t.Errorf("asynq's cancel made the run %s", a.State)
	}
	r.mark("go")
	if u := r.ends(live); u.State != turns.Completed {
		t.Errorf("the live run: %s %s", u.State, u.Error)
	}
	if u := r.ends(deleted); u.State != turns.Completed {
		t.Errorf("deleted by hand: %s %s", u.State, u.Error)
	}
	// A dead task that is run again does nothing.
	if err := r.inspect.RunTask("builder", archived+".1"); err != nil {
		t.Fatal(err)
	}
	r.await("the answer to it", func() bool { return w.logged("attempt not claimed", archived+".1", "final") })
	for _, turn := range []string{live, archived, deleted} {
		if n := len(r.attempts(turn)); n != 1 {
			t.Errorf("%s had %d attempts", turn, n)
		}
	}
	if n := len(r.runs(nil)); n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
}

// Redis is restarted, and its scripts are flushed, in the middle of a turn: it goes
// on with one effect.
func TestRedisRestartsInMidTurn(t *testing.T) {
	t.Parallel()
	s := oneService("", "")
	s.redis = []redistest.Option{redistest.AppendOnly(), redistest.AppendFsync("always")}
	r := newRig(t, s)
	r.rules(rule{Thread: "one", Steps: []string{"accepted", "mark one", "wait go", "result done"}},
		rule{Thread: "two", Steps: []string{"accepted", "mark two", "wait go-2", "exit 3"}})
	r.startAll()
	one := r.lone("one", turns.Owner)
	r.await("the run", func() bool { return r.marked("one") })
	r.redis.ScriptFlush()
	r.redis.Restart()
	r.mark("go")
	if u := r.ends(one); u.State != turns.Completed {
		t.Errorf("%s %s", u.State, u.Error)
	}
	r.story(one, "builder initial completed")
	two := r.lone("two", turns.Owner)
	r.await("the second run", func() bool { return r.marked("two") })
	r.redis.ScriptFlush()
	r.mark("go-2")
	u := r.ends(two)
	if u.State != turns.Failed {
		t.Errorf("%s %s", u.State, u.Error)
	}
	r.oneError(two, turns.AttemptID(two, u.Attempt))
	if n := len(r.runs(of("one"))); n != 1 {
		t.Errorf("%d runs of one, want 1", n)
	}
}

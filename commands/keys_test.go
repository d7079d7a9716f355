package commands_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// A repeat of a command with the same key changes nothing, also when its thread has
// begun something new meanwhile.
func TestARepeatedKeyLeavesNewWorkAlone(t *testing.T) {
	restart := func(d *desk, key string) (commands.Result, error) { return d.c.Restart(d.ctx, key, "fix") }
	for name, story := range map[string]struct {
		first  func(d *desk) store.Run // the run that lives then, zero for none
		do     func(d *desk, key string) (commands.Result, error)
		turn   string // that the repeat names
		newest string // that the repeat must leave alone
	}{
		"cancel of a thread": {first: func(d *desk) store.Run { d.task("fix"); return store.Run{} },
			do: func(d *desk, key string) (commands.Result, error) { return d.c.Cancel(d.ctx, key, "fix") }, turn: "fix/1", newest: "fix/2"},
		"cancel of what waits for a person": {first: func(d *desk) store.Run { d.task("fix"); d.end("fix", ""); return store.Run{} },
			do: func(d *desk, key string) (commands.Result, error) { return d.c.Cancel(d.ctx, key, "fix") }, turn: "fix/1", newest: "fix/2"},
		"rm": {first: func(d *desk) store.Run { d.task("fix"); d.must(d.c.Cancel(d.ctx, "", "fix")); return store.Run{} },
			do: func(d *desk, key string) (commands.Result, error) { return d.c.Remove(d.ctx, key, "fix") }, newest: "fix/2"},
		"cancel of a lone turn": {first: func(d *desk) store.Run { d.lone("fix"); return store.Run{} },
			do: func(d *desk, key string) (commands.Result, error) { return d.c.Cancel(d.ctx, key, "fix") }, turn: "fix/1", newest: "fix/2"},
		"restart": {first: func(d *desk) store.Run { d.task("fix"); return d.start("fix") }, do: restart, turn: "fix/1", newest: "fix/2"},
		"handoff": {first: func(d *desk) store.Run { d.task("fix"); return d.start("fix") },
			do: func(d *desk, key string) (commands.Result, error) {
				return d.c.Handoff(d.ctx, key, "fix", "codex-spare")
			}, turn: "fix/1", newest: "fix/2"},
	} {
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
				d := newDesk(t, rdb)
				run := story.first(d)
				first := d.must(story.do(d, "K"))
				again := d.must(story.do(d, "K"))
				if story.turn != "" && (!again.Already || again.Turn != story.turn || again.Turn != first.Turn) {
					t.Errorf("first %+v, again %+v", first, again)
				}
				if name == "restart" || name == "handoff" {
					if again.Attempt != first.Attempt {
						t.Errorf("first %s, again %s", first.Attempt, again.Attempt)
					}
					d.must(d.c.Cancel(d.ctx, "", "fix"))
				}
				d.task("fix")
				if name == "restart" || name == "handoff" {
					if _, err := d.s.Release(d.ctx, run); err != nil {
						t.Fatal(err)
					}
					d.start("fix")
				}
				before := d.open("fix")
				again = d.must(story.do(d, "K"))
				if !again.Already || again.Turn != story.turn {
					t.Errorf("after new work: %+v", again)
				}
				if now := d.open("fix"); now.Turn.ID != story.newest || now.Attempt.ID != before.Attempt.ID || now.Attempt.State != before.Attempt.State {
					t.Errorf("new work is at %s (%s), was at %s (%s)", now.Attempt.ID, now.Attempt.State, before.Attempt.ID, before.Attempt.State)
				}
				r, err := story.do(d, "another")
				if name == "rm" && commands.KindOf(err) != commands.Conflict || name != "rm" && (err != nil || r.Already) {
					t.Errorf("with another key: %+v, %v", r, err)
				}
				if again = d.must(story.do(d, "K")); !again.Already || again.Turn != story.turn {
					t.Errorf("after new work has ended: %+v", again)
				}
			})
		})
	}
}

// A command that died between its note and its move is carried out by its repeat.
func TestARepeatFinishesWhatTheFirstOnlyNoted(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.task("fix")
		d.start("fix")
		for key, attempt := range map[string]string{"restart": "fix/1.1", "cancel": ""} {
			if _, err := d.s.Aim(d.ctx, "fix", key, "fix/1", attempt); err != nil {
				t.Fatal(err)
			}
		}
		if r := d.must(d.c.Restart(d.ctx, "restart", "fix")); r.Already || r.Attempt != "fix/1.2" {
			t.Errorf("restart: %+v", r)
		}
		if r := d.must(d.c.Cancel(d.ctx, "cancel", "fix")); r.Already || r.Turn != "fix/1" || r.Text != "cancelled fix/1 and fix#1" {
			t.Errorf("cancel: %+v", r)
		}
		// One whose attempt went on before the repeat came is a conflict.
		d.task("late")
		d.start("late")
		if _, err := d.s.Aim(d.ctx, "late", "K", "late/1", "late/1.1"); err != nil {
			t.Fatal(err)
		}
		d.must(d.c.Handoff(d.ctx, "", "late", "codex-spare"))
		if _, err := d.c.Restart(d.ctx, "K", "late"); commands.KindOf(err) != commands.Conflict {
			t.Errorf("a restart of what went on: %v", err)
		}
	})
}

// Keys of commands about schedules are scoped to the schedule.
func TestARepeatedKeyOfASchedule(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		a := commands.ScheduleAsk{Key: "add", Name: "n", Spec: "0 * * * *", Order: commands.Order{Text: "look"}}
		d.must(d.c.ScheduleAdd(d.ctx, a))
		d.must(d.c.ScheduleRm(d.ctx, "rm", "n"))
		if r := d.must(d.c.ScheduleAdd(d.ctx, a)); !r.Already || len(d.planned()) != 0 {
			t.Errorf("added again: %+v, %v", r, d.planned())
		}
		a.Key = "once more"
		d.must(d.c.ScheduleAdd(d.ctx, a))
		if r := d.must(d.c.ScheduleRm(d.ctx, "rm", "n")); !r.Already || len(d.planned()) != 1 {
			t.Errorf("removed again: %+v, %v", r, d.planned())
		}
		d.must(d.c.ScheduleRm(d.ctx, "", "n"))
	})
}

// The id of a paired task means that one, and never the one that came after it.
func TestIdsOfPairedTasks(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.task("fix")
		d.must(d.c.Cancel(d.ctx, "", "fix"))
		d.task("fix")
		for id, want := range map[string]struct {
			turn string
			kind commands.Kind
		}{
			"fix#1": {turn: "fix/1"}, "fix#2": {}, "fix#3": {kind: commands.NotFound},
			"fix#": {kind: commands.Invalid}, "fix#x": {kind: commands.Invalid}, "fix#0": {kind: commands.Invalid}, "fix#01": {kind: commands.Invalid},
		} {
			ref, err := d.c.Resolve(d.ctx, id)
			if commands.KindOf(err) != want.kind || want.kind == "" && (ref.Thread != "fix" || ref.Turn != want.turn) {
				t.Errorf("%s is %+v, %v", id, ref, err)
			}
		}
		if r, err := d.c.Cancel(d.ctx, "", "fix#1"); err != nil || !r.Already || r.Turn != "fix/1" {
			t.Errorf("cancel of the first one: %+v, %v", r, err)
		}
		if _, err := d.c.Reply(d.ctx, commands.ReplyAsk{Thread: "fix#1", Text: "hi"}); commands.KindOf(err) != commands.Conflict {
			t.Errorf("reply to the first one: %v", err)
		}
		if open := d.open("fix"); open.Turn.ID != "fix/2" || open.Messages != 0 {
			t.Errorf("the second one is at %s with %d messages", open.Turn.ID, open.Messages)
		}
		if r := d.must(d.c.Cancel(d.ctx, "", "fix#2")); r.Turn != "fix/2" {
			t.Errorf("cancel of the second one: %+v", r)
		}
	})
}

// What ends or removes something takes the whole name of a thread.
func TestShortNamesEndNothing(t *testing.T) {
	d := newDesk(t, redistest.Mini(t))
	d.task("deploy-prod")
	if ref, err := d.c.Resolve(d.ctx, "deploy"); err != nil || ref.Thread != "deploy-prod" {
		t.Errorf("read as %+v, %v", ref, err)
	}
	if _, err := d.c.Cancel(d.ctx, "", "deploy"); commands.KindOf(err) != commands.NotFound {
		t.Errorf("cancel: %v", err)
	}
	d.must(d.c.Cancel(d.ctx, "", "deploy-prod"))
	if _, err := d.c.Remove(d.ctx, "", "deploy"); commands.KindOf(err) != commands.NotFound {
		t.Errorf("rm: %v", err)
	}
}

// A cancelled thread names the turn that was open, also a lone one beside a paired task.
func TestCancelOfAThreadNamesItsTurn(t *testing.T) {
	d := newDesk(t, redistest.Mini(t))
	d.task("fix")
	d.must(d.c.Cancel(d.ctx, "", "fix"))
	if p, err := d.s.Paired(d.ctx, "fix#1"); err != nil || p.Status != turns.PairCancelled || p.Version != 2 {
		t.Errorf("the paired task was cancelled in more than one write: %+v, %v", p, err)
	}
	d.lone("fix")
	if r := d.must(d.c.Cancel(d.ctx, "", "fix")); r.Turn != "fix/2" || r.Text != "cancelled fix/2" {
		t.Errorf("%+v", r)
	}
}

// A steered text that no run of a child thread took goes into the next turn there.
func TestWaitingMessagesGoIntoALoneTurn(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.task("fix")
		ask := commands.TurnAsk{Thread: "fix~1", Parent: "fix/1", Text: "look", Role: turns.Owner}
		d.must(d.c.Turn(d.ctx, ask))
		run := d.start("fix~1")
		d.must(d.c.Steer(d.ctx, "", "fix~1", "hurry"))
		if _, err := d.s.Settle(d.ctx, run, turns.Ending{State: turns.Completed, Outcome: turns.Done, Text: "ok", Tree: "tree"}); err != nil {
			t.Fatal(err)
		}
		r := d.must(d.c.Turn(d.ctx, ask))
		said, err := d.s.Said(d.ctx, r.Turn)
		if err != nil || len(said) != 1 || said[0].Text != "hurry" || r.Note == "" {
			t.Errorf("%+v is told %+v, %v", r, said, err)
		}
		if waiting, err := d.s.Waiting(d.ctx, "fix~1"); err != nil || len(waiting) != 0 {
			t.Errorf("still waiting: %+v, %v", waiting, err)
		}
	})
}

// A repeat of what was asked of a live run names the same turn and attempt.
func TestARepeatedRequestNamesItsRun(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.task("fix")
		run := d.start("fix")
		d.request(run)
		for name, do := range map[string]func() (commands.Result, error){
			"steer":     func() (commands.Result, error) { return d.c.Steer(d.ctx, "s", "fix", "hurry") },
			"respond":   func() (commands.Result, error) { return d.c.Respond(d.ctx, "r", "fix/1:q1", "yes") },
			"interrupt": func() (commands.Result, error) { return d.c.Interrupt(d.ctx, "i", "fix") },
			"reply --steer": func() (commands.Result, error) {
				return d.c.Reply(d.ctx, commands.ReplyAsk{Key: "rs", Thread: "fix", Text: "x", Steer: true})
			},
		} {
			first, again := d.must(do()), d.must(do())
			if !again.Already || again.Turn != "fix/1" || again.Attempt != "fix/1.1" || first.Turn != again.Turn || first.Attempt != again.Attempt {
				t.Errorf("%s: first %+v, again %+v", name, first, again)
			}
		}
	})
}

// A thread that is retried means its paired task that waits, also when a lone turn was
// taken since.
func TestRetryOfAThreadMeansWhatWaits(t *testing.T) {
	d := newDesk(t, redistest.Mini(t))
	d.task("fix")
	d.end("fix", "")
	d.lone("fix")
	d.end("fix", turns.Approve)
	r := d.must(d.c.Retry(d.ctx, "", "fix"))
	if u, err := d.s.Turn(d.ctx, r.Turn); err != nil || u.RetryOf != "fix/1" || u.Paired != "fix#1" {
		t.Errorf("%+v, %v", u, err)
	}
}

// A key is one command's: another command that is given it does nothing.
func TestAKeyOfAnotherCommandEndsNothing(t *testing.T) {
	d := newDesk(t, redistest.Mini(t))
	d.must(d.c.Task(d.ctx, commands.TaskAsk{Key: "K", Thread: "fix", Text: "do it"}))
	d.start("fix")
	for name, do := range map[string]func() (commands.Result, error){
		"cancel":  func() (commands.Result, error) { return d.c.Cancel(d.ctx, "K", "fix") },
		"restart": func() (commands.Result, error) { return d.c.Restart(d.ctx, "K", "fix") },
		"handoff": func() (commands.Result, error) { return d.c.Handoff(d.ctx, "K", "fix", "codex-spare") },
	} {
		if r := d.must(do()); !r.Already || r.Turn != "fix/1" || r.Attempt != "fix/1.1" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if now := d.open("fix"); now.Attempt.ID != "fix/1.1" || now.Attempt.State != turns.Running {
		t.Errorf("%s is %s", now.Attempt.ID, now.Attempt.State)
	}
}

package commands_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

func (d *desk) reply(thread, text string) commands.Result {
	d.Helper()
	return d.must(d.c.Reply(d.ctx, commands.ReplyAsk{Thread: thread, Text: text}))
}

// said is what a person's messages in a turn say.
func (d *desk) said(turn string) []string {
	d.Helper()
	list, err := d.s.Said(d.ctx, turn)
	if err != nil {
		d.Fatal(err)
	}
	var words []string
	for _, m := range list {
		words = append(words, m.Text)
	}
	return words
}

func (d *desk) wants(what string, got []string, want ...string) {
	d.Helper()
	if !slices.Equal(got, want) {
		d.Fatalf("%s: %q, want %q", what, got, want)
	}
}

// No word of a person is lost or doubled on the way through failures.
func TestMessagesKeepTheirOrder(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.task("a")
		d.reply("a", "one")
		d.reply("a", "two")
		d.end("a", "") // the owner fails; both wait
		d.reply("a", "three")
		d.wants("after a reply", d.said("a/2"), "one", "two", "three")
		if prompt, _ := d.s.Prompt(d.ctx, "a/2"); prompt != "the task" {
			t.Fatalf("prompt %q", prompt)
		}
		d.end("a", "")
		d.must(d.c.Retry(d.ctx, "", "a"))
		d.wants("after a retry", d.said("a/3"), "one", "two", "three")
		d.end("a", turns.Done)

		// A reviewer's failure: the reply is for the reviewer, what waited is the owner's.
		d.reply("a", "four")
		d.end("a", "")
		d.reply("a", "five")
		d.wants("the reviewer's", d.said("a/5"), "five")
		d.end("a", turns.Approve)
		d.wants("the owner's", d.said("a/6"), "four")
		if r := d.open("a"); r.Turn.Intent != turns.FollowUp || r.Messages != 0 {
			t.Fatalf("%+v", r.Turn)
		}
	})
}

// A person's command gives the paired task its budgets again.
func TestAPersonResetsTheBudgets(t *testing.T) {
	d := newDesk(t, redistest.Mini(t))
	d.task("a")
	d.end("a", turns.Done)
	d.end("a", turns.Changes)
	d.end("a", turns.Done)
	d.end("a", "")
	if r, err := d.s.Paired(d.ctx, "a#1"); err != nil || r.Turns != 4 || r.Rounds != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	d.must(d.c.Retry(d.ctx, "", "a"))
	if p := d.open("a").Paired; p.Turns != 1 || p.Rounds != 1 || p.Status != turns.ReviewReady {
		t.Fatalf("%+v", p)
	}
}

// A cancelled thread is cancelled, whatever turn the workflow opens meanwhile.
func TestCancelThreadRacesTheWorkflow(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		for i := range 60 {
			thread := fmt.Sprintf("r%d", i)
			d.task(thread)
			run := d.start(thread)
			var both sync.WaitGroup
			both.Go(func() {
				_, err := d.s.Settle(d.ctx, run, turns.Ending{State: turns.Completed, Outcome: turns.Done, Tree: "tree"})
				if err != nil && !store.Refused(err) {
					t.Error(err)
				}
			})
			both.Go(func() {
				if _, err := d.c.Cancel(d.ctx, "", thread); err != nil {
					t.Error(err)
				}
			})
			both.Wait()
			th, err := d.s.Thread(d.ctx, thread)
			if err != nil || th.OpenTurn != "" {
				t.Fatal("a turn is open after the cancel: ", th, err)
			}
			if p, err := d.s.Paired(d.ctx, th.Paired); err != nil || p.Status != turns.PairCancelled {
				t.Fatal(p, err)
			}
		}
	})
}

// Of many commands at once that would open a turn in one thread, one does.
func TestOneOfManyOpens(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.c.Hand = nil
		for _, kind := range []string{"task", "retry", "reply"} {
			if kind != "task" {
				d.task(kind)
				d.end(kind, "")
			}
			var opened atomic.Int32
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					var err error
					var r commands.Result
					switch kind {
					case "task":
						_, err = d.c.Task(d.ctx, commands.TaskAsk{Thread: kind, Text: "x"})
					case "retry":
						_, err = d.c.Retry(d.ctx, "", kind+"/1")
					default:
						r, err = d.c.Reply(d.ctx, commands.ReplyAsk{Thread: kind, Text: "x"})
					}
					switch {
					case err == nil && r.Attempt != "" || err == nil && kind != "reply":
						opened.Add(1)
					case err != nil && commands.KindOf(err) != commands.Conflict:
						t.Error(err)
					}
				})
			}
			all.Wait()
			if n := opened.Load(); n != 1 && kind != "retry" || n < 1 {
				t.Fatalf("%s opened %d", kind, n)
			}
			v, err := d.c.ShowThread(d.ctx, kind)
			if want := map[string]int{"task": 1, "retry": 2, "reply": 2}[kind]; err != nil || len(v.Turns) != want {
				t.Fatalf("%s: %d turns, want %d, %v", kind, len(v.Turns), want, err)
			}
			if kind == "reply" && len(v.Waiting)+len(d.said("reply/2")) != 10 {
				t.Fatalf("of 10 replies %d wait and %d are in the turn", len(v.Waiting), len(d.said("reply/2")))
			}
		}
	})
}

// A steered text that comes too late becomes a message, once, in exactly one turn.
func TestASteerRacesTheEnd(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		for i := range 100 {
			thread := fmt.Sprintf("s%d", i)
			d.task(thread)
			run := d.start(thread)
			var both sync.WaitGroup
			steered := error(nil)
			both.Go(func() {
				if _, err := d.s.Settle(d.ctx, run, turns.Ending{State: turns.Completed, Outcome: turns.Done, Tree: "t"}); err != nil {
					t.Error(err)
				}
			})
			both.Go(func() {
				_, steered = d.c.Reply(d.ctx, commands.ReplyAsk{Thread: thread, Text: "words", Steer: true})
			})
			both.Wait()
			if steered != nil {
				t.Fatal(steered)
			}
			waiting, err := d.s.Waiting(d.ctx, thread)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(waiting) + len(d.said(thread+"/2")); n != 1 {
				t.Fatalf("%s: the words are in %d places", thread, n)
			}
		}
	})
}

func TestCommandsThatSawAnotherAttempt(t *testing.T) {
	d := newDesk(t, redistest.Mini(t))
	d.lone("a")
	d.start("a")
	d.must(d.c.Restart(d.ctx, "", "a/1.1"))
	for name, f := range map[string]func() (commands.Result, error){
		"restart":   func() (commands.Result, error) { return d.c.Restart(d.ctx, "", "a/1.1") },
		"handoff":   func() (commands.Result, error) { return d.c.Handoff(d.ctx, "", "a/1.1", "codex-review") },
		"interrupt": func() (commands.Result, error) { return d.c.Interrupt(d.ctx, "", "a/1.1") },
		"steer":     func() (commands.Result, error) { return d.c.Steer(d.ctx, "", "a/1.1", "x") },
	} {
		if _, err := f(); commands.KindOf(err) != commands.Conflict {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A cancel names the turn and always wins.
	if r := d.must(d.c.Cancel(d.ctx, "", "a/1.1")); r.Turn != "a/1" {
		t.Fatalf("%+v", r)
	}
}

func TestChildThreads(t *testing.T) {
	d := newDesk(t, redistest.Mini(t))
	d.lone("a")
	d.start("a")
	ask := commands.TurnAsk{Thread: "a~2", Text: "part", Role: turns.Owner, Parent: "a/1"}
	if r := d.must(d.c.Turn(d.ctx, ask)); r.Turn != "a~2/1" {
		t.Fatalf("%+v", r)
	}
	d.must(d.c.Cancel(d.ctx, "", "a/1"))
	if c, err := d.s.Turn(d.ctx, "a~2/1"); err != nil || c.State != turns.Cancelled {
		t.Fatal("the child goes on: ", c, err)
	}
	if _, err := d.c.Turn(d.ctx, ask); commands.KindOf(err) != commands.Conflict || !errors.Is(err, store.ErrParentFinal) {
		t.Fatal(err)
	}
	ask.Parent = "b/1"
	if _, err := d.c.Turn(d.ctx, ask); commands.KindOf(err) != commands.Invalid {
		t.Fatal(err)
	}
}

func TestNamesOfThreads(t *testing.T) {
	d := newDesk(t, redistest.Mini(t))
	task := func(key, text string) string {
		return d.must(d.c.Task(d.ctx, commands.TaskAsk{Key: key, Text: text})).Thread
	}
	first := task("nightly run 7", "Mend it")
	if first != task("nightly run 7", "another text") || first == task("nightly run 8", "Mend it") {
		t.Fatal("the name does not derive from the key")
	}
	for _, text := range []string{"Mend the LOGIN page, please! It is broken since the last release", "修理", "- x", "\n\nmend\nit"} {
		if name := task("", text); turns.CheckThread(name) != nil || len(name) > 40 {
			t.Errorf("%q becomes %q", text, name)
		}
	}
}

func TestRoomAndHandOver(t *testing.T) {
	d := newDesk(t, redistest.Mini(t))
	d.c.Room = func(_ context.Context, service string) error { return errors.New("100 turns wait for " + service) }
	if _, err := d.c.Task(d.ctx, commands.TaskAsk{Thread: "a", Text: "x"}); commands.KindOf(err) != commands.Conflict {
		t.Fatal(err)
	}
	if _, err := d.s.Thread(d.ctx, "a"); !errors.Is(err, store.ErrNotFound) {
		t.Fatal("half-written: ", err)
	}
	d.c.Room = nil
	var warned error
	d.c.Warn = func(err error) { warned = err }
	d.c.Hand = func(context.Context, turns.OutboxEntry) error { return errors.New("away") }
	if r := d.must(d.c.Task(d.ctx, commands.TaskAsk{Thread: "a", Text: "x"})); r.Turn != "a/1" || warned == nil {
		t.Fatalf("%+v, %v", r, warned)
	}
}

// The same command given by many at once is one command: nobody is refused.
func TestOneKeyAtOnceIsOneCommand(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.c.Hand = nil
		verbs := map[string]func(thread string) (commands.Result, error){
			"task": func(n string) (commands.Result, error) {
				return d.c.Task(d.ctx, commands.TaskAsk{Key: "k", Thread: n, Text: "x"})
			},
			"turn": func(n string) (commands.Result, error) {
				return d.c.Turn(d.ctx, commands.TurnAsk{Key: "k", Thread: n, Text: "x", Role: turns.Reviewer})
			},
			"retry": func(n string) (commands.Result, error) { return d.c.Retry(d.ctx, "k", n+"/1") },
			"reply": func(n string) (commands.Result, error) {
				return d.c.Reply(d.ctx, commands.ReplyAsk{Key: "k", Thread: n, Text: "x"})
			},
			"handoff": func(n string) (commands.Result, error) { return d.c.Handoff(d.ctx, "k", n+"/1", "codex-spare") },
			"restart": func(n string) (commands.Result, error) { return d.c.Restart(d.ctx, "k", n+"/1") },
		}
		for verb, give := range verbs {
			for i := range 10 {
				thread := fmt.Sprintf("%s%d", verb, i)
				switch verb {
				case "retry", "reply":
					d.task(thread)
					d.end(thread, "")
				case "handoff", "restart":
					d.task(thread)
					d.start(thread)
				}
				var fresh atomic.Int32
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						r, err := give(thread)
						if err != nil {
							t.Errorf("%s: %v", verb, err)
						} else if !r.Already {
							fresh.Add(1)
						}
					})
				}
				all.Wait()
				if fresh.Load() != 1 {
					t.Fatalf("%s did it %d times", verb, fresh.Load())
				}
			}
		}
	})
}

// A steered text that no run of a lone turn took waits for the thread's owner: the
// next task begins with it, and no follow-up of its own is needed.
func TestATaskTakesWhatWaits(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		for range 2 {
			d.lone("a")
			run := d.start("a")
			d.must(d.c.Steer(d.ctx, "", run.Turn, "mind "+run.Turn))
			if _, err := d.s.Settle(d.ctx, run, turns.Ending{State: turns.Completed, Text: "looked"}); err != nil {
				t.Fatal(err)
			}
		}
		r := d.must(d.c.Task(d.ctx, commands.TaskAsk{Key: "k", Thread: "a", Text: "the task"}))
		if r.Turn != "a/3" || r.Note != "2 messages go into it, which waited in a" {
			t.Errorf("%+v", r)
		}
		d.wants("what the owner is told", d.said("a/3"), "mind a/1", "mind a/2")
		if again := d.must(d.c.Task(d.ctx, commands.TaskAsk{Key: "k", Thread: "a", Text: "the task"})); again.Turn != "a/3" || again.Note != "" {
			t.Errorf("given again: %+v", again)
		}
		d.end("a", turns.Done)
		if next := d.open("a").Turn; next.Intent != turns.Review {
			t.Errorf("the owner's turn is followed by a %s", next.Intent)
		}
		if waiting, err := d.s.Waiting(d.ctx, "a"); err != nil || len(waiting) > 0 {
			t.Errorf("%v still waits, %v", waiting, err)
		}
		if r := d.must(d.c.Task(d.ctx, commands.TaskAsk{Thread: "new", Text: "the task"})); r.Note != "" {
			t.Errorf("%+v", r)
		}
	})
}

package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// What a handler reads and writes on its way costs one wait for an answer each,
// and a second one only where the guess about it was wrong.

func TestRecordsAreReadInOneTrip(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		w := newWorld(t, rdb)
		var counter redistest.Counter
		rdb.AddHook(&counter)
		read := func(turn string, attempt, trips int) store.Records {
			t.Helper()
			counter.Reset()
			r, err := w.s.Records(w.ctx, turn, attempt)
			w.must(err)
			if n := counter.RoundTrips(); n != trips {
				t.Errorf("records of %s, attempt %d: %d round trips, want %d", turn, attempt, n, trips)
			}
			return r
		}
		e := w.paired("fix")
		if r := read(e.Turn, 1, 1); r.Paired.ID != "fix#1" || r.Attempt.ID != "fix/1.1" || r.Thread.Name != "fix" {
			t.Errorf("read %+v", r)
		}
		if r := read(e.Turn, 0, 1); r.Attempt.ID != "fix/1.1" {
			t.Errorf("the current attempt is the first: %+v", r.Attempt)
		}
		on, err := w.s.Replace(w.ctx, w.claim(e), store.Successor{Service: e.Service, Cause: turns.CauseRetry})
		w.must(err)
		if r := read(e.Turn, 0, 2); r.Attempt.ID != on.Attempt || r.Paired.ID != "fix#1" {
			t.Errorf("the current attempt is the second: %+v", r)
		}
		if r := read(e.Turn, 2, 1); r.Attempt.ID != on.Attempt {
			t.Errorf("the second attempt: %+v", r)
		}
		if r := read(w.lone("alone", turns.Reviewer).Turn, 1, 1); r.Paired.ID != "" || r.Attempt.ID != "alone/1.1" {
			t.Errorf("a lone turn: %+v", r)
		}
		again := newTurn("twice", turns.Owner)
		again.New, again.Paired = true, &turns.Paired{ID: "twice#2", Thread: "twice", Version: 1, Status: turns.Active, Turns: 1}
		if r := read(w.opens(again).Turn, 1, 2); r.Paired.ID != "twice#2" {
			t.Errorf("the second paired task of a thread: %+v", r.Paired)
		}
	})
}

func TestOpenFromWhatWasSeen(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		w := newWorld(t, rdb)
		w.lone("warm", turns.Owner) // loads the script
		var counter redistest.Counter
		rdb.AddHook(&counter)
		for _, tt := range []struct {
			thread        string
			number, trips int
		}{{"right", 1, 1}, {"unread", 0, 2}} {
			n := newTurn(tt.thread, turns.Owner)
			n.Number = tt.number
			counter.Reset()
			if o := w.opens(n); o.Turn != tt.thread+"/1" {
				t.Errorf("number %d of a new thread opened %s", tt.number, o.Turn)
			}
			if got := counter.RoundTrips(); got != tt.trips {
				t.Errorf("number %d of a new thread: %d round trips, want %d", tt.number, got, tt.trips)
			}
		}
		n := newTurn("wrong", turns.Owner)
		n.Number = 9
		counter.Reset()
		if _, err := w.s.OpenTurn(w.ctx, n); !errors.Is(err, store.ErrMoved) || counter.RoundTrips() != 1 {
			t.Errorf("the ninth turn of a new thread: %v after %d round trips", err, counter.RoundTrips())
		}
	})
}

func TestAskedIsReadInOneTrip(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		w := newWorld(t, rdb)
		var counter redistest.Counter
		rdb.AddHook(&counter)
		asked := func(e turns.OutboxEntry, history, trips int) store.Asked {
			t.Helper()
			r, err := w.s.Records(w.ctx, e.Turn, 1)
			w.must(err)
			counter.Reset()
			a, err := w.s.Asked(w.ctx, r, history)
			w.must(err)
			if n := counter.RoundTrips(); n != trips {
				t.Errorf("%s: %d round trips, want %d", e.Turn, n, trips)
			}
			return a
		}
		settle := func(e turns.OutboxEntry, o turns.Outcome, text string) turns.OutboxEntry {
			t.Helper()
			ended, err := w.s.Settle(w.ctx, w.runs(e), turns.Ending{State: turns.Completed, Outcome: o, Text: text, Tree: "tree-1"})
			w.must(err)
			return ended.Outbox
		}
		e := w.paired("fix")
		if a := asked(e, 4, 1); a.Task != "do fix" || len(a.History) != 0 {
			t.Errorf("the first turn is asked %+v", a)
		}
		e = settle(e, turns.Done, "one")
		e = settle(e, turns.Changes, "two")
		w.say("fix", "hurry")
		e = settle(e, turns.Done, "three")
		a := asked(e, 4, 1)
		if a.Task != "do fix" || len(a.Messages) != 1 || a.Messages[0].Text != "hurry" {
			t.Errorf("a later turn is asked %+v", a)
		}
		var told []string
		for _, h := range a.History {
			told = append(told, string(h.Role)+" "+string(h.Outcome)+" "+h.Text)
		}
		if got := strings.Join(told, ", "); got != "owner done one, reviewer changes two, owner done three" {
			t.Errorf("its history: %s", got)
		}
		if a := asked(e, 2, 1); len(a.History) != 2 || a.History[0].Text != "two" {
			t.Errorf("two turns of history: %+v", a.History)
		}
		// A turn without an answer is no history: the next one is asked for by itself.
		w.must(rdb.Del(w.ctx, w.s.Key("text", "fix/3")).Err())
		if a := asked(e, 2, 2); len(a.History) != 2 || a.History[0].Text != "one" {
			t.Errorf("history with a gap: %+v", a.History)
		}
	})
}

// What a turn is asked can be read in the round trip of its claim. A server that has
// forgotten the script, or a claim that is refused, changes nothing about that.
func TestAskedAlongWithTheClaim(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		w := newWorld(t, rdb)
		e := w.paired("fix")
		var counter redistest.Counter
		rdb.AddHook(&counter)
		r, err := w.s.Records(w.ctx, e.Turn, 1)
		w.must(err)
		claim := claimOf(e)
		for _, want := range []struct {
			name   string
			answer store.Answer
			trips  int
		}{{"unknown script", store.Claimed, 2}, {"a repeat", store.Already, 1}, {"another run", store.Busy, 1}} {
			switch want.name {
			case "unknown script":
				w.must(rdb.ScriptFlush(w.ctx).Err())
			case "another run":
				claim.Run = turns.NewToken()
			}
			asking := w.s.Asking(r.Turn.ID, r.Turn.Intent, 4)
			counter.Reset()
			a, err := w.s.Claim(w.ctx, claim, asking.Along)
			w.must(err)
			asked, err := asking.Read(w.ctx, r)
			w.must(err)
			if a.Answer != want.answer || asked.Task != "do fix" || counter.RoundTrips() != want.trips {
				t.Errorf("%s: %s, asked %+v in %d round trips", want.name, a.Answer, asked, counter.RoundTrips())
			}
		}
		// Without an answer there, it is asked by itself.
		asking := w.s.Asking(r.Turn.ID, r.Turn.Intent, 4)
		cut, cancel := context.WithCancel(w.ctx)
		cancel()
		if _, err := w.s.Claim(cut, claim, asking.Along); err == nil {
			t.Error("a claim without a connection was answered")
		}
		if asked, err := asking.Read(w.ctx, r); err != nil || asked.Task != "do fix" {
			t.Errorf("asked by itself: %+v, %v", asked, err)
		}
		// What can't be read is named, also behind a value that is not there.
		w.must(rdb.Del(w.ctx, w.s.Key("prompt", "fix/1")).Err())
		w.must(rdb.HSet(w.ctx, w.s.Key("said", "fix/1"), "written", "over").Err())
		if _, err := w.s.Asked(w.ctx, r, 4); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("messages that are none: %v", err)
		}
	})
}

// A run knows all that it needs after the one trip of its claim: the records, and what
// the turn is asked, also when others went before it.
func TestClaimBringsAllThatARunNeeds(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		w := newWorld(t, rdb)
		w.runs(w.lone("warm", turns.Owner))
		var counter redistest.Counter
		rdb.AddHook(&counter)
		claims := func(e turns.OutboxEntry, trips int) (store.Run, store.Records, store.Asked) {
			t.Helper()
			_, number, err := turns.ParseAttempt(e.Attempt)
			w.must(err)
			reading, err := w.s.Reading(e.Turn, number)
			w.must(err)
			asking := w.s.Asking(e.Turn, e.Intent, 4)
			counter.Reset()
			a, err := w.s.Claim(w.ctx, claimOf(e), reading.Along, asking.Along)
			w.must(err)
			r, err := reading.Records(w.ctx)
			w.must(err)
			asked, err := asking.Read(w.ctx, r)
			w.must(err)
			if n := counter.RoundTrips(); n != trips {
				t.Errorf("%s: %d round trips, want %d", e.Attempt, n, trips)
			}
			if r.Attempt.ID != e.Attempt || r.Attempt.State != turns.Starting || r.Attempt.Run != a.Run.ID || r.Thread.Hold != a.Run.Fence {
				t.Errorf("%s: read %+v of %+v, claimed with %+v", e.Attempt, r.Attempt, r.Thread, a.Run)
			}
			return w.start(a.Run), r, asked
		}
		settle := func(run store.Run, o turns.Outcome, text string) turns.OutboxEntry {
			t.Helper()
			ended, err := w.s.Settle(w.ctx, run, turns.Ending{State: turns.Completed, Outcome: o, Text: text, Tree: "tree-1"})
			w.must(err)
			return ended.Outbox
		}
		run, _, asked := claims(w.paired("fix"), 1)
		if asked.Task != "do fix" || len(asked.History) != 0 {
			t.Errorf("the first turn is asked %+v", asked)
		}
		run, _, asked = claims(settle(run, turns.Done, "one"), 1)
		if asked.Task != "do fix" || len(asked.History) != 1 || asked.History[0].Text != "one" {
			t.Errorf("the reviewer is asked %+v", asked)
		}
		run, r, _ := claims(settle(run, turns.Approve, "two"), 1)
		if r.Paired.Status != turns.MergeReady {
			t.Errorf("the owner finalizes at %+v", r.Paired)
		}
		settle(run, turns.Done, "three")

		// The second paired task of the thread: the guess is wrong, and asked again.
		again := newTurn("fix", turns.Owner)
		again.New, again.Paired = true, &turns.Paired{ID: "fix#2", Thread: "fix", Version: 1, Status: turns.Active, Turns: 1}
		run, r, asked = claims(w.opens(again), 2)
		if r.Paired.ID != "fix#2" || asked.Task != again.Prompt || len(asked.History) != 0 {
			t.Errorf("the second task is %+v, asked %+v", r.Paired, asked)
		}
		again.Prompt = ""
		_, r, asked = claims(settle(run, turns.Done, "four"), 3)
		if r.Paired.ID != "fix#2" || asked.Task != newTurn("fix", turns.Owner).Prompt || len(asked.History) != 1 || asked.History[0].Text != "four" {
			t.Errorf("its reviewer is at %+v, asked %+v", r.Paired, asked)
		}
	})
}

// The end of a turn costs one trip when nothing moved since the handler read the
// turn; when something did, it is decided again with what is there.
func TestSettleFromWhatWasSeen(t *testing.T) {
	for name, story := range map[string]struct {
		change func(w *world)
		trips  int
		next   turns.Role
	}{
		"nothing moved": {func(*world) {}, 1, turns.Reviewer},
		"a message":     {func(w *world) { w.say("fix", "wait") }, 3, turns.Owner},
		"a steer": {func(w *world) {
			w.must(w.s.Ask(w.ctx, "fix/1.1", store.Ask{ID: "s", Kind: "steer", Text: "wait"}))
		}, 3, turns.Owner},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(w *world) {
				var counter redistest.Counter
				w.rdb.AddHook(&counter)
				e := w.paired("fix")
				run := w.claim(e)
				seen, err := w.s.Records(w.ctx, e.Turn, 1)
				w.must(err)
				w.start(run)
				seen.Turn.Tree = "tree-1"
				story.change(w)
				counter.Reset()
				ended, err := w.s.SettleFrom(w.ctx, run, seen, done())
				w.must(err)
				if n := counter.RoundTrips(); n != story.trips || ended.Outbox.Role != story.next {
					t.Errorf("%d round trips and %q next, want %d and %q", n, ended.Outbox.Role, story.trips, story.next)
				}
				again, err := w.s.SettleFrom(w.ctx, run, seen, done())
				w.must(err)
				if !again.Already || again.Next != ended.Next {
					t.Errorf("a repeat is answered %+v", again)
				}
				w.sound()
			})
		})
	}
}

// A run that lost its attempt settles nothing, whatever it has seen before.
func TestSettleFromALostRun(t *testing.T) {
	each(t, func(w *world) {
		e := w.lone("fix", turns.Reviewer)
		run := w.runs(e)
		seen, err := w.s.Records(w.ctx, e.Turn, 1)
		w.must(err)
		_, err = w.s.Delegate(w.ctx, run, store.Successor{Service: "codex-review", Cause: turns.CauseHandoff})
		w.must(err)
		_, err = w.s.SettleFrom(w.ctx, run, seen, done())
		w.wants(err, store.ErrStale)
	})
}

// A server that can't be reached says nothing about what is stored: no turn is missing,
// and none is asked to do nothing.
func TestNoServerIsNoMissingTurn(t *testing.T) {
	server := redistest.Start(t)
	w := newWorld(t, server.Client())
	e := w.paired("fix")
	r, err := w.s.Records(w.ctx, e.Turn, 1)
	w.must(err)
	server.Kill9()
	if _, err := w.s.Records(w.ctx, e.Turn, 1); err == nil || errors.Is(err, store.ErrNotFound) {
		t.Errorf("records: %v", err)
	}
	if asked, err := w.s.Asked(w.ctx, r, 4); err == nil {
		t.Errorf("asked %+v", asked)
	}
	if strays, err := w.s.Straying(0, 10).Read(w.ctx); err == nil {
		t.Errorf("strays %v", strays)
	}
	if glances, err := w.s.LookAll(w.ctx, store.LookOptions{Gap: time.Hour, Amnesty: time.Hour}); err == nil || len(glances) > 0 {
		t.Errorf("%d glances, %v", len(glances), err)
	}
	reading, err := w.s.Reading(e.Turn, 1)
	w.must(err)
	if a, err := w.s.Claim(w.ctx, claimOf(e), reading.Along); err == nil || a.Answer != "" {
		t.Errorf("claim %+v, %v", a, err)
	}
}

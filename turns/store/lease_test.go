package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

func (w *world) renew(r store.Renewal) store.Renewed {
	w.Helper()
	answers, err := w.s.Renew(w.ctx, []store.Renewal{r})
	w.must(err)
	return answers[0]
}

// A run whose record was written over keeps no other run of its shard from its lease.
func TestRenewBesideAnOverwrittenRecord(t *testing.T) {
	each(t, func(w *world) {
		first := w.runs(w.lone("fix", turns.Owner))
		list := []store.Renewal{{Run: first, Lease: time.Hour}}
		for n := 0; len(list) < 3; n++ {
			name := fmt.Sprintf("beside-%d", n)
			if w.s.ShardOf(name) == w.s.ShardOf("fix") {
				list = append(list, store.Renewal{Run: w.runs(w.lone(name, turns.Owner)), Lease: time.Hour})
			}
		}
		overwritten("attempt", first.Attempt)(w)
		answers, err := w.s.Renew(w.ctx, list)
		if err == nil || !strings.Contains(err.Error(), first.Attempt) {
			t.Errorf("the error does not name it: %v", err)
		}
		if !answers[0].Unknown || !answers[1].OK || !answers[2].OK {
			t.Errorf("%+v", answers)
		}
	})
}

// A renewal extends lease and hold, brings back a lease entry that somebody
// removed, and tells how many requests were made.
func TestRenew(t *testing.T) {
	each(t, func(w *world) {
		r := w.runs(w.lone("fix", turns.Owner))
		before, _ := w.score("leases", r.Attempt)
		hold := w.thread("fix").HoldUntil
		if a := w.renew(store.Renewal{Run: r, Lease: time.Hour, Progress: turns.ProgressText, Session: "s2"}); !a.OK || a.Over || a.Asks != 0 {
			w.Fatalf("%+v", a)
		}
		after, _ := w.score("leases", r.Attempt)
		th := w.thread("fix")
		if after-before < 50*60*1000 || th.HoldUntil.Sub(hold) < 50*time.Minute || float64(th.HoldUntil.UnixMilli()) != after {
			w.Errorf("lease from %.0f to %.0f, hold from %s to %s", before, after, hold, th.HoldUntil)
		}
		if a := w.attempt(r.Attempt); a.Progress != turns.ProgressText || a.Session != "s2" {
			w.Errorf("%+v", a)
		}

		zrem("leases", r.Attempt)(w)
		w.must(w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: "a1", Kind: "interrupt"}))
		if a := w.renew(store.Renewal{Run: r, Lease: time.Minute}); !a.OK || a.Asks != 1 {
			w.Errorf("%+v", a)
		}
		if _, ok := w.score("leases", r.Attempt); !ok {
			w.Error("the lease entry is still gone")
		}
		w.sound()

		// Past the deadline nothing is extended.
		hset("attempt", r.Attempt, "deadline", "1")(w)
		unchanged := w.dump()
		if a := w.renew(store.Renewal{Run: r, Lease: time.Hour}); a.OK || !a.Over {
			w.Errorf("past the deadline: %+v", a)
		}
		w.unchanged(unchanged, "a renewal past the deadline")
	})
}

// Progress only grows within an attempt, whichever move brings the news.
func TestStoredProgressNeverFalls(t *testing.T) {
	each(t, func(w *world) {
		r := w.runs(w.lone("fix", turns.Owner))
		for _, step := range []struct{ news, want turns.Progress }{
			{turns.ProgressNone, turns.ProgressNone}, {turns.ProgressText, turns.ProgressText}, {"", turns.ProgressText},
			{turns.ProgressTools, turns.ProgressTools}, {turns.ProgressText, turns.ProgressTools}, {"shouting", turns.ProgressTools},
		} {
			w.renew(store.Renewal{Run: r, Lease: time.Minute, Progress: step.news})
			if got := w.attempt(r.Attempt).Progress; got != step.want {
				w.Errorf("after %q: %q, want %q", step.news, got, step.want)
			}
		}
		w.must(w.s.Requeue(w.ctx, r, store.Requeue{Progress: turns.ProgressText}))
		if got := w.attempt(r.Attempt).Progress; got != turns.ProgressTools {
			w.Errorf("after the requeue: %q", got)
		}
	})
}

// One call a shard and hundred runs, answers in the order of the questions.
func TestRenewManyRuns(t *testing.T) {
	each(t, func(w *world) {
		var renewals []store.Renewal
		for i := range 250 {
			e := w.lone(fmt.Sprintf("t%d", i%250), turns.Owner)
			renewals = append(renewals, store.Renewal{Run: w.claim(e), Lease: time.Hour})
			if i%7 == 0 {
				renewals[i].Run.Fence++
			}
		}
		answers, err := w.s.Renew(w.ctx, renewals)
		w.must(err)
		for i, a := range answers {
			if a.OK != (i%7 != 0) {
				w.Errorf("%d: %+v", i, a)
			}
		}
		if answers, err := w.s.Renew(w.ctx, nil); err != nil || len(answers) != 0 {
			w.Errorf("%v, %v", answers, err)
		}
	})
}

// silent fails every command about one shard, as a Cluster does whose node is away.
type silent struct{ tag string }

func (f silent) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f silent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		for _, arg := range cmd.Args() {
			if key, ok := arg.(string); ok && strings.HasPrefix(key, f.tag) {
				cmd.SetErr(errors.New("the node is away"))
				return cmd.Err()
			}
		}
		return next(ctx, cmd)
	}
}

func (f silent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A shard that is out of reach keeps no run of another shard from its lease.
func TestRenewWithAShardAway(t *testing.T) {
	w := newWorld(t, redistest.Mini(t))
	var renewals []store.Renewal
	for i := range 40 {
		renewals = append(renewals, store.Renewal{Run: w.claim(w.lone(fmt.Sprintf("t%d", i), turns.Owner)), Lease: time.Hour})
	}
	away := w.s.ShardOf("t0")
	w.rdb.AddHook(silent{fmt.Sprintf("rota:{s%02d}:", away)})
	answers, err := w.s.Renew(w.ctx, renewals)
	if err == nil {
		t.Error("nothing is said about the shard that is away")
	}
	for i, a := range answers {
		want := store.Renewed{OK: true}
		if w.s.ShardOf(renewals[i].Run.Thread) == away {
			want = store.Renewed{Unknown: true}
		}
		if a != want {
			t.Errorf("%s: %+v, want %+v", renewals[i].Run.Thread, a, want)
		}
	}
}

// Deliveries are counted at each claim; one given back does not count.
func TestRequeueCountsDeliveries(t *testing.T) {
	each(t, func(w *world) {
		e := w.lone("fix", turns.Owner)
		for i, uncounted := range []bool{false, true, true, false} {
			r := w.claim(e)
			w.must(w.s.Requeue(w.ctx, r, store.Requeue{After: time.Hour, Margin: time.Minute, Uncounted: uncounted, Class: turns.ClassServer, Error: "500"}))
			a := w.attempt(e.Attempt)
			if want := []int{1, 1, 1, 2}[i]; a.Deliveries != want {
				w.Errorf("%d: %d deliveries, want %d", i, a.Deliveries, want)
			}
			score, ok := w.score("outbox", e.Attempt)
			if wait := score - float64(a.Due.UnixMilli()); !ok || wait != 60_000 || time.Until(a.Due) < 50*time.Minute {
				w.Errorf("%d: due %s, looked at %.0f ms later", i, a.Due, wait)
			}
			if a.Class != turns.ClassServer || a.Error != "500" || a.State != turns.Queued {
				w.Errorf("%d: %+v", i, a)
			}
			w.must(w.s.DueNow(w.ctx, e.Attempt))
		}
		w.sound()
	})
}

func TestLoseNeedsARunThatIsDead(t *testing.T) {
	each(t, func(w *world) {
		r := w.claim(w.lone("fix", turns.Owner))
		lose := func(own bool) error {
			_, err := w.s.Lose(w.ctx, r, own, store.Successor{Service: "codex-main", Cause: turns.CauseLost})
			return err
		}
		before := w.dump()
		w.wants(lose(false), store.ErrAlive)
		_, err := w.s.LoseLast(w.ctx, r, false, turns.Ending{Class: turns.ClassLost})
		w.wants(err, store.ErrAlive)
		w.unchanged(before, "losing a run that is alive")

		// Without a lease entry its hold decides. After it the run counts as dead, but
		// not during an amnesty.
		zrem("leases", r.Attempt)(w)
		hset("thread", "fix", "hold_until", "1")(w)
		hset("clock", "fix", "amnesty", time.Now().Add(time.Hour).UnixMilli())(w)
		before = w.dump()
		w.wants(lose(false), store.ErrAmnesty)
		_, err = w.s.LoseLast(w.ctx, r, false, turns.Ending{Class: turns.ClassLost})
		w.wants(err, store.ErrAmnesty)
		w.unchanged(before, "losing a run during an amnesty")
		hset("clock", "fix", "amnesty", "1")(w)
		w.must(lose(false))
		if turn := w.turn("fix/1"); turn.Losses != 1 || turn.Attempt != 2 || turn.State != turns.Queued || w.thread("fix").Hold != 0 {
			w.Errorf("%+v", turn)
		}
		w.sound()

		// The run's own guard gives it back at any time.
		r = w.claim(w.entry("fix/1.2"))
		hset("clock", "fix", "amnesty", time.Now().Add(time.Hour).UnixMilli())(w)
		w.must(lose(true))
		w.must(lose(true)) // the worker comes second
		if turn := w.turn("fix/1"); turn.Losses != 2 || turn.Attempt != 3 {
			w.Errorf("%+v", turn)
		}
		w.sound()

		r = w.claim(w.entry("fix/1.3"))
		ended, err := w.s.LoseLast(w.ctx, r, true, turns.Ending{Class: turns.ClassLost, Error: "lost 3 times"})
		w.must(err)
		turn, a := w.turn("fix/1"), w.attempt("fix/1.3")
		if ended.Freed != r.Fence || turn.State != turns.Failed || turn.Class != turns.ClassLost || a.State != turns.Lost || turn.Losses != 2 {
			w.Errorf("%+v\n%+v\n%+v", ended, turn, a)
		}
		w.sound()
	})
}

func TestExpiredRunIsLostAndCanDoNothingMore(t *testing.T) {
	each(t, func(w *world) {
		r := w.claimFor(w.paired("fix"), time.Millisecond)
		n := store.Successor{Service: "codex-main", Cause: turns.CauseLost, Reason: "its lease ran out"}
		w.until("the lease to run out", func() bool {
			_, err := w.s.Lose(w.ctx, r, false, n)
			if err != nil && !errors.Is(err, store.ErrAlive) {
				w.Fatal(err)
			}
			return err == nil
		})
		before := w.dump()
		_, err := w.s.Settle(w.ctx, r, completed())
		w.wants(err, store.ErrStale)
		w.wants(w.s.Start(w.ctx, r, "", "", ""), store.ErrStale)
		w.unchanged(before, "the lost run")
		if a := w.renew(store.Renewal{Run: r, Lease: time.Hour}); a.OK || a.Over {
			w.Errorf("%+v", a)
		}
		w.sound()
	})
}

// due collects what a look finds in all shards.
func (w *world) due(o store.LookOptions) (outbox, expired []string, amnesty bool) {
	w.Helper()
	glances, err := w.s.LookAll(w.ctx, o)
	w.must(err)
	for _, g := range glances {
		for _, l := range g.Outbox {
			outbox = append(outbox, l.Attempt)
		}
		expired = append(expired, g.Expired...)
		amnesty = amnesty || g.Begun
	}
	slices.Sort(outbox)
	return outbox, expired, amnesty
}

// A pass finds what is due. When Redis was away, went back in time or is another
// one, it grants an amnesty of one lease first.
func TestLookGrantsAmnesty(t *testing.T) {
	server, rdb := redistest.MiniServer(t)
	w := newWorld(t, rdb)
	now := time.Now().Truncate(time.Millisecond)
	server.SetTime(now)
	run, durable := "redis-1", true
	o := store.LookOptions{Gap: 10 * time.Second, Amnesty: 30 * time.Second, Server: func(int) (string, bool) { return run, durable }}
	step := func(d time.Duration) { now = now.Add(d); server.SetTime(now) }

	w.claim(w.lone("lost", turns.Owner))
	w.lone("queued", turns.Owner)
	if outbox, expired, amnesty := w.due(o); len(outbox) != 0 || len(expired) != 0 || amnesty {
		t.Fatalf("at once: %v %v %v", outbox, expired, amnesty)
	}
	for range 4 {
		step(9 * time.Second)
		w.due(o)
	}
	outbox, expired, amnesty := w.due(o)
	if !slices.Equal(outbox, []string{"queued/1.1"}) || !slices.Equal(expired, []string{"lost/1.1"}) || amnesty {
		t.Fatalf("after 36 s: %v %v %v", outbox, expired, amnesty)
	}

	for name, fault := range map[string]func(){
		"away":      func() { step(11 * time.Second) },
		"backwards": func() { step(-5 * time.Second) },
		"another":   func() { run = turns.NewToken() },
	} {
		fault()
		if _, expired, amnesty := w.due(o); !amnesty || len(expired) != 0 {
			t.Errorf("%s: amnesty %v, expired %v", name, amnesty, expired)
		}
		step(9 * time.Second)
		if _, expired, amnesty := w.due(o); amnesty || len(expired) != 0 {
			t.Errorf("%s, 9 s later: amnesty %v, expired %v", name, amnesty, expired)
		}
		for range 3 {
			step(9 * time.Second)
			w.due(o)
		}
		if _, expired, _ := w.due(o); len(expired) != 1 {
			t.Errorf("%s, 36 s later: expired %v", name, expired)
		}
	}

	// On another server whose last writes may be lost, nobody claims for that time.
	run, durable = "redis-9", false
	w.due(o)
	a, err := w.s.Claim(w.ctx, claimOf(w.entry("queued/1.1")))
	w.must(err)
	if a.Answer != store.Held || !a.HeldUntil.Equal(now.Add(30*time.Second).UTC()) {
		t.Errorf("%+v", a)
	}
	step(30 * time.Second)
	w.claim(w.entry("queued/1.1"))
	w.sound()
}

// A look costs one command a shard in one round trip, whatever exists.
func TestLookCostsOnlyWhatIsDue(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		w := plain(t, rdb)
		var counter redistest.Counter
		rdb.AddHook(&counter)
		cost := func() (int, int) {
			counter.Reset()
			if outbox, expired, _ := w.due(store.LookOptions{Gap: time.Hour, Amnesty: time.Hour}); len(outbox)+len(expired) > 0 {
				t.Fatalf("due: %v %v", outbox, expired)
			}
			return counter.Commands(), counter.RoundTrips()
		}
		cost()
		commands, trips := cost()
		for i := range 50 {
			n := newTurn(fmt.Sprintf("t%d", i), turns.Owner)
			n.Delay = time.Hour
			w.opens(n)
		}
		if c, r := cost(); c != commands || r != trips || c != w.s.Shards() || r != 1 {
			t.Errorf("%d commands in %d round trips, before %d in %d", c, r, commands, trips)
		}
	})
}

func TestDeferAndDueNow(t *testing.T) {
	each(t, func(w *world) {
		n := newTurn("fix", turns.Owner)
		n.Delay = time.Hour
		e := w.opens(n)
		score, _ := w.score("outbox", e.Attempt)
		w.must(w.s.DueNow(w.ctx, e.Attempt))
		now, _ := w.score("outbox", e.Attempt)
		if score-now < 50*60*1000 || time.Until(w.attempt(e.Attempt).Due) > time.Minute {
			w.Errorf("due at %.0f, then at %.0f", score, now)
		}
		outbox, _, _ := w.due(store.LookOptions{Gap: time.Hour, Amnesty: time.Hour})
		if !slices.Equal(outbox, []string{e.Attempt}) {
			w.Errorf("due: %v", outbox)
		}
		seen := store.Look{Attempt: e.Attempt, Score: fmt.Sprintf("%.0f", now)}
		w.must(w.s.Defer(w.ctx, seen, time.Minute))
		later, _ := w.score("outbox", e.Attempt)
		if later-now < 50*1000 || w.attempt(e.Attempt).Looks != 1 {
			w.Errorf("deferred to %.0f after %d looks", later, w.attempt(e.Attempt).Looks)
		}
		before := w.dump()
		w.must(w.s.Defer(w.ctx, seen, time.Hour)) // looked at by somebody else
		w.unchanged(before, "a look that came second")

		w.claim(e)
		before = w.dump()
		w.must(w.s.Defer(w.ctx, store.Look{Attempt: e.Attempt, Score: fmt.Sprintf("%.0f", later)}, time.Hour))
		w.wants(w.s.DueNow(w.ctx, e.Attempt), store.ErrMoved)
		w.unchanged(before, "defer and due now of a claimed attempt")
		w.sound()
	})
}

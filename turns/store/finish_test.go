package store_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

func done() turns.Ending {
	return turns.Ending{State: turns.Completed, Outcome: turns.Done, Text: "mended", Tree: "tree-2", Session: "s1"}
}

func (w *world) say(thread, text string) {
	w.Helper()
	_, err := w.s.Say(w.ctx, thread, turns.NewToken(), turns.Message{ID: text, Text: text})
	w.must(err)
}

func words(messages []turns.Message, err error) string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Text)
	}
	if err != nil {
		all = append(all, err.Error())
	}
	return strings.Join(all, ",")
}

// What people said while a turn was open is the owner's next turn, in order, with
// the steered texts that no run took; they leave the list in that write.
func TestMessagesBecomeTheNextTurn(t *testing.T) {
	each(t, func(w *world) {
		r := w.runs(w.paired("fix"))
		w.say("fix", "one")
		w.say("fix", "two")
		for _, id := range []string{"taken", "missed"} {
			w.must(w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: id, Kind: "steer", Text: id}))
		}
		w.must(w.s.Taken(w.ctx, r, store.Ask{ID: "taken", Kind: "steer", Text: "taken"}, "given to the agent"))
		ended, err := w.s.Settle(w.ctx, r, done())
		w.must(err)
		if ended.Outbox.Role != turns.Owner || ended.Outbox.Intent != turns.FollowUp || ended.Next != "fix/2" {
			w.Errorf("%+v", ended)
		}
		if got := words(w.s.Said(w.ctx, "fix/2")); got != "one,two,missed" {
			w.Errorf("the next turn was told %q", got)
		}
		if got := words(w.s.Waiting(w.ctx, "fix")); got != "" {
			w.Errorf("still waiting: %q", got)
		}
		if left := w.rdb.LLen(w.ctx, w.s.Key("steers", "fix/1")).Val(); left != 0 {
			w.Errorf("%d steered texts are left with the ended turn", left)
		}
		if th := w.thread("fix"); th.OpenTurn != "fix/2" || th.Turns != 2 || th.Sessions[turns.SessionKey("codex-main", turns.Owner)] != "s1" {
			w.Errorf("%+v", th)
		}
		p, err := w.s.Paired(w.ctx, "fix#1")
		w.must(err)
		if p.Version != 2 || p.Status != turns.Active || p.Turns != 2 || p.First != "fix/1" {
			w.Errorf("%+v", p)
		}
		w.sound()
	})
}

// After a failed or cancelled turn the messages stay, and the work waits for a person.
func TestMessagesStayAfterAFailure(t *testing.T) {
	each(t, func(w *world) {
		for _, how := range []string{"settle failed", "cancel"} {
			w.must(w.rdb.FlushDB(w.ctx).Err())
			r := w.runs(w.paired("fix"))
			w.say("fix", "one")
			w.must(w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: "s", Kind: "steer", Text: "left"}))
			w.must(actNamed(how).do(w, r, "k"))
			p, err := w.s.Paired(w.ctx, "fix#1")
			w.must(err)
			if got := words(w.s.Waiting(w.ctx, "fix")); got != "one,left" || p.Status != turns.NeedsHuman || p.From != turns.Active {
				w.Errorf("%s: waiting %q, %+v", how, got, p)
			}
			if th := w.thread("fix"); th.OpenTurn != "" || th.Turns != 1 {
				w.Errorf("%s: %+v", how, th)
			}
			_, err = w.s.Say(w.ctx, "fix", "late", turns.Message{Text: "late"})
			w.wants(err, store.ErrNoTurn)

			// The person's next command takes what waits.
			n := newTurn("fix", turns.Owner)
			p.Version, p.Status, p.From = p.Version+1, turns.Active, ""
			n.Paired, n.Intent, n.Take, n.RetryOf, n.Prior = &p, turns.FollowUp, 3, "fix/1", "fix/1"
			_, err = w.s.OpenTurn(w.ctx, n)
			w.wants(err, store.ErrMoved) // three don't wait
			n.Take = 2
			w.opens(n)
			if got := words(w.s.Said(w.ctx, "fix/2")); got != "one,left" {
				w.Errorf("%s: told %q", how, got)
			}
			w.sound()
		}
	})
}

// What changes between the decision about an end and its write makes the store
// decide again, with what is there then.
func TestEndIsDecidedAgainWhenSomethingMoved(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		w := newWorld(t, rdb)
		for name, change := range map[string]func(){
			"a message":     func() { w.say("fix", "wait") },
			"a steer":       func() { w.must(w.s.Ask(w.ctx, "fix/1.1", store.Ask{ID: "s", Kind: "steer", Text: "wait"})) },
			"the version":   func() { hset("paired", "fix#1", "version", "5")(w) },
			"turns counted": func() { hset("thread", "fix", "turns", "3")(w) },
		} {
			w.must(rdb.FlushDB(w.ctx).Err())
			r := w.runs(w.paired("fix"))
			decided := 0
			s, err := store.Open(w.ctx, rdb, store.Options{Crew: crew, Plan: func(v turns.View) turns.Plan {
				if decided++; decided == 1 {
					change()
				}
				return pairs.Plan(v)
			}})
			w.must(err)
			ended, err := s.Settle(w.ctx, r, done())
			w.must(err)
			if decided != 2 {
				t.Errorf("%s: decided %d times", name, decided)
			}
			want := map[string]string{"a message": "owner fix/2", "a steer": "owner fix/2", "the version": "reviewer fix/2", "turns counted": "reviewer fix/4"}[name]
			if got := string(ended.Outbox.Role) + " " + ended.Next; got != want {
				t.Errorf("%s: opened %s, want %s", name, got, want)
			}
			p, err := w.s.Paired(w.ctx, "fix#1")
			w.must(err)
			if v := map[bool]int{true: 6, false: 2}[name == "the version"]; p.Version != v {
				t.Errorf("%s: version %d, want %d", name, p.Version, v)
			}
		}
	})
}

// A lone turn has no follow-up, whatever waits; its text, class and reason are kept.
func TestLoneTurnEndsAlone(t *testing.T) {
	each(t, func(w *world) {
		r := w.runs(w.lone("fix", turns.Owner))
		w.say("fix", "more")
		ended, err := w.s.Settle(w.ctx, r, done())
		w.must(err)
		turn, a := w.turn("fix/1"), w.attempt("fix/1.1")
		if ended.Next != "" || turn.State != turns.Completed || turn.Outcome != turns.Done || turn.EndTree != "tree-2" ||
			turn.Tree != "tree-1" || a.Session != "s1" || turn.Ended.IsZero() {
			w.Errorf("%+v\n%+v\n%+v", ended, turn, a)
		}
		if text, err := w.s.Text(w.ctx, "fix/1"); err != nil || text != "mended" {
			w.Errorf("%q, %v", text, err)
		}
		if got := words(w.s.Waiting(w.ctx, "fix")); got != "more" {
			w.Errorf("waiting %q", got)
		}
		if score, ok := w.score("ended", "fix/1"); !ok || score == 0 {
			w.Error("its retention does not run")
		}

		r = w.runs(w.lone("fix", turns.Owner))
		_, err = w.s.Settle(w.ctx, r, turns.Ending{State: turns.Failed, Class: turns.ClassAuth, Error: "401", Reason: "no login is left"})
		w.must(err)
		turn, a = w.turn("fix/2"), w.attempt("fix/2.1")
		if turn.Class != turns.ClassAuth || turn.Error != "401" || turn.Reason != "no login is left" || a.Class != turns.ClassAuth || a.Error != "401" {
			w.Errorf("%+v\n%+v", turn, a)
		}
		w.sound()
	})
}

// Each attempt keeps its own executor and error.
func TestAttemptsKeepTheirOwnErrors(t *testing.T) {
	each(t, func(w *world) {
		r := w.runs(w.lone("fix", turns.Reviewer))
		n := w.next(r.Attempt, turns.CauseHandoff)
		n.Class, n.Error, n.Progress = turns.ClassAuth, "401", turns.ProgressText
		on, err := w.s.Delegate(w.ctx, r, n)
		w.must(err)
		r = w.claim(on.Outbox)
		_, err = w.s.Settle(w.ctx, r, failed())
		w.must(err)
		first, second := w.attempt("fix/1.1"), w.attempt("fix/1.2")
		if first.Service != "claude" || first.Class != turns.ClassAuth || first.Error != "401" || first.Progress != turns.ProgressText ||
			first.Credential != "login-1" || first.Ended != turns.VerbDelegate || first.Next != second.ID {
			w.Errorf("%+v", first)
		}
		if second.Service != "codex-review" || second.Class != turns.ClassCrash || second.Cause != turns.CauseHandoff || second.Previous != first.ID {
			w.Errorf("%+v", second)
		}
		if turn := w.turn("fix/1"); turn.Opened != 1 || turn.Role != turns.Reviewer || turn.Class != turns.ClassCrash {
			w.Errorf("%+v", turn)
		}
		w.sound()
	})
}

// Waiting for a login has a start that further waits keep; anything else ends it.
func TestWaitSince(t *testing.T) {
	each(t, func(w *world) {
		r := w.claim(w.lone("fix", turns.Owner))
		wait := store.Successor{Service: "codex-main", Cause: turns.CauseWait, Reason: "cooldown"}
		_, err := w.s.Replace(w.ctx, r, wait)
		w.must(err)
		since := w.turn("fix/1").WaitSince
		if a := w.attempt("fix/1.2"); since.IsZero() || a.Cause != turns.CauseWait || a.Reason != "cooldown" {
			w.Fatalf("since %s, %+v", since, a)
		}
		w.until("the clock to move", func() bool {
			return w.rdb.Time(w.ctx).Val().UnixMilli() > since.UnixMilli()
		})
		r = w.claim(w.entry("fix/1.2"))
		_, err = w.s.Replace(w.ctx, r, wait)
		w.must(err)
		if got := w.turn("fix/1").WaitSince; !got.Equal(since) {
			w.Errorf("waits since %s, want %s", got, since)
		}
		r = w.claim(w.entry("fix/1.3"))
		_, err = w.s.Replace(w.ctx, r, w.next("fix/1.3", turns.CauseRetry))
		w.must(err)
		if turn := w.turn("fix/1"); !turn.WaitSince.IsZero() || turn.Opened != 1 {
			w.Errorf("%+v", turn)
		}
		w.sound()
	})
}

func TestAttemptCap(t *testing.T) {
	w := newWorld(t, redistest.Mini(t))
	e := w.lone("fix", turns.Owner)
	attempt := e.Attempt
	for range turns.AttemptCap - 1 {
		r := w.claim(w.entry(attempt))
		on, err := w.s.RestartAttempt(w.ctx, attempt, turns.NewToken(), w.next(attempt, turns.CauseRestart))
		w.must(err)
		_, err = w.s.Release(w.ctx, r)
		w.must(err)
		attempt = on.Attempt
	}
	w.claim(w.entry(attempt))
	before := w.dump()
	if _, err := w.s.RestartAttempt(w.ctx, attempt, "k", w.next(attempt, turns.CauseRestart)); err == nil {
		t.Errorf("attempt %s has a successor", attempt)
	}
	w.unchanged(before, "a restart beyond the cap")
	w.sound()
}

// cancel ends open child turns that name the turn as their parent, and none can be
// opened under it afterwards.
func TestCancelEndsChildTurns(t *testing.T) {
	each(t, func(w *world) {
		parent := w.runs(w.lone("fix", turns.Owner))
		child, grandchild, other := newTurn("fix~2", turns.Reviewer), newTurn("fix~3", turns.Owner), newTurn("fix~4", turns.Owner)
		child.Parent, grandchild.Parent = parent.Turn, "fix~2/1"
		w.runs(w.opens(child))
		w.opens(grandchild)
		w.runs(w.opens(other))
		_, err := w.s.Cancel(w.ctx, parent.Turn, "k", "enough")
		w.must(err)
		for id, want := range map[string]turns.State{"fix/1": turns.Cancelled, "fix~2/1": turns.Cancelled, "fix~3/1": turns.Cancelled, "fix~4/1": turns.Running} {
			if got := w.turn(id).State; got != want {
				w.Errorf("%s is %s, want %s", id, got, want)
			}
		}
		_, err = w.s.Cancel(w.ctx, parent.Turn, "k", "enough")
		w.must(err)
		var final *store.FinalError
		if _, err = w.s.Cancel(w.ctx, parent.Turn, "k2", "enough"); !errors.As(err, &final) || final.State != turns.Cancelled {
			w.Errorf("cancelled twice: %v", err)
		}
		before := w.dump()
		late := newTurn("fix~5", turns.Owner)
		late.Parent = parent.Turn
		_, err = w.s.OpenTurn(w.ctx, late)
		w.wants(err, store.ErrParentFinal)
		late.Parent = "fix/9"
		_, err = w.s.OpenTurn(w.ctx, late)
		w.wants(err, store.ErrParentFinal)
		w.unchanged(before, "a child under a final parent")
		w.sound()
	})
}

func TestPark(t *testing.T) {
	each(t, func(w *world) {
		r := w.runs(w.paired("fix"))
		p, err := w.s.Paired(w.ctx, "fix#1")
		w.must(err)
		p.Version, p.Status = 2, turns.PairCancelled
		before := w.dump()
		w.wants(w.s.Park(w.ctx, p), store.ErrMoved) // a turn is open
		w.unchanged(before, "park beside an open turn")
		_, err = w.s.Settle(w.ctx, r, failed())
		w.must(err)
		w.wants(w.s.Park(w.ctx, p), store.ErrMoved) // the version moved on
		p.Version = 3
		w.must(w.s.Park(w.ctx, p))
		before = w.dump()
		w.must(w.s.Park(w.ctx, p))
		w.unchanged(before, "a repeated park")
		p.Reason = "another one"
		w.wants(w.s.Park(w.ctx, p), store.ErrMoved)
		if got, err := w.s.Paired(w.ctx, "fix#1"); err != nil || got.Status != turns.PairCancelled || got.Version != 3 {
			w.Errorf("%+v, %v", got, err)
		}
		if _, ok := w.score("ended", "fix#1"); !ok {
			w.Error("its retention does not run")
		}
		w.sound()
	})
}

func TestLongAnswerIsCutBetweenCharacters(t *testing.T) {
	each(t, func(w *world) {
		for i, text := range []string{strings.Repeat("ä", store.MaxText), "x" + strings.Repeat("ä", store.MaxText),
			strings.Repeat("日", store.MaxText), strings.Repeat("a\xff", store.MaxText), strings.Repeat("😀", store.MaxText)} {
			r := w.runs(w.lone("fix", turns.Owner))
			e := completed()
			e.Text = text
			_, err := w.s.Settle(w.ctx, r, e)
			w.must(err)
			got, err := w.s.Text(w.ctx, r.Turn)
			w.must(err)
			kept, cut := strings.CutSuffix(got, store.CutNote)
			if !cut || len(got) > store.MaxText || len(got) < store.MaxText-4 || !utf8.ValidString(got) {
				w.Errorf("%d: %d bytes, cut %v, valid %v", i, len(got), cut, utf8.ValidString(got))
			}
			if !strings.HasPrefix(strings.ToValidUTF8(text, "\uFFFD"), kept) {
				w.Errorf("%d: the text before the note was changed", i)
			}
		}
		r := w.runs(w.lone("fix", turns.Owner))
		e := completed()
		e.Text = strings.Repeat("y", store.MaxText)
		_, err := w.s.Settle(w.ctx, r, e)
		w.must(err)
		if got, err := w.s.Text(w.ctx, r.Turn); err != nil || got != e.Text {
			w.Errorf("a text of just the bound has %d bytes, %v", len(got), err)
		}
	})
}

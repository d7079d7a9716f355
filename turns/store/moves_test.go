package store_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"rota/turns"
	"rota/turns/store"
)

// act is one way to ask for a move of an attempt. It returns nil when the move
// was made or had been made before.
type act struct {
	name string
	verb turns.Verb
	do   func(w *world, r store.Run, command string) error
	// byRun says that the run proves it; the others are commands.
	byRun bool
}

func completed() turns.Ending {
	return turns.Ending{State: turns.Completed, Text: "done"}
}

func failed() turns.Ending {
	return turns.Ending{State: turns.Failed, Class: turns.ClassCrash, Error: "exit 1"}
}

// next is a successor on the attempt's own service or, for a delegation, another.
func (w *world) next(attempt string, cause turns.Cause) store.Successor {
	service := w.attempt(attempt).Service
	if cause == turns.CauseHandoff {
		service = map[string]string{"claude": "codex-review", "codex-review": "claude"}[service]
	}
	return store.Successor{Service: service, Cause: cause, Class: turns.ClassCrash, Error: "exit 1"}
}

var acts = []act{
	{"claim", turns.VerbClaim, func(w *world, r store.Run, command string) error {
		c := claimOf(w.entry(r.Attempt))
		c.Run = command
		a, err := w.s.Claim(w.ctx, c)
		if err != nil || a.Answer == store.Claimed || a.Answer == store.Already {
			return err
		}
		return fmt.Errorf("answer %s", a.Answer)
	}, false},
	{"start", turns.VerbStart, func(w *world, r store.Run, _ string) error {
		return w.s.Start(w.ctx, r, "session-1", "login-1", "tree-1")
	}, true},
	{"requeue", turns.VerbRequeue, func(w *world, r store.Run, _ string) error {
		return w.s.Requeue(w.ctx, r, store.Requeue{Class: turns.ClassServer, Error: "500"})
	}, true},
	{"settle completed", turns.VerbSettle, func(w *world, r store.Run, _ string) error {
		_, err := w.s.Settle(w.ctx, r, completed())
		return err
	}, true},
	{"settle failed", turns.VerbSettle, func(w *world, r store.Run, _ string) error {
		_, err := w.s.Settle(w.ctx, r, failed())
		return err
	}, true},
	{"replace", turns.VerbReplace, func(w *world, r store.Run, _ string) error {
		_, err := w.s.Replace(w.ctx, r, w.next(r.Attempt, turns.CauseRetry))
		return err
	}, true},
	{"restart", turns.VerbReplace, func(w *world, r store.Run, command string) error {
		_, err := w.s.RestartAttempt(w.ctx, r.Attempt, command, w.next(r.Attempt, turns.CauseRestart))
		return err
	}, false},
	{"delegate", turns.VerbDelegate, func(w *world, r store.Run, _ string) error {
		_, err := w.s.Delegate(w.ctx, r, w.next(r.Attempt, turns.CauseHandoff))
		return err
	}, true},
	{"operator's handoff", turns.VerbDelegate, func(w *world, r store.Run, command string) error {
		_, err := w.s.DelegateAttempt(w.ctx, r.Attempt, command, w.next(r.Attempt, turns.CauseHandoff))
		return err
	}, false},
	{"lose", turns.VerbLose, func(w *world, r store.Run, _ string) error {
		_, err := w.s.Lose(w.ctx, r, true, w.next(r.Attempt, turns.CauseLost))
		return err
	}, true},
	{"lose last", turns.VerbLose, func(w *world, r store.Run, _ string) error {
		_, err := w.s.LoseLast(w.ctx, r, true, turns.Ending{Class: turns.ClassLost})
		return err
	}, true},
	{"compensate", turns.VerbCompensate, func(w *world, r store.Run, _ string) error {
		_, err := w.s.Compensate(w.ctx, r, failed())
		return err
	}, true},
	{"end", turns.VerbEnd, func(w *world, r store.Run, command string) error {
		_, err := w.s.End(w.ctx, r.Attempt, command, failed())
		return err
	}, false},
	{"cancel", turns.VerbCancel, func(w *world, r store.Run, command string) error {
		_, err := w.s.Cancel(w.ctx, r.Turn, command, "enough")
		return err
	}, false},
}

func actNamed(name string) act {
	i := slices.IndexFunc(acts, func(a act) bool { return a.name == name })
	return acts[i]
}

// origins are the ways into every state of an attempt. Each returns the run that
// was the last to hold the attempt; of a queued one that nobody claimed, a made-up
// one. Repeats are the acts that this run has done already.
var origins = []struct {
	name    string
	state   turns.State
	reach   func(w *world, thread string) store.Run
	repeats string
}{
	{"fresh", turns.Queued, func(w *world, thread string) store.Run {
		e := w.lone(thread, turns.Reviewer)
		return store.Run{Thread: thread, Turn: e.Turn, Attempt: e.Attempt, ID: "nobody", Fence: 1}
	}, ""},
	{"requeued", turns.Queued, then("start", "requeue"), "requeue"},
	{"starting", turns.Starting, then(), ""},
	{"running", turns.Running, then("start"), "start"},
	{"completed", turns.Completed, then("start", "settle completed"), "settle completed, settle failed"},
	{"failed", turns.Failed, then("start", "settle failed"), "settle completed, settle failed"},
	{"replaced", turns.Failed, then("replace"), "replace"},
	{"restarted", turns.Failed, then("start", "restart"), ""},
	{"delegated", turns.Delegated, then("delegate"), "delegate"},
	{"handed off", turns.Delegated, then("start", "operator's handoff"), ""},
	{"lost", turns.Lost, then("start", "lose"), "lose, lose last"},
	{"lost for good", turns.Lost, then("lose last"), "lose, lose last"},
	{"dead", turns.Failed, then("compensate"), "compensate"},
	{"ended", turns.Failed, then("requeue", "end"), "requeue"},
	{"cancelled", turns.Cancelled, then("start", "cancel"), ""},
}

// then claims a fresh turn and makes the moves.
func then(moves ...string) func(w *world, thread string) store.Run {
	return func(w *world, thread string) store.Run {
		w.Helper()
		r := w.claim(w.lone(thread, turns.Reviewer))
		for _, name := range moves {
			w.must(actNamed(name).do(w, r, turns.NewToken()))
		}
		return r
	}
}

// Every verb from every state: the legal ones are made and logged as the map of
// moves says, the others change nothing at all.
func TestEveryMoveFromEveryOrigin(t *testing.T) {
	each(t, func(w *world) {
		for _, from := range origins {
			for _, a := range acts {
				w.must(w.rdb.FlushDB(w.ctx).Err())
				what := fmt.Sprintf("%s of an attempt that is %s", a.name, from.name)
				r := from.reach(w, "fix-login")
				if got := w.attempt(r.Attempt).State; got != from.state {
					w.Fatalf("%s: it is %s", what, got)
				}
				subject, state := r.Attempt, from.state
				if a.name == "cancel" { // names the turn, so whatever attempt it is at
					subject = turns.AttemptID(r.Turn, w.turn(r.Turn).Attempt)
					state = w.attempt(subject).State
				}
				legal := slices.Contains(turns.Moves[a.verb].From, state) && (state.Held() || !a.byRun)
				before, lines := w.dump(), len(w.log(r.Turn))
				err := a.do(w, r, turns.NewToken())
				if !legal {
					w.unchanged(before, what)
					if repeat := slices.Contains(strings.Split(from.repeats, ", "), a.name); (err == nil) != repeat {
						w.Errorf("%s: %v", what, err)
					}
					continue
				}
				w.must(err)
				log := w.log(r.Turn)
				move := log[lines]
				if move.Verb != a.verb || move.Attempt != subject || move.From != state || !turns.Legal(a.verb, state, move.To) ||
					move.Role != turns.Reviewer || w.attempt(subject).State != move.To {
					w.Errorf("%s: logged %+v", what, move)
				}
				ends := w.turn(r.Turn).State.FinalForTurn()
				if want := turns.Moves[a.verb].Turn; ends && want == "open" || !ends && want == "ends" {
					w.Errorf("%s: the turn is %s", what, w.turn(r.Turn).State)
				}
				w.sound()
			}
		}
	})
}

// Every write of a run is refused with another run's id, with an older or newer
// fence, and for a run whose attempt somebody else holds now.
func TestWritesOfAnotherRunAreRefused(t *testing.T) {
	each(t, func(w *world) {
		n := 0
		for _, started := range []bool{false, true} {
			for _, a := range acts {
				if !a.byRun {
					continue
				}
				n++
				old := w.claim(w.lone(fmt.Sprintf("t%d", n), turns.Reviewer))
				w.must(w.s.Requeue(w.ctx, old, store.Requeue{}))
				r := w.claim(w.entry(old.Attempt))
				if r.Fence <= old.Fence {
					w.Fatalf("fence %d after %d", r.Fence, old.Fence)
				}
				if started {
					w.start(r)
				}
				wrongRun, oldFence, newFence := r, r, r
				wrongRun.ID, oldFence.Fence, newFence.Fence = turns.NewToken(), old.Fence, r.Fence+1
				for _, proof := range []store.Run{wrongRun, oldFence, newFence, old} {
					before := w.dump()
					err := a.do(w, proof, "")
					if repeat := proof == old && a.verb == turns.VerbRequeue; !repeat && !errors.Is(err, store.ErrStale) {
						w.Errorf("%s with %+v while %+v holds it: %v", a.name, proof, r, err)
					}
					w.unchanged(before, a.name+" of another run")
				}
				renewed, err := w.s.Renew(w.ctx, []store.Renewal{{Run: old}, {Run: r}, {Run: wrongRun}})
				if err != nil || renewed[0].OK || renewed[0].Over || !renewed[1].OK || renewed[2].OK {
					w.Errorf("renewals %+v, %v", renewed, err)
				}
				for _, proof := range []store.Run{wrongRun, oldFence, old} {
					before := w.dump()
					_, err := w.s.Item(w.ctx, proof, turns.Item{ID: "i", Kind: turns.ItemTool, State: turns.ItemOpen, Turn: r.Turn})
					w.wants(err, store.ErrStale)
					w.wants(w.s.Taken(w.ctx, proof, store.Ask{ID: "a"}, "done"), store.ErrStale)
					w.unchanged(before, "an item or answer of another run")
				}
			}
		}
	})
}

// Every move asked for twice by the same caller is answered with the same ids and
// changes nothing the second time, the log included.
func TestRepeatedMovesAnswerAlready(t *testing.T) {
	each(t, func(w *world) {
		for i, a := range acts {
			thread := fmt.Sprintf("t%d", i)
			var r store.Run
			if a.verb == turns.VerbClaim || a.verb == turns.VerbEnd {
				r = origins[0].reach(w, thread)
			} else {
				r = w.claim(w.lone(thread, turns.Reviewer))
			}
			command := turns.NewToken()
			w.must(a.do(w, r, command))
			before := w.dump()
			if err := a.do(w, r, command); err != nil {
				w.Errorf("%s again: %v", a.name, err)
			}
			w.unchanged(before, a.name+" again")
		}
		r := w.runs(w.lone("ids", turns.Reviewer))
		first, err := w.s.Delegate(w.ctx, r, w.next(r.Attempt, turns.CauseHandoff))
		w.must(err)
		again, err := w.s.Delegate(w.ctx, r, w.next(r.Attempt, turns.CauseHandoff))
		w.must(err)
		if first.Already || !again.Already || again.Attempt != first.Attempt || first.Outbox.Attempt != first.Attempt || again.Outbox.Attempt != "" {
			w.Errorf("first %+v, again %+v", first, again)
		}
	})
}

func TestUnknownTurnsAndAttempts(t *testing.T) {
	each(t, func(w *world) {
		before := w.dump()
		r := store.Run{Thread: "no", Turn: "no/1", Attempt: "no/1.1", ID: "nobody", Fence: 1}
		for _, a := range acts {
			if a.verb == turns.VerbClaim || a.verb == turns.VerbReplace || a.verb == turns.VerbDelegate || a.name == "lose" {
				continue
			}
			if err := a.do(w, r, "c"); !store.Refused(err) {
				w.Errorf("%s of nothing: %v", a.name, err)
			}
		}
		if a, err := w.s.Claim(w.ctx, store.Claim{Attempt: r.Attempt, Service: "claude", Run: "x"}); err != nil || a.Answer != store.Unknown {
			w.Errorf("claim of nothing: %+v, %v", a, err)
		}
		_, err := w.s.Delegate(w.ctx, r, store.Successor{Service: "claude", Cause: turns.CauseHandoff})
		w.wants(err, store.ErrNotFound)
		w.unchanged(before, "moves of nothing")
	})
}

package store_test

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// twin is the store once more, deliberately simple: maps in memory, one caller, no
// scripts, no indexes. Its methods answer with one word, "" for a move that was
// made or had been made before.
type twin struct {
	now     func() int64 // Redis' time, ms
	threads map[string]*twinThread
	items   map[string]string // open item -> attempt that opened it
}

type twinThread struct {
	name      string
	turns     []*twinTurn
	open      *twinTurn
	paired    turns.Paired
	messages  []string
	commands  map[string]bool
	fence     int64
	hold      int64
	holdUntil int64
}

type twinTurn struct {
	turn     turns.Turn
	attempts []*twinAttempt
	steers   []string
	asked    map[string]bool
	taken    map[string]bool
	said     []string
}

type twinAttempt struct {
	turns.Attempt
	lastRun string // that was given back
	endedBy string
	lease   int64 // its end, ms
}

func newTwin(now func() int64) *twin {
	return &twin{now: now, threads: map[string]*twinThread{}, items: map[string]string{}}
}

func (t *twinTurn) current() *twinAttempt { return t.attempts[len(t.attempts)-1] }

func (tw *twin) find(attempt string) (*twinThread, *twinTurn, *twinAttempt) {
	th := tw.threads[turns.ThreadOf(attempt)]
	if th == nil {
		return nil, nil, nil
	}
	for _, t := range th.turns {
		for _, a := range t.attempts {
			if a.ID == attempt {
				return th, t, a
			}
		}
	}
	return nil, nil, nil
}

func (tw *twin) open(n store.NewTurn) string {
	th := tw.threads[n.Thread]
	if th == nil {
		th = &twinThread{name: n.Thread, commands: map[string]bool{}}
		tw.threads[n.Thread] = th
	}
	if th.commands[n.Command] {
		return ""
	}
	if th.open != nil {
		return "busy"
	}
	paired := ""
	if n.Paired != nil {
		if n.New != (th.paired.ID != n.Paired.ID) || !n.New && th.paired.Version != n.Paired.Version-1 {
			return "refused"
		}
		paired, th.paired = n.Paired.ID, *n.Paired
		if n.New {
			th.paired.First = turns.TurnID(n.Thread, len(th.turns)+1)
		}
	}
	th.commands[n.Command] = true
	th.begin(turns.Next{Role: n.Role, Intent: n.Intent, Services: n.Seat.Services, Messages: n.Take}, paired, n.Prior)
	return ""
}

// begin opens the next turn of a thread.
func (th *twinThread) begin(n turns.Next, paired, prior string) {
	id := turns.TurnID(th.name, len(th.turns)+1)
	t := &twinTurn{turn: turns.Turn{ID: id, Role: n.Role, Intent: n.Intent, Paired: paired, Prior: prior, Services: n.Services, State: turns.Queued},
		asked: map[string]bool{}, taken: map[string]bool{}, said: slices.Clone(th.messages[:n.Messages])}
	th.messages = th.messages[n.Messages:]
	t.add(n.Services[0], turns.CauseInitial, "")
	th.turns = append(th.turns, t)
	th.open = t
}

func (t *twinTurn) add(service string, cause turns.Cause, previous string) {
	t.attempts = append(t.attempts, &twinAttempt{Attempt: turns.Attempt{ID: turns.AttemptID(t.turn.ID, len(t.attempts)+1),
		Service: service, Cause: cause, Previous: previous, State: turns.Queued}})
}

func (tw *twin) claim(c store.Claim, lease int64) store.Answer {
	th, t, a := tw.find(c.Attempt)
	switch {
	case a == nil:
		return store.Unknown
	case a.Service != c.Service:
		return store.WrongService
	case a.State.Held() && a.Run == c.Run:
		return store.Already
	case a.State.Held():
		return store.Busy
	case a != t.current():
		return store.Superseded
	case a.State != turns.Queued:
		return store.Final
	case a.lastRun == c.Run:
		return store.Busy
	case th.hold != 0 && th.holdUntil > tw.now():
		return store.Held
	}
	a.State, t.turn.State, a.Run, a.Deliveries = turns.Starting, turns.Starting, c.Run, a.Deliveries+1
	a.lease = tw.now() + lease
	th.holdUntil = a.lease
	return store.Claimed
}

// fenced tells the twin the fence of a claim; it must be higher than all before.
func (tw *twin) fenced(r store.Run) bool {
	th, _, a := tw.find(r.Attempt)
	grows := r.Fence > th.fence
	th.fence, th.hold, a.Fence = r.Fence, r.Fence, r.Fence
	return grows
}

// held returns what a run holds, or nothing when it holds it no more.
func (tw *twin) held(r store.Run) (*twinThread, *twinTurn, *twinAttempt) {
	th, t, a := tw.find(r.Attempt)
	if a == nil || a.Run != r.ID || a.Fence != r.Fence || !a.State.Held() {
		return nil, nil, nil
	}
	return th, t, a
}

func (tw *twin) start(r store.Run) string {
	_, t, a := tw.held(r)
	if a == nil {
		return "refused"
	}
	a.State, t.turn.State, t.turn.Tree = turns.Running, turns.Running, "tree-1"
	return ""
}

func (tw *twin) requeue(r store.Run, uncounted bool) string {
	if _, _, a := tw.find(r.Attempt); a != nil && a.lastRun == r.ID {
		return ""
	}
	th, t, a := tw.held(r)
	if a == nil {
		return "refused"
	}
	a.State, t.turn.State, a.lastRun = turns.Queued, turns.Queued, r.ID
	if uncounted {
		a.Deliveries--
	}
	tw.close(a.ID)
	th.free(r.Fence)
	return ""
}

func (th *twinThread) free(fence int64) {
	if th.hold == fence {
		th.hold = 0
	}
}

func (tw *twin) close(attempt string) {
	for item, by := range tw.items {
		if by == attempt {
			delete(tw.items, item)
		}
	}
}

// ending is what the moves have in common that end an attempt.
type ending struct {
	verb    turns.Verb
	attempt string
	by      string
	run     *store.Run // nil for a command
	lease   bool       // the lease must have run out
	keep    bool       // the hold stays
	to      turns.State
}

// end checks an ending and makes its common part; ok says that the turn is to be
// dealt with.
func (tw *twin) end(e ending) (th *twinThread, t *twinTurn, a *twinAttempt, word string, ok bool) {
	th, t, a = tw.find(e.attempt)
	switch {
	case a == nil:
		return nil, nil, nil, "unknown", false
	case a.Ended == e.verb && a.endedBy == e.by:
		return nil, nil, nil, "", false
	case e.run != nil && (a.Run != e.run.ID || a.Fence != e.run.Fence || !a.State.Held()),
		a != t.current(), !slices.Contains(turns.Moves[e.verb].From, a.State):
		return nil, nil, nil, "refused", false
	case e.lease && a.lease > tw.now():
		return nil, nil, nil, "alive", false
	}
	if a.State.Held() && !e.keep {
		th.free(a.Fence)
	}
	a.State, a.Ended, a.endedBy = e.to, e.verb, e.by
	return th, t, a, "", true
}

func (tw *twin) goOn(e ending, n store.Successor) string {
	_, t, a, word, ok := tw.end(e)
	if !ok {
		return word
	}
	t.add(n.Service, n.Cause, a.ID)
	a.Next = t.current().ID
	t.turn.State = turns.Queued
	switch {
	case n.Cause.Counted():
		t.turn.Opened++
	case n.Cause == turns.CauseLost:
		t.turn.Losses++
	case n.Cause == turns.CauseReminder:
		t.turn.Reminders++
	}
	if n.Cause != turns.CauseRestart {
		tw.close(a.ID)
	}
	return ""
}

func (tw *twin) finish(e ending, how turns.Ending) string {
	th, t, _, word, ok := tw.end(e)
	if !ok {
		return word
	}
	how.StartTree = t.turn.Tree
	th.messages = append(th.messages, t.steers...)
	t.steers = nil
	var plan turns.Plan
	if t.turn.Paired != "" {
		plan = pairs.Plan(turns.View{Turn: t.turn, Ending: how, Paired: th.paired, Messages: len(th.messages), Crew: crew})
	}
	t.turn.State, t.turn.Outcome, th.open = how.State, how.Outcome, nil
	for _, a := range t.attempts {
		tw.close(a.ID)
	}
	if plan.Moved {
		th.paired = plan.Paired
	}
	if plan.Next != nil {
		th.begin(*plan.Next, t.turn.Paired, t.turn.ID)
	}
	return ""
}

// String is all that can be observed, a line a thing.
func (tw *twin) String() string {
	var lines []string
	for _, th := range tw.threads {
		open := ""
		if th.open != nil {
			open = th.open.turn.ID
		}
		lines = append(lines, threadLine(th.name, len(th.turns), open, th.hold, th.paired, th.messages))
		for _, t := range th.turns {
			lines = append(lines, turnLine(t.turn, len(t.attempts), t.said))
			for _, a := range t.attempts {
				lines = append(lines, attemptLine(a.Attempt))
			}
		}
	}
	for item, attempt := range tw.items {
		lines = append(lines, fmt.Sprintf("item %s of %s", item, attempt))
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func threadLine(name string, n int, open string, hold int64, p turns.Paired, messages []string) string {
	return fmt.Sprintf("%s: %d turns, open %q, hold %d, paired %s v%d %s (from %q) rounds %d arbitrations %d turns %d first %s accepted %q, waiting %v",
		name, n, open, hold, p.ID, p.Version, p.Status, p.From, p.Rounds, p.Arbitrations, p.Turns, p.First, p.Accepted, messages)
}

func turnLine(t turns.Turn, attempts int, said []string) string {
	return fmt.Sprintf("%s: %s %s %s of %q after %q, %d attempts, opened %d losses %d reminders %d, outcome %q, said %v",
		t.ID, t.Role, t.Intent, t.State, t.Paired, t.Prior, attempts, t.Opened, t.Losses, t.Reminders, t.Outcome, said)
}

func attemptLine(a turns.Attempt) string {
	return fmt.Sprintf("%s: %s on %s for %s, %d deliveries, fence %d, after %q before %q, ended by %q",
		a.ID, a.State, a.Service, a.Cause, a.Deliveries, a.Fence, a.Previous, a.Next, a.Ended)
}

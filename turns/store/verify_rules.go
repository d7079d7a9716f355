package store

import (
	"fmt"
	"slices"
	"strings"

	"rota/turns"
)

// report collects violations.
type report []Violation

func (r *report) add(invariant int, id, format string, args ...any) {
	*r = append(*r, Violation{invariant, id, fmt.Sprintf(format, args...)})
}

// check holds a thread and all of its turns against the invariants.
func (v *threadView) check(name string) report {
	var r report
	v.checkOpen(&r, name)
	v.checkHold(&r, name)
	for _, at := range v.loose {
		invariant := 3
		if strings.HasSuffix(at.index, ":open") || strings.HasSuffix(at.index, ":threads") {
			invariant = 2
		}
		r.add(invariant, at.member, "stands in %s, but there is no such thing", at.index)
	}
	var fence int64
	byID := map[string]*turnView{}
	for _, t := range v.turns {
		byID[t.turn.ID] = t
	}
	for _, t := range v.turns {
		t.checkRole(&r)
		fence = t.replay(&r, fence)
		t.checkNets(&r)
		t.checkSuccessors(&r)
		t.checkBudgets(&r)
		t.checkNext(&r, v.thread, byID)
	}
	if fence > v.thread.Fence {
		r.add(5, name, "the thread's fence is %d, but %d was given out", v.thread.Fence, fence)
	}
	return r
}

// checkOpen: one open turn, and every index says so; a paired task at work has one.
func (v *threadView) checkOpen(r *report, name string) {
	open, pairedOpen := "", false
	for _, t := range v.turns {
		if t.turn.State.Open() != t.indexed {
			r.add(2, t.turn.ID, "is %s, and in the index of open turns: %v", t.turn.State, t.indexed)
		}
		if !t.turn.State.Open() {
			continue
		}
		if open != "" {
			r.add(2, name, "%s and %s are open", open, t.turn.ID)
		}
		open = t.turn.ID
		pairedOpen = pairedOpen || t.turn.Paired == v.paired.ID
	}
	if v.thread.OpenTurn != open {
		r.add(2, name, "the thread's open turn is %q, but %q is open", v.thread.OpenTurn, open)
	}
	want := open
	if name == turns.Root(name) {
		want = ""
	}
	if v.live != want {
		r.add(2, name, "the root's index has the open turn %q, want %q", v.live, want)
	}
	if v.indexed && !v.exists {
		r.add(2, name, "stands in the index of threads, but there is no such thread: its counter of turns is gone")
	}
	if open != "" && !v.indexed {
		r.add(2, name, "%s is open, but the thread is not in the index of threads", open)
	}
	if v.paired.ID != "" && !v.paired.Status.Finished() && v.paired.Status != turns.NeedsHuman && !pairedOpen {
		r.add(10, v.paired.ID, "is %s, but no turn of it is open", v.paired.Status)
	}
}

// checkHold: whoever holds an attempt has the thread's hold.
func (v *threadView) checkHold(r *report, name string) {
	if v.thread.Hold > v.thread.Fence {
		r.add(9, name, "the hold is %d, but the last fence is %d", v.thread.Hold, v.thread.Fence)
	}
	given := v.thread.Hold == 0 || len(v.turns) < v.thread.Turns // the run's turn may have been removed
	for _, t := range v.turns {
		for _, e := range t.log {
			given = given || e.Verb == turns.VerbClaim && e.Fence == v.thread.Hold
		}
		if a := t.attempts[t.turn.Attempt]; a != nil && a.attempt.State.Held() && a.attempt.Fence != v.thread.Hold {
			r.add(9, a.attempt.ID, "is %s with fence %d, but the thread's hold is %d", a.attempt.State, a.attempt.Fence, v.thread.Hold)
		}
	}
	if !given {
		r.add(9, name, "the hold is %d, which no claim was given", v.thread.Hold)
	}
}

// checkRole: role and intent belong together, and the log never saw another role.
func (t *turnView) checkRole(r *report) {
	if err := turns.CheckRole(t.turn.Role, t.turn.Intent); err != nil {
		r.add(1, t.turn.ID, "%v", err)
	}
	for _, e := range t.log {
		if e.Role != t.turn.Role {
			r.add(1, t.turn.ID, "is a turn of the %s, but %s was logged for the %s", t.turn.Role, e.Verb, e.Role)
		}
	}
}

// checkNets: an open attempt has exactly one net, an ended one has none; only the
// current attempt is open.
func (t *turnView) checkNets(r *report) {
	for n, v := range t.attempts {
		a, id := v.attempt, turns.AttemptID(t.turn.ID, n)
		if a.State.Open() && (n != t.turn.Attempt || !t.turn.State.Open()) {
			r.add(2, id, "is %s, but the turn is %s at attempt %d", a.State, t.turn.State, t.turn.Attempt)
		}
		if queued := a.State == turns.Queued; v.queued != queued {
			r.add(3, id, "is %q, and in the outbox: %v", a.State, v.queued)
		}
		if v.leased != a.State.Held() {
			r.add(3, id, "is %q, and among the leases: %v", a.State, v.leased)
		}
		if a.ID != "" && !slices.Contains(t.turn.Services, a.Service) {
			r.add(7, id, "is for %q, which takes no turns of the %s", a.Service, t.turn.Role)
		}
	}
}

// checkSuccessors: an attempt that the turn went on from has the next one as its
// only successor, the current one has none.
func (t *turnView) checkSuccessors(r *report) {
	for n, v := range t.attempts {
		a, id := v.attempt, turns.AttemptID(t.turn.ID, n)
		want, previous := "", ""
		if n < t.turn.Attempt {
			want = turns.AttemptID(t.turn.ID, n+1)
		}
		if n > 1 {
			previous = turns.AttemptID(t.turn.ID, n-1)
		}
		switch {
		case n > t.turn.Attempt:
			r.add(6, id, "exists, but the turn is at attempt %d", t.turn.Attempt)
		case a.ID == "":
			r.add(6, id, "is missing, though the turn is at attempt %d", t.turn.Attempt)
		case a.Next != want:
			r.add(6, id, "has the successor %q, want %q", a.Next, want)
		case a.Previous != previous:
			r.add(6, id, "follows on %q, want %q", a.Previous, previous)
		}
	}
}

// checkBudgets: the counters are what the attempts say, and within their budgets.
func (t *turnView) checkBudgets(r *report) {
	opened, losses, reminders := 0, 0, 0
	for _, v := range t.attempts {
		switch a := v.attempt; {
		case a.Number > t.turn.Attempt:
		case a.Cause.Counted():
			opened++
		case a.Cause == turns.CauseLost:
			losses++
		case a.Cause == turns.CauseReminder:
			reminders++
		}
		if d := v.attempt.Deliveries; d > t.turn.Limits.Deliveries {
			r.add(10, v.attempt.ID, "has %d deliveries of %d", d, t.turn.Limits.Deliveries)
		}
	}
	for _, c := range []struct {
		what             string
		is, count, limit int
	}{
		{"attempts opened", t.turn.Opened, opened, t.turn.Limits.Attempts},
		{"losses", t.turn.Losses, losses, t.turn.Limits.Losses},
		{"reminders", t.turn.Reminders, reminders, t.turn.Limits.Reminders},
		{"attempts", t.turn.Attempt, t.turn.Attempt, turns.AttemptCap},
	} {
		if c.is != c.count {
			r.add(10, t.turn.ID, "%s: the counter says %d, the attempts %d", c.what, c.is, c.count)
		}
		if c.is > c.limit {
			r.add(10, t.turn.ID, "%s: %d of %d", c.what, c.is, c.limit)
		}
	}
	if t.turn.State.Open() != t.turn.Ended.IsZero() {
		r.add(10, t.turn.ID, "is %s, and its end is %v", t.turn.State, t.turn.Ended)
	}
	if t.turn.State == turns.Failed && t.turn.Class == "" {
		r.add(10, t.turn.ID, "failed without a class")
	}
}

// checkNext: the end of a turn opened the next one only from an explicit outcome,
// in the same write.
func (t *turnView) checkNext(r *report, thread turns.Thread, byID map[string]*turnView) {
	if t.next == "" {
		return
	}
	if _, err := turns.ParseOutcome(t.turn.Role, string(t.turn.Outcome)); t.turn.State != turns.Completed || err != nil {
		r.add(8, t.turn.ID, "is %s with outcome %q, and its end opened %s", t.turn.State, t.turn.Outcome, t.next)
	}
	if t.next != turns.TurnID(thread.Name, t.turn.Number+1) || t.turn.Number+1 > thread.Turns {
		r.add(8, t.turn.ID, "its end opened %s, which is not the next turn", t.next)
	}
	next := byID[t.next]
	if next == nil {
		return
	}
	if next.turn.Prior != t.turn.ID || next.turn.Paired != t.turn.Paired {
		r.add(8, t.next, "follows on %q of %q, but was opened by the end of %s", next.turn.Prior, next.turn.Paired, t.turn.ID)
	}
	if len(t.log) > 0 && len(next.log) > 0 && !t.log[len(t.log)-1].At.Equal(next.log[0].At) {
		r.add(8, t.next, "was not opened in the write that ended %s", t.turn.ID)
	}
}

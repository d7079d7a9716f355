package store

import (
	"rota/turns"
)

// replay goes through the log of a turn as the machine allows it, and compares
// where it ends with what is stored. Fence is the last one given out in the turns
// before; it returns the last one given out in this turn.
func (t *turnView) replay(r *report, fence int64) int64 {
	m := machine{turn: t, states: map[int]turns.State{}, fences: map[int]int64{}, fence: fence}
	if len(t.log) == 0 {
		r.add(4, t.turn.ID, "is %s without a log", t.turn.State)
		return fence
	}
	for _, e := range t.log {
		m.step(r, e)
	}
	m.compare(r)
	return m.fence
}

// machine is the state of a replay.
type machine struct {
	turn    *turnView
	states  map[int]turns.State // of each attempt
	fences  map[int]int64       // of each attempt's last claim
	fence   int64               // the last one given out
	current int
	ended   turns.State // of the turn, once it has ended
}

func (m *machine) step(r *report, e turns.Entry) {
	_, n, err := turns.ParseAttempt(e.Attempt)
	if err != nil {
		r.add(4, m.turn.turn.ID, "its log can't be read: %v", err)
		return
	}
	from := m.states[n]
	switch {
	case m.ended != "" || from.Final():
		r.add(6, e.Attempt, "%s was logged after its end", e.Verb)
	case e.From != from || !turns.Legal(e.Verb, from, e.To):
		r.add(4, e.Attempt, "%s from %q to %q was logged while it was %q", e.Verb, e.From, e.To, from)
	case e.Verb == turns.VerbOpen && n != 1 || e.Verb != turns.VerbOpen && n != m.current:
		r.add(6, e.Attempt, "%s was logged while attempt %d was the current one", e.Verb, m.current)
	}
	m.checkProof(r, e, n, from)
	m.states[n] = e.To
	switch e.Verb {
	case turns.VerbOpen:
		m.current = 1
	case turns.VerbReplace, turns.VerbDelegate:
		m.goOn(n)
	case turns.VerbLose:
		if m.turn.turn.Attempt > n {
			m.goOn(n)
		} else {
			m.ended = turns.Failed
		}
	case turns.VerbSettle, turns.VerbCompensate, turns.VerbEnd, turns.VerbCancel:
		m.ended = e.To
	}
}

func (m *machine) goOn(n int) {
	m.current = n + 1
	m.states[m.current] = turns.Queued
}

// checkProof: a claim gets a higher fence than all before and is made by the
// attempt's own service; the moves of a held attempt carry its run's fence.
func (m *machine) checkProof(r *report, e turns.Entry, n int, from turns.State) {
	if a := m.turn.attempts[n]; a != nil && a.attempt.ID != "" && e.Service != a.attempt.Service {
		r.add(7, e.Attempt, "%s by %s, but the attempt is for %s", e.Verb, e.Service, a.attempt.Service)
	}
	switch {
	case e.Verb == turns.VerbClaim:
		if e.Fence <= m.fence {
			r.add(5, e.Attempt, "was claimed with fence %d after %d", e.Fence, m.fence)
		}
		m.fence, m.fences[n] = max(m.fence, e.Fence), e.Fence
	case from.Held() && e.Fence != m.fences[n]:
		r.add(4, e.Attempt, "%s with fence %d, but its run has %d", e.Verb, e.Fence, m.fences[n])
	}
}

func (m *machine) compare(r *report) {
	t := m.turn.turn
	if t.Attempt != m.current {
		r.add(6, t.ID, "is at attempt %d, by its log at %d", t.Attempt, m.current)
	}
	want := m.ended
	if want == "" {
		want = m.states[m.current]
	}
	if t.State != want {
		invariant := 4
		if want.FinalForTurn() {
			invariant = 6
		}
		r.add(invariant, t.ID, "is %s, by its log %s", t.State, want)
	}
	for n, a := range m.turn.attempts {
		if a.attempt.ID == "" || n > t.Attempt {
			continue
		}
		if state := m.states[n]; a.attempt.State != state {
			invariant := 4
			if state.Final() {
				invariant = 6
			}
			r.add(invariant, a.attempt.ID, "is %s, by the log %q", a.attempt.State, state)
		}
		if a.attempt.Fence != m.fences[n] {
			r.add(5, a.attempt.ID, "has fence %d, by the log %d", a.attempt.Fence, m.fences[n])
		}
	}
}

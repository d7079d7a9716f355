package model

import (
	"fmt"

	"rota/turns"
)

// checkWrite holds one write against the rules about the step: only the run that
// holds an attempt writes, what is final stays, roles never change, and the next
// turn comes from an outcome or from a person.
func (m *model) checkWrite(x *step, before *stored, w *write) {
	after := &x.s.Store
	if *after == *before {
		return
	}
	was := state{Store: *before}
	if w.Run != 0 && w.Verb != vClaim {
		a := was.attempt(w.Turn, w.Attempt)
		if !held(a.State) || a.Run != w.Run || a.Fence != w.Fence {
			x.bad = fmt.Sprintf("invariant 4: %s by run %d changed something, but %d.%d is %s with run %d", verbNames[w.Verb], w.Run, w.Turn, w.Attempt, stateOf[a.State], a.Run)
		}
	}
	for t := uint8(1); t <= before.Counter; t++ {
		u, v := was.turn(t), x.s.turn(t)
		if u.Role != v.Role || u.Intent != v.Intent {
			x.bad = fmt.Sprintf("invariant 1: turn %d changed its role", t)
		}
		if !open(u.State) && u.State != v.State {
			x.bad = fmt.Sprintf("invariant 6: turn %d was %s and is %s", t, stateOf[u.State], stateOf[v.State])
		}
		for n := uint8(1); n <= u.Attempt; n++ {
			a, b := &u.Attempts[n-1], &v.Attempts[n-1]
			if a.State != b.State && !legal(a.State, b.State) {
				x.bad = fmt.Sprintf("invariant 6: %d.%d was %s and is %s", t, n, stateOf[a.State], stateOf[b.State])
			}
			if held(b.State) && a.State == queued && (w.Verb != vClaim || b.Run == w.Run && w.Service != b.Service) {
				x.bad = fmt.Sprintf("invariant 7: %d.%d for service %s was taken by %s", t, n, serviceOf[b.Service], serviceOf[w.Service])
			}
			if held(a.State) && held(b.State) && a.Run != b.Run {
				x.bad = fmt.Sprintf("invariant 4: %d.%d was taken away from run %d by run %d", t, n, a.Run, b.Run)
			}
		}
	}
	if after.Counter > before.Counter {
		m.checkOpened(x, &was, w)
	}
}

func legal(from, to standing) bool {
	for _, mv := range turns.Moves {
		if turns.Legal(mv.Verb, stateOf[from], stateOf[to]) {
			return true
		}
	}
	return false
}

// checkOpened: where a next turn may come from.
func (m *model) checkOpened(x *step, was *state, w *write) {
	next := x.s.turn(x.s.Store.Counter)
	switch {
	case w.Verb == vOpen:
		x.s.Opens++
		if x.s.Opens > 1 {
			x.bad = "invariant 8: one command opened two turns"
		}
		if was.Store.Open != 0 {
			x.bad = "invariant 8: a person's command opened a turn beside an open one"
		}
	case w.Verb != vSettle || w.State != completed:
		x.bad = fmt.Sprintf("invariant 8: %s as %s opened the next turn", verbNames[w.Verb], stateOf[w.State])
	case was.Store.Messages > 0 && (intentOf[next.Intent] != turns.FollowUp || x.s.Store.Messages != 0):
		x.bad = "section 5: people's messages waited and the next turn does not have them"
	}
}

// check holds a state against the invariants. It answers "" or what is broken.
func (m *model) check(s *state) string {
	if bad := m.checkAgents(s); bad != "" {
		return bad
	}
	opened := uint8(0)
	for t := uint8(1); t <= s.Store.Counter; t++ {
		u := s.turn(t)
		if err := turns.CheckRole(roleOf[u.Role], intentOf[u.Intent]); err != nil {
			return "invariant 1: " + err.Error()
		}
		if open(u.State) {
			if opened != 0 {
				return fmt.Sprintf("invariant 2: turns %d and %d are open", opened, t)
			}
			opened = t
			if statusOf[s.Store.Status] != statusFor(u.Intent) {
				return fmt.Sprintf("invariant 8: a turn to %s is open while the paired task is %s", intentOf[u.Intent], statusOf[s.Store.Status])
			}
		}
		if bad := checkTurn(u, t, s.Dropped); bad != "" {
			return bad
		}
	}
	if opened != s.Store.Open {
		return fmt.Sprintf("invariant 2: the thread's open turn is %d, but %d is open", s.Store.Open, opened)
	}
	if opened == 0 && statusOf[s.Store.Status] != turns.NeedsHuman && !statusOf[s.Store.Status].Finished() {
		return fmt.Sprintf("invariant 10: the paired task is %s and no turn is open", statusOf[s.Store.Status])
	}
	if statusOf[s.Store.Status].Finished() && s.Store.Messages > 0 {
		return "section 5: the paired task has ended over a person's message"
	}
	return ""
}

func checkTurn(u *turn, t uint8, dropped bool) string {
	losses, opens := uint8(0), uint8(0)
	for n := uint8(1); n <= maxAttempts; n++ {
		a := &u.Attempts[n-1]
		if a.State == 0 {
			continue
		}
		last := n == u.Attempt
		switch {
		case n > u.Attempt:
			return fmt.Sprintf("invariant 6: %d.%d exists, but the turn is at attempt %d", t, n, u.Attempt)
		case open(a.State) && !last:
			return fmt.Sprintf("invariant 2: %d.%d is open, but the turn is at attempt %d", t, n, u.Attempt)
		case last && open(u.State) && a.State != u.State:
			return fmt.Sprintf("invariant 2: turn %d is %s, but its attempt %s", t, stateOf[u.State], stateOf[a.State])
		case last && !open(u.State) && open(a.State):
			return fmt.Sprintf("invariant 2: turn %d is %s, but its attempt is open", t, stateOf[u.State])
		case (a.Box != 0) != (a.State == queued):
			return fmt.Sprintf("invariant 3: %d.%d is %s, outbox entry %v", t, n, stateOf[a.State], a.Box != 0)
		case a.Lease != held(a.State) && !(dropped && held(a.State)):
			return fmt.Sprintf("invariant 3: %d.%d is %s, lease entry %v", t, n, stateOf[a.State], a.Lease)
		case a.Next != !last:
			return fmt.Sprintf("invariant 6: %d.%d has a successor: %v, but the turn is at attempt %d", t, n, a.Next, u.Attempt)
		case int(a.Deliveries) > limits.Deliveries:
			return fmt.Sprintf("invariant 10: %d.%d has %d deliveries of %d", t, n, a.Deliveries, limits.Deliveries)
		}
		switch c := causeOf[a.Cause]; {
		case c.Counted():
			opens++
		case c == turns.CauseLost:
			losses++
		}
	}
	if u.Attempt > 0 && (losses != u.Losses || opens != u.Opened || int(losses) > limits.Losses || int(opens) > limits.Attempts) {
		return fmt.Sprintf("invariant 10: turn %d counts %d losses and %d openings, its attempts say %d and %d", t, u.Losses, u.Opened, losses, opens)
	}
	return ""
}

// checkAgents: never two live agents in the thread, and whoever lives has the hold,
// unless a failover lost its claim.
func (m *model) checkAgents(s *state) string {
	live := 0
	check := func(fence uint8, ghost bool, agent uint8) string {
		if agent != agentAlive {
			return ""
		}
		if live++; live > 1 {
			return "invariant 9: two agents live in the thread"
		}
		if !ghost && !s.Other && !s.Store.Held && (s.Store.Hold != fence || s.Store.Over) {
			return fmt.Sprintf("invariant 9: an agent of fence %d lives, but the hold is %d (over: %v)", fence, s.Store.Hold, s.Store.Over)
		}
		return ""
	}
	for i := range s.Workers {
		if bad := check(s.Workers[i].Fence, s.Workers[i].Ghost, s.Workers[i].Agent); bad != "" {
			return bad
		}
	}
	for i := range s.Guards {
		if bad := check(s.Guards[i].Fence, s.Guards[i].Ghost, s.Guards[i].Agent); bad != "" {
			return bad
		}
	}
	return ""
}

// checkRest is what must be true where nothing can happen any more.
func checkRest(s *state) string {
	if s.Store.Open != 0 {
		t, n, a := s.current()
		return fmt.Sprintf("invariant 10: nothing can happen any more, but %d.%d is %s", t, n, stateOf[a.State])
	}
	for i := range s.Workers {
		if s.Workers[i].PC != pcIdle {
			return "invariant 10: a worker waits for ever"
		}
	}
	if s.Store.Amnesty || s.Store.Held || s.Other {
		return "invariant 10: an amnesty never ends"
	}
	return ""
}

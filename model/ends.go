package model

// finish is the twin of lib/finish.lua: settle, compensate, end, cancel, lose_last.
func (x scripts) finish(w *write) answer {
	s, st := x.s, &x.s.Store
	u, a := s.turn(w.Turn), s.attempt(w.Turn, w.Attempt)
	if a.State == 0 || u.State == 0 {
		return ansUnknown
	}
	if a.Ended == w.Verb && a.By == w.By && x.m != SettleTwice {
		return ansAlready
	}
	if w.Run != 0 && !x.holds(w, a) && !(x.m == SettleWithoutFence && w.Verb == vSettle) {
		return ansStale
	}
	if u.Attempt != w.Attempt && x.m != SettleWithoutFence || !x.mayFinish(w.Verb, a.State) {
		return ansStale
	}
	seen := st.Messages
	if w.Seen != 0 {
		seen = w.Seen - 1
		if seen != st.Messages && x.m != MessagesNotCompared {
			return ansMoved
		}
	}
	hadRun := held(a.State)
	end := w.State
	plan := x.j.plan(planKey{State: end, Outcome: w.Outcome, Role: u.Role, Intent: u.Intent, Status: st.Status, From: st.From,
		Rounds: st.Rounds, Turned: st.Turned, Messages: seen})
	if x.m == FailureMovesOn && end == failed {
		plan = x.j.plan(planKey{State: completed, Outcome: w.Outcome, Role: u.Role, Intent: u.Intent, Status: st.Status, From: st.From,
			Rounds: st.Rounds, Turned: st.Turned, Messages: seen})
	}
	a.State, a.Ended, a.By = end, w.Verb, w.By
	if w.Verb == vLose {
		a.State = lost
	}
	u.State = end
	st.Open = 0
	a.Box = 0
	if x.m != SettleKeepsLease || w.Verb != vSettle {
		a.Lease = false
	}
	look := boxDue
	if hadRun {
		if w.Keep && !(x.m == CancelFreesHold && w.Verb == vCancel) {
			if st.Hold != 0 && !st.Over {
				look = boxWaitHold
			}
		} else {
			x.freeHold(a.Fence)
		}
	}
	if plan.Moved {
		st.Status, st.From, st.Rounds, st.Turned = plan.Status, plan.From, plan.Rounds, plan.Turned
	}
	if plan.Role != 0 {
		st.Messages -= min(plan.Messages, st.Messages)
		x.writeTurn(plan.Role, plan.Intent, look)
		u.Next = st.Counter
	}
	return ansDone
}

func (x scripts) mayFinish(v verb, from standing) bool {
	switch v {
	case vSettle:
		return held(from) || x.m == SettleTwice && from == completed || x.m == SettleWithoutFence
	case vCompensate:
		return from == starting
	case vEnd:
		return from == queued
	case vLose:
		return held(from)
	}
	return open(from)
}

// writeTurn is the twin of lib/open_turn.lua.
func (x scripts) writeTurn(role, intent uint8, look box) {
	st := &x.s.Store
	if st.Counter == maxTurns {
		return
	}
	if x.m == DefaultRole {
		role = numberOf(roleOf, "owner")
	}
	st.Counter++
	st.Open = st.Counter
	first := numberOf(serviceOf, seats[roleOf[role]].Services[0])
	u := turn{State: queued, Role: role, Intent: intent, Attempt: 1}
	u.Attempts[0] = attempt{State: queued, Service: first, Cause: numberOf(causeOf, "initial"), Box: look}
	*x.s.turn(st.Counter) = u
}

// open is a person's retry of a failed turn, with a command id.
func (x scripts) open(w *write) answer {
	st := &x.s.Store
	if st.Retried != 0 && x.m != CommandForgotten {
		return ansAlready
	}
	if st.Open != 0 {
		return ansBusy
	}
	if w.Turn != st.Counter || statusOf[st.Status] != "needs_human" {
		if x.m != CommandForgotten {
			return ansMoved
		}
	}
	u := x.s.turn(st.Counter)
	st.Status, st.From, st.Rounds, st.Turned = numberOf(statusOf, statusFor(u.Intent)), 0, 0, 1
	if roleOf[u.Role] == "reviewer" {
		st.Rounds = 1
	}
	x.writeTurn(u.Role, u.Intent, boxDue)
	st.Retried = st.Counter
	return ansDone
}

// keep is release, hold and renew.
func (x scripts) keep(w *write) answer {
	st := &x.s.Store
	switch w.Verb {
	case vRelease:
		if a := x.s.attempt(w.Turn, w.Attempt); held(a.State) && a.Fence == w.Fence {
			return ansHeld
		}
		if st.Hold != w.Fence {
			return ansAlready
		}
		st.Hold, st.Over = 0, false
		if _, _, a := x.s.current(); a != nil && a.Box == boxWaitHold {
			a.Box = boxDue
		}
	case vHold:
		if st.Hold != w.Fence {
			return ansStale
		}
		st.Over = false
	case vRenew:
		a := x.s.attempt(w.Turn, w.Attempt)
		if !held(a.State) || !x.holds(w, a) {
			return ansStale
		}
		a.Lease = true
		if st.Hold == w.Fence {
			st.Over = false
		}
	}
	return ansDone
}

// look is a pass that sees another server than before: an amnesty, and no claims.
func (x scripts) look() answer {
	if x.m != FailoverUnseen {
		x.s.Store.Amnesty, x.s.Store.Held = true, true
	}
	x.s.Other = false
	return ansDone
}

package model

import "rota/turns"

// workerSteps are the steps of handlers/attempt.go, of the hook, and of the guard
// of a run whose worker lives.
func (m *model) workerSteps(pre *state, i int) {
	w := &pre.Workers[i]
	who := [...]string{"worker 1", "worker 2"}[i]
	if w.PC == pcIdle {
		m.take(pre, i, who)
		return
	}
	m.workerFaults(pre, i, who)
	if w.Paused {
		x := m.begin(pre, who, "goes on")
		x.s.Workers[i].Paused = false
		m.emit(x)
		if w.Guard {
			m.livingGuard(pre, i)
		}
		return
	}
	switch w.PC {
	case pcDelivered:
		m.claim(pre, i, who)
	case pcClaimed:
		m.launch(pre, i, who)
	case pcStarting, pcRunning:
		m.work(pre, i, who)
	case pcEnded:
		m.settle(pre, i, who)
	case pcStopping:
		m.stopAgent(pre, i, who)
	case pcRelease:
		m.send(pre, who, "", write{Verb: vRelease, Turn: w.Turn, Attempt: w.Attempt, Fence: w.Fence}, func(x *step, _ answer) {
			x.s.Workers[i].finish(actDone)
		}, func(x *step) { x.s.Workers[i].finish(actDone) })
	case pcFinish:
		m.finishTask(pre, i, who)
	case pcLateHook:
		m.send(pre, who, "late hook:", m.ending(pre, w, vCompensate, failed), func(x *step, _ answer) { x.s.Workers[i] = worker{} }, nil)
	}
}

func (w *worker) finish(act uint8) {
	w.PC, w.Act, w.Guard, w.Seen = pcFinish, act, false, 0
}

// take is asynq's dequeue.
func (m *model) take(pre *state, i int, who string) {
	for t := uint8(1); t <= pre.Store.Counter; t++ {
		for n := uint8(1); n <= maxAttempts; n++ {
			for k, at := range pre.Tasks[t-1][n-1] {
				if at != taskPending {
					continue
				}
				x := m.begin(pre, who, "takes a task")
				x.s.Tasks[t-1][n-1][k] = taskActive1 + uint8(i)
				x.s.Workers[i] = worker{PC: pcDelivered, Turn: t, Attempt: n, Slot: uint8(k), Service: pre.attempt(t, n).Service}
				m.emit(x)
				if m.may(pre, LostTask) {
					x := m.fault(pre, who, "takes a task and the answer is lost")
					x.s.Tasks[t-1][n-1][k] = taskOrphan
					m.emit(x)
				}
				if m.may(pre, WrongQueue) {
					x := m.fault(pre, who, "takes a copy from another service's queue")
					x.s.Workers[i] = worker{PC: pcDelivered, Turn: t, Attempt: n, Slot: uint8(k), Service: 3 - pre.attempt(t, n).Service}
					m.emit(x)
				}
			}
		}
	}
}

func (m *model) claim(pre *state, i int, who string) {
	w := &pre.Workers[i]
	run := w.Run
	if run == 0 {
		run = pre.newRun()
	}
	c := write{Verb: vClaim, Turn: w.Turn, Attempt: w.Attempt, Run: run, Service: w.Service}
	m.send(pre, who, "", c, func(x *step, a answer) {
		v := &x.s.Workers[i]
		switch a {
		case ansDone, ansAlready:
			v.PC, v.Run, v.Fence = pcClaimed, run, x.s.attempt(w.Turn, w.Attempt).Fence
		case ansUnknown, ansWrongService:
			v.finish(actRefuse)
		default:
			v.finish(actDone)
		}
	}, func(x *step) { x.s.Workers[i].finish(actRetry) })
}

// launch is what follows a claim: the guard refuses to launch after the lease, and
// what is prepared may fail.
func (m *model) launch(pre *state, i int, who string) {
	w := &pre.Workers[i]
	if w.Late && m.m != LaunchAfterLease {
		x := m.begin(pre, who, "finds its lease over before the launch")
		v := &x.s.Workers[i]
		v.PC, v.Outcome = pcEnded, outLost
		m.emit(x)
	} else {
		x := m.begin(pre, who, "launches its agent")
		v := &x.s.Workers[i]
		v.PC, v.Agent, v.Guard = pcStarting, agentAlive, true
		m.emit(x)
		for _, out := range [...]uint8{outCrash, outConfig} {
			x := m.begin(pre, who, "fails to prepare: "+string(classOf[out]))
			v := &x.s.Workers[i]
			v.PC, v.Outcome = pcEnded, out
			m.emit(x)
		}
	}
	m.renew(pre, i, who)
}

// renew extends the lease of a run that was stopped for a while, and hears that an
// attempt has ended under its run.
func (m *model) renew(pre *state, i int, who string) {
	w := &pre.Workers[i]
	a := pre.attempt(w.Turn, w.Attempt)
	if held(a.State) && a.Run == w.Run && a.Fence == w.Fence {
		if pre.Store.Over && pre.Store.Hold == w.Fence || !a.Lease {
			x := m.begin(pre, who, "")
			m.exec(x, &write{Verb: vRenew, Turn: w.Turn, Attempt: w.Attempt, Run: w.Run, Fence: w.Fence})
			x.s.Workers[i].Late, x.s.Dropped = false, false
			m.emit(x)
		}
		return
	}
	x := m.begin(pre, who, "hears that its run holds nothing any more")
	v := &x.s.Workers[i]
	v.PC = pcStopping
	if m.m == ReleaseFirst {
		v.Started = true
		m.exec(x, &write{Verb: vRelease, Turn: w.Turn, Attempt: w.Attempt, Fence: w.Fence})
	} else if v.Agent != agentAlive {
		v.PC = pcRelease
	}
	m.emit(x)
}

// work is the time in which the agent lives.
func (m *model) work(pre *state, i int, who string) {
	w := &pre.Workers[i]
	ends := func(out uint8, what string) {
		x := m.begin(pre, who, what)
		v := &x.s.Workers[i]
		v.PC, v.Outcome, v.Agent = pcEnded, out, agentGone
		m.emit(x)
	}
	if w.Agent != agentAlive {
		ends(outLost, "finds that its guard has ended the agent")
		return
	}
	m.renew(pre, i, who)
	ends(outCrash, "its agent crashes")
	if w.PC == pcRunning {
		ends(outSuccess, "its agent succeeds")
		return
	}
	ends(outConfig, "its agent refuses its configuration")
	c := write{Verb: vStart, Turn: w.Turn, Attempt: w.Attempt, Run: w.Run, Fence: w.Fence}
	m.send(pre, who, "", c, func(x *step, a answer) {
		v := &x.s.Workers[i]
		if a == ansStale {
			v.PC = pcStopping
			return
		}
		v.PC, v.Started = pcRunning, true
	}, func(x *step) {
		v := &x.s.Workers[i]
		v.PC, v.Outcome, v.Agent = pcEnded, outCrash, agentGone
	})
}

// stopAgent is the end of an agent whose attempt ended under it; its hold is kept.
func (m *model) stopAgent(pre *state, i int, who string) {
	w := &pre.Workers[i]
	x := m.begin(pre, who, "its agent is gone")
	v := &x.s.Workers[i]
	v.PC, v.Agent = pcRelease, agentGone
	m.emit(x)
	if pre.Store.Hold == w.Fence && pre.Store.Over {
		x := m.begin(pre, who, "")
		m.exec(x, &write{Verb: vHold, Turn: w.Turn, Attempt: w.Attempt, Fence: w.Fence})
		m.emit(x)
	}
}

func (m *model) ending(pre *state, w *worker, v verb, end standing) write {
	return write{Verb: v, Turn: w.Turn, Attempt: w.Attempt, Run: w.Run, Fence: w.Fence, By: w.Run, Outcome: w.Outcome, State: end, Seen: w.Seen}
}

// settle makes the move that records what came of the run, as handlers and hook do.
func (m *model) settle(pre *state, i int, who string) {
	w := &pre.Workers[i]
	u := pre.turn(w.Turn)
	if w.Seen == 0 {
		x := m.begin(pre, who, "reads what its end means")
		x.s.Workers[i].Seen = pre.Store.Messages + 1
		m.emit(x)
		return
	}
	act := actDone
	var c write
	if w.Outcome == outSuccess {
		c = m.ending(pre, w, vSettle, completed)
	} else {
		c, act = m.failure(pre, w, u)
	}
	if act == actArchive && m.m == CompensateAfterArchive {
		x := m.begin(pre, who, "lets asynq archive first")
		x.s.Workers[i].finish(actArchive)
		m.emit(x)
		return
	}
	m.send(pre, who, "", c, func(x *step, a answer) {
		v := &x.s.Workers[i]
		switch {
		case a == ansMoved:
			v.Seen = 0
		case a == ansStale && act == actDone:
			v.PC, v.Seen = pcRelease, 0
		default:
			v.finish(act)
		}
	}, func(x *step) {
		v := &x.s.Workers[i]
		v.finish(act)
		v.Skipped = true
	})
}

// failure is the write that the real decision asks for, and what asynq is told.
func (m *model) failure(pre *state, w *worker, u *turn) (write, uint8) {
	d := m.j.decide(u, w.Attempt, w.Outcome, w.Started)
	c := write{Turn: w.Turn, Attempt: w.Attempt, Run: w.Run, Fence: w.Fence, By: w.Run, Outcome: w.Outcome, Uncounted: d.Uncounted,
		Service: numberOf(serviceOf, d.Service), Cause: numberOf(causeOf, d.Cause)}
	switch d.Verb {
	case turns.VerbRequeue:
		c.Verb = vRequeue
		return c, actRetry
	case turns.VerbReplace:
		c.Verb = vReplace
	case turns.VerbDelegate:
		c.Verb = vDelegate
	case turns.VerbLose:
		return m.lose(u, w.Turn, w.Attempt, w.Run, w.Fence, true), actDone
	case turns.VerbSettle:
		return m.ending(pre, w, vSettle, failed), actDone
	case turns.VerbCompensate:
		return m.ending(pre, w, vCompensate, failed), actArchive
	default:
		panic("model: decision " + d.Verb)
	}
	return c, actDone
}

// lose is store.LoseOrEnd.
func (m *model) lose(u *turn, t, n, run, fence uint8, own bool) write {
	c := write{Verb: vLose, Turn: t, Attempt: n, Run: run, Fence: fence, By: run, Own: own, Outcome: outLost,
		Service: u.Attempts[n-1].Service, Cause: numberOf(causeOf, turns.CauseLost)}
	if !(turns.Turn{Losses: int(u.Losses), Attempt: int(u.Attempt), Limits: limits}).MayLose() {
		c.State = failed
	}
	return c
}

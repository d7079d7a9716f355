package model

// workerFaults are a worker's death, its stop, and what asynq does to its task.
func (m *model) workerFaults(pre *state, i int, who string) {
	w := &pre.Workers[i]
	if m.may(pre, Kill) {
		m.kill(pre, i, who, false)
	}
	if m.may(pre, KillBoth) && w.Guard {
		m.kill(pre, i, who, true)
	}
	if m.may(pre, Stop) && !w.Paused && w.PC != pcFinish {
		x := m.fault(pre, who, "is stopped")
		x.s.Workers[i].Paused = true
		m.emit(x)
	}
	own := taskActive1 + uint8(i)
	if w.Paused && *pre.task(w) == own {
		x := m.begin(pre, "asynq", "recovers the task of a stopped worker")
		*x.s.task(w) = taskRetry
		m.emit(x)
	}
	if m.may(pre, TakenTask) && !w.Paused && *pre.task(w) == own && w.PC >= pcClaimed && w.PC < pcFinish {
		x := m.fault(pre, "asynq", "takes the task away from "+who)
		*x.s.task(w) = taskRetry
		if m.m == HookOnLeaseExpired {
			c := m.ending(pre, w, vRequeue, failed)
			m.exec(x, &c)
		}
		m.emit(x)
	}
	if m.may(pre, CutLink) && !w.Paused && (w.PC == pcStarting || w.PC == pcRunning) && w.Agent == agentAlive {
		x := m.fault(pre, who, "can't renew its lease and ends its agent")
		v := &x.s.Workers[i]
		v.PC, v.Outcome, v.Agent = pcEnded, outLost, agentGone
		m.emit(x)
	}
}

// handSteps are what a person breaks in the store.
func (m *model) handSteps(pre *state) {
	if t, n, a := pre.current(); a != nil && held(a.State) && a.Lease && m.may(pre, HandInStore) {
		x := m.fault(pre, "person", "deletes a lease entry")
		x.s.attempt(t, n).Lease, x.s.Dropped, x.kind = false, true, "drop"
		m.emit(x)
	}
}

func (m *model) kill(pre *state, i int, who string, both bool) {
	w := &pre.Workers[i]
	what := "is killed"
	if both {
		what = "is killed together with its guard"
	}
	x := m.fault(pre, who, what)
	if at := x.s.task(w); *at == taskActive1+uint8(i) {
		*at = taskOrphan
	}
	if w.Guard && !both && !w.Gave {
		placed := false
		for k := range x.s.Guards {
			if x.s.Guards[k].Turn == 0 {
				x.s.Guards[k] = orphan{Turn: w.Turn, Attempt: w.Attempt, Service: w.Service, Run: w.Run, Fence: w.Fence, Agent: w.Agent, Ghost: w.Ghost}
				placed = true
				break
			}
		}
		if !placed {
			return
		}
	}
	x.s.Workers[i] = worker{}
	m.emit(x)
}

// livingGuard is the guard of a stopped worker: it ends the tree, then gives the
// run back.
func (m *model) livingGuard(pre *state, i int) {
	w := &pre.Workers[i]
	give := w.Agent != agentAlive || m.m == GiveBackFirst
	if w.Agent == agentAlive {
		x := m.begin(pre, "guard", "ends the agent of a stopped worker")
		x.s.Workers[i].Agent = agentGone
		m.emit(x)
	}
	if give && !w.Gave {
		c := m.lose(pre.turn(w.Turn), w.Turn, w.Attempt, w.Run, w.Fence, true)
		m.send(pre, "guard", "gives back:", c, func(x *step, _ answer) { x.s.Workers[i].Gave = true }, nil)
	}
}

// guardSteps are the steps of the guard of a killed worker.
func (m *model) guardSteps(pre *state, k int) {
	g := &pre.Guards[k]
	if g.Turn == 0 {
		return
	}
	give := g.Agent != agentAlive || m.m == GiveBackFirst
	if g.Agent == agentAlive {
		x := m.begin(pre, "guard", "ends the agent of a killed worker")
		x.s.Guards[k].Agent = agentGone
		m.emit(x)
	}
	if !give {
		return
	}
	c := m.lose(pre.turn(g.Turn), g.Turn, g.Attempt, g.Run, g.Fence, true)
	m.send(pre, "guard", "gives back:", c, func(x *step, _ answer) {
		if x.s.Guards[k].Agent != agentAlive {
			x.s.Guards[k] = orphan{}
		}
	}, func(x *step) {
		x.s.Guards[k] = orphan{}
	})
}

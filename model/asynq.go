package model

import "rota/scheduler"

// asynqSteps are what asynq does by itself, and what people do to its tasks.
func (m *model) asynqSteps(pre *state) {
	for t := uint8(1); t <= pre.Store.Counter; t++ {
		for n := range pre.Tasks[t-1] {
			for k, at := range pre.Tasks[t-1][n] {
				if at != 0 {
					m.taskSteps(pre, t-1, n, k, at)
				}
			}
		}
	}
}

func (m *model) taskSteps(pre *state, t uint8, n, k int, at taskAt) {
	move := func(fault Fault, what string, to taskAt) {
		var x *step
		if fault == 0 {
			x = m.begin(pre, "asynq", what)
		} else if m.may(pre, fault) {
			x = m.fault(pre, "asynq", what)
		} else {
			return
		}
		x.s.Tasks[t][n][k] = to
		m.emit(x)
	}
	switch at {
	case taskRetry:
		move(0, "a retry is due", taskPending)
	case taskOrphan:
		move(0, "the recoverer retries a task", taskRetry)
		move(TakenTask, "the recoverer archives a task", taskRefused)
	case taskActive1, taskActive2:
		if pre.Tasks[t][n][1-k] == 0 && m.may(pre, DoubleTask) {
			x := m.fault(pre, "asynq", "doubles a delivery")
			x.s.Tasks[t][n][1-k] = taskPending
			m.emit(x)
		}
	}
	if at == taskPending || at == taskRetry {
		move(DeadTask, "a person archives a task", taskByHand)
		move(DeadTask, "a person deletes a task", 0)
	}
}

// finishTask is what asynq does with a task when its handler and hook are done. It
// writes nothing for a task that was taken away.
func (m *model) finishTask(pre *state, i int, who string) {
	w := &pre.Workers[i]
	x := m.begin(pre, who, [...]string{"", "is done with its task", "leaves its task to asynq's retry", "lets asynq archive its task", "refuses its task"}[w.Act])
	if at := x.s.task(w); *at == taskActive1+uint8(i) {
		*at = [...]taskAt{0, 0, taskRetry, taskArchived, taskRefused}[w.Act]
	}
	a := pre.attempt(w.Turn, w.Attempt)
	if w.Act == actArchive && !w.Skipped && held(a.State) && a.Run == w.Run && a.Fence == w.Fence {
		x.bad = "section 3.1: asynq archived the task of a run before its turn was ended"
	}
	x.s.Workers[i] = worker{}
	if w.Act == actArchive && m.m == CompensateAfterArchive {
		x.s.Workers[i] = *w
		x.s.Workers[i].PC = pcLateHook
	}
	m.emit(x)
}

// relaySteps are the relay's look at the outbox: scheduler/relay.go.
func (m *model) relaySteps(pre *state) {
	t, n, a := pre.current()
	if a == nil || a.State != queued || a.Box == 0 || m.m == NoRelay {
		return
	}
	if a.Box == boxWaitHold && pre.Store.Hold != 0 && !pre.Store.Over || a.Box == boxWaitHold && (pre.Store.Held || pre.Other) {
		return
	}
	m.handOver(pre, t, n, a)
}

func (m *model) handOver(pre *state, t, n uint8, a *attempt) {
	slots := pre.Tasks[t-1][n-1]
	enqueue := func(k int, what string) {
		x := m.begin(pre, "relay", what)
		if m.m == AcknowledgeFirst {
			x.s.attempt(t, n).Box = 0
		}
		x.s.Tasks[t-1][n-1][k] = taskPending
		if x.s.attempt(t, n).Box == boxWaitHold {
			x.s.attempt(t, n).Box = boxDue // its time has come; only the name changes
		}
		m.emit(x)
	}
	if slots[0] == 0 {
		enqueue(0, "enqueues")
		return
	}
	at := slots[0]
	if live := at == taskActive1 || at == taskActive2; live && !pre.Workers[at-taskActive1].Paused {
		return // it claims before the relay believes anything else
	}
	switch _, cure := scheduler.Diagnose(diagnosed[at], patience); cure {
	case scheduler.CureReissue:
		enqueue(0, "issues a dead task again")
	case scheduler.CureEnd:
		c := write{Verb: vEnd, Turn: t, Attempt: n, By: firstCommand + 50, State: failed}
		m.send(pre, "relay", "its task was archived by hand:", c, func(*step, answer) {}, nil)
	case scheduler.CureSpare:
		if slots[1] == 0 || slots[1] == taskRefused {
			enqueue(1, "carries the attempt by a spare task")
		}
	}
}

// patience is how many looks the relay has had: there is no clock, so it is enough.
const patience = 10

var diagnosed = [...]scheduler.TaskState{
	taskPending: scheduler.TaskWaiting, taskRetry: scheduler.TaskWaiting,
	taskActive1: scheduler.TaskActive, taskActive2: scheduler.TaskActive, taskOrphan: scheduler.TaskActive,
	taskArchived: scheduler.TaskArchived, taskByHand: scheduler.TaskArchived, taskRefused: scheduler.TaskLost,
}

// reconcilerSteps are the passes that find runs believed dead, and another server.
func (m *model) reconcilerSteps(pre *state) {
	if pre.Other {
		x := m.begin(pre, "reconciler", "sees another server:")
		m.exec(x, &write{Verb: vLook})
		m.emit(x)
	}
	if pre.Rec.Verb != 0 {
		c := pre.Rec
		m.send(pre, "reconciler", "", c, func(x *step, _ answer) { x.s.Rec = write{} }, nil)
		return
	}
	t, n, a := pre.current()
	if a == nil || !held(a.State) || pre.Store.Amnesty {
		return
	}
	if pre.Store.Hold == a.Fence && !pre.Store.Over && (a.Lease || m.m != LoseWithoutEntry) {
		return
	}
	x := m.begin(pre, "reconciler", "finds a lease that has run out")
	x.s.Rec = m.lose(pre.turn(t), t, n, a.Run, a.Fence, false)
	m.emit(x)
}

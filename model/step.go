package model

import "fmt"

// Fault is a kind of fault; a Bound says which may happen.
type Fault uint32

// The kinds of faults.
const (
	Kill        Fault = 1 << iota // a worker dies; its guard lives
	KillBoth                      // a worker dies together with its guard
	Stop                          // a worker is stopped and goes on later
	LostReply                     // a write happened, its answer was lost, it is sent again
	LateWrite                     // a write arrives after its caller gave up
	TwiceWrite                    // a write arrives a second time, late
	Failover                      // the last write is lost with its server
	LostTask                      // a delivery is lost: active, and nobody has it
	DoubleTask                    // a delivery is doubled
	WrongQueue                    // a task is copied into another service's queue
	DeadTask                      // a person deletes or archives a task
	TakenTask                     // asynq takes a task away from a healthy worker, or archives it in its recoverer
	CutLink                       // a worker's link is cut: its lease can't be renewed in time
	HandInStore                   // a person deletes a lease entry

	AllFaults = HandInStore<<1 - 1
)

// Op is a command of a person.
type Op uint32

// The commands.
const (
	Cancel Op = 1 << iota
	Handoff
	Restart
	Retry
	Say

	AllOps = Say<<1 - 1
)

// Bound is how much may happen in one exploration.
type Bound struct {
	Name   string
	Faults int   // at most this many of Kinds
	Kinds  Fault // 0 for all
	Ops    int   // at most this many of Cmds
	Cmds   Op    // 0 for all
	Window bool  // claims may come between a failover and the first pass that sees it
	States int   // stop with an error beyond this many states; 0 for 20 million
}

// model makes the steps of the small world.
type model struct {
	bound Bound
	m     Mutation
	j     *judge
	out   func(*step)
}

// step is one step from a state to the next.
type step struct {
	s     state
	pre   *state
	who   string
	what  string
	verb  verb
	fault bool // it costs a fault
	act   bool // it is a person's command
	call  write
	said  answer
	bad   string // what was wrong in the step itself
	note  string // which fault came with it
	gone  bool   // a failover lost the write
	kind  string // what a conformance test has to do besides the write
}

// String names the step in a counterexample.
func (x *step) String() string {
	text := x.who + ": " + x.what
	if x.verb != 0 {
		text += fmt.Sprintf(" %s %d.%d (run %d, fence %d): %s", verbNames[x.verb], x.call.Turn, x.call.Attempt, x.call.Run, x.call.Fence, answerNames[x.said])
	}
	if x.note != "" {
		text += " [" + x.note + "]"
	}
	return text
}

var answerNames = []string{"", "done", "already", "stale", "moved", "unknown", "alive", "amnesty", "busy", "held", "superseded", "final", "wrong service"}

func (m *model) begin(pre *state, who, what string) *step {
	return &step{s: *pre, pre: pre, who: who, what: what}
}

// emit gives a finished step out, unless nothing has changed.
func (m *model) emit(x *step) {
	if x.bad == "" && x.s == *x.pre {
		return
	}
	m.out(x)
}

// may reports whether a fault of a kind may happen now.
func (m *model) may(s *state, f Fault) bool {
	return s.Faults > 0 && (m.bound.Kinds == 0 || m.bound.Kinds&f != 0)
}

// fault begins a step that costs a fault.
func (m *model) fault(pre *state, who, what string) *step {
	x := m.begin(pre, who, what)
	x.s.Faults--
	x.fault = true
	return x
}

// exec carries a write out on the step's state and checks it against the rules for
// the one step.
func (m *model) exec(x *step, w *write) answer {
	before := x.s.Store
	x.call, x.verb = *w, w.Verb
	x.said = scripts{&x.s, m.j, m.m, m.bound.Window}.exec(w)
	m.checkWrite(x, &before, w)
	if f := x.s.Store.Fence; w.Verb == vClaim && x.said == ansDone {
		if f <= x.s.Given {
			x.bad = fmt.Sprintf("invariant 5: fence %d was given out after %d", f, x.s.Given)
		}
		x.s.Given = max(x.s.Given, f)
	}
	return x.said
}

// send is a write of somebody who waits for its answer, with everything that may
// happen on the way. heard goes on with the answer; lost, if it is not nil, with
// the caller having given up.
func (m *model) send(pre *state, who, what string, w write, heard func(*step, answer), gaveUp func(*step)) {
	x := m.begin(pre, who, what)
	heard(x, m.exec(x, &w))
	m.emit(x)
	if pre.Faults == 0 {
		return
	}
	if m.may(pre, LostReply) {
		x := m.fault(pre, who, what)
		m.exec(x, &w)
		x.note = "reply lost"
		m.tried(x, &w)
		m.emit(x)
	}
	if m.may(pre, Failover) {
		x := m.fault(pre, who, what)
		a := m.exec(x, &w)
		heard(x, a)
		changed := x.s.Store != pre.Store
		x.s.Store = pre.Store
		x.s.Other = true
		x.note, x.gone = "lost by a failover", true
		m.forgotten(x, &w, a)
		if changed {
			m.emit(x)
		}
	}
	if m.may(pre, TwiceWrite) && pre.Flight.Verb == 0 {
		x := m.fault(pre, who, what)
		heard(x, m.exec(x, &w))
		x.s.Flight = w
		x.note = "a second copy is on its way"
		m.emit(x)
	}
	if m.may(pre, LateWrite) && pre.Flight.Verb == 0 && gaveUp != nil {
		x := m.fault(pre, who, what)
		m.tried(x, &w)
		gaveUp(x)
		x.s.Flight = w
		x.note = "on its way, the caller gave up"
		m.emit(x)
	}
}

// forgotten marks the run whose write was lost with the old server. After a claim,
// the dequeue that came just before it is lost too: the task is delivered again.
func (m *model) forgotten(x *step, c *write, a answer) {
	for i := range x.s.Workers {
		w := &x.s.Workers[i]
		if w.Run != c.Run || w.Run == 0 {
			continue
		}
		w.Skipped = true
		if c.Verb == vClaim && a == ansDone && w.PC == pcClaimed {
			w.Ghost = true
			*x.s.task(w) = taskPending
		}
	}
}

// tried notes that the run may have started: an unanswered start counts as one,
// because settle is legal from both states and compensate is not.
func (m *model) tried(x *step, c *write) {
	for i := range x.s.Workers {
		if w := &x.s.Workers[i]; c.Verb == vStart && w.Run == c.Run && m.m != StartUnanswered {
			w.Started = true
		}
	}
}

// steps gives out every step that may follow a state.
func (m *model) steps(pre *state) {
	if m.private(pre) {
		return
	}
	for i := range pre.Workers {
		m.workerSteps(pre, i)
	}
	for i := range pre.Guards {
		m.guardSteps(pre, i)
	}
	m.asynqSteps(pre)
	m.relaySteps(pre)
	m.reconcilerSteps(pre)
	m.timeSteps(pre)
	m.operatorSteps(pre)
	m.handSteps(pre)
	if pre.Flight.Verb != 0 {
		x := m.begin(pre, "network", "a late write arrives:")
		w := pre.Flight
		x.s.Flight = write{}
		m.exec(x, &w)
		m.emit(x)
	}
}

// private takes a step that nobody else can see or hinder before all others, once
// no fault and no command can come between: the order makes no difference then.
func (m *model) private(pre *state) bool {
	if pre.Faults > 0 || pre.Ops > 0 || pre.Flight.Verb == vSay {
		return false
	}
	for i := range pre.Workers {
		w := &pre.Workers[i]
		if w.Paused || w.PC != pcFinish && (w.PC != pcEnded || w.Seen != 0) {
			continue
		}
		m.workerSteps(pre, i)
		return true
	}
	for t := range pre.Tasks {
		for n := range pre.Tasks[t] {
			for k, at := range pre.Tasks[t][n] {
				if at == taskRetry {
					m.taskSteps(pre, uint8(t), n, k, at)
					return true
				}
			}
		}
	}
	return false
}

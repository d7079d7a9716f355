package model

// verb is a script of the store.
type verb = uint8

const (
	vClaim verb = iota + 1
	vStart
	vRequeue
	vReplace
	vDelegate
	vLose
	vSettle
	vCompensate
	vEnd
	vCancel
	vRelease
	vHold
	vRenew
	vLook
	vSay
	vOpen
)

var verbNames = []string{"", "claim", "start", "requeue", "replace", "delegate", "lose", "settle", "compensate", "end", "cancel",
	"release", "hold", "renew", "look", "say", "open"}

// answer is what a script says.
type answer uint8

const (
	ansDone answer = iota + 1
	ansAlready
	ansStale
	ansMoved
	ansUnknown
	ansAlive
	ansAmnesty
	ansBusy
	ansHeld
	ansSuperseded
	ansFinal
	ansWrongService
)

// firstCommand is the least id of a person's command; run ids are below.
const firstCommand = 200

// write is one call of a script with its arguments.
type write struct {
	Verb      verb
	Turn      uint8
	Attempt   uint8
	Run       uint8
	Fence     uint8
	By        uint8 // run or command
	Service   uint8 // that claims, or of the successor
	Cause     uint8 // of the successor
	Outcome   uint8
	State     standing // that the turn ends in
	Seen      uint8    // waiting messages that the plan knew of, plus 1; 0 to plan now
	Own       bool     // lose: given back with the run's own fence
	Keep      bool     // the hold stays
	Uncounted bool
}

// scripts carries out writes as the Lua scripts do. Each method is the twin of the
// script of its name; m takes one guard away.
type scripts struct {
	s *state
	j *judge
	m Mutation
	// window: a claim does not notice by itself that Redis is another server.
	window bool
}

func (x scripts) exec(w *write) answer {
	switch w.Verb {
	case vClaim:
		return x.claim(w)
	case vStart:
		return x.start(w)
	case vRequeue:
		return x.requeue(w)
	case vReplace:
		return x.succeed(w, failed)
	case vDelegate:
		return x.succeed(w, delegated)
	case vLose:
		return x.lose(w)
	case vSettle, vCompensate, vEnd, vCancel:
		return x.finish(w)
	case vRelease, vHold, vRenew:
		return x.keep(w)
	case vLook:
		return x.look()
	case vSay:
		if x.s.Store.Said == w.By {
			return ansAlready
		}
		if x.s.Store.Open == 0 {
			return ansStale
		}
		x.s.Store.Messages++
		x.s.Store.Said = w.By
		return ansDone
	case vOpen:
		return x.open(w)
	}
	panic("model: no such script")
}

func (x scripts) claim(w *write) answer {
	s, st := x.s, &x.s.Store
	u, a := s.turn(w.Turn), s.attempt(w.Turn, w.Attempt)
	if a.State == 0 || u.State == 0 {
		return ansUnknown
	}
	if a.Service != w.Service && x.m != ClaimAnyService {
		return ansWrongService
	}
	if a.State != queued && !(x.m == ClaimLiveAttempt && held(a.State)) {
		switch {
		case held(a.State) && a.Run == w.Run:
			return ansAlready
		case held(a.State):
			return ansBusy
		case u.Attempt != w.Attempt:
			return ansSuperseded
		}
		return ansFinal
	}
	if u.Attempt != w.Attempt {
		return ansSuperseded
	}
	if a.LastRun == w.Run {
		return ansBusy
	}
	if (st.Held || s.Other && !x.window && x.m != FailoverUnseen || st.Hold != 0 && !st.Over) && x.m != ClaimIgnoresHold {
		if x.m != HeldLooksAtOnce {
			a.Box = boxWaitHold
		}
		return ansHeld
	}
	fence := max(st.Fence, s.Given) + 1 // Redis' own time has passed
	if x.m == FenceWithoutTime {
		fence = st.Fence + 1
	}
	a.State, a.Run, a.Fence = starting, w.Run, fence
	if x.m != DeliveriesNotCounted {
		a.Deliveries++
	}
	u.State = starting
	st.Fence = fence
	if x.m != ClaimTakesNoHold {
		st.Hold, st.Over = fence, false
	}
	if x.m != ClaimKeepsOutbox {
		a.Box = 0
	}
	a.Lease = true
	return ansDone
}

func (x scripts) holds(w *write, a *attempt) bool { return a.Run == w.Run && a.Fence == w.Fence }

func (x scripts) start(w *write) answer {
	u, a := x.s.turn(w.Turn), x.s.attempt(w.Turn, w.Attempt)
	if !x.holds(w, a) && x.m != StartWithoutFence {
		return ansStale
	}
	if a.State == running {
		return ansAlready
	}
	if a.State != starting {
		return ansStale
	}
	a.State, u.State = running, running
	return ansDone
}

func (x scripts) requeue(w *write) answer {
	u, a := x.s.turn(w.Turn), x.s.attempt(w.Turn, w.Attempt)
	if a.LastRun == w.Run {
		return ansAlready
	}
	if !x.holds(w, a) && x.m != RequeueWithoutFence || !held(a.State) {
		return ansStale
	}
	if w.Uncounted && a.Deliveries > 0 {
		a.Deliveries--
	}
	a.State, u.State, a.LastRun = queued, queued, w.Run
	if x.m != RequeueKeepsLease {
		a.Lease = false
	}
	if x.m != RequeueForgetsOutbox {
		a.Box = boxDue
	}
	x.freeHold(a.Fence)
	return ansDone
}

func (x scripts) freeHold(fence uint8) {
	if st := &x.s.Store; st.Hold == fence {
		st.Hold, st.Over = 0, false
	}
}

// expired is the check of lib/expired.lua.
func (x scripts) expired(a *attempt) answer {
	st := &x.s.Store
	if st.Hold == a.Fence && !st.Over && (a.Lease || x.m != LoseWithoutEntry) {
		return ansAlive
	}
	if st.Amnesty {
		return ansAmnesty
	}
	return 0
}

// succeed is the twin of lib/succeed.lua: replace, delegate and lose.
func (x scripts) succeed(w *write, to standing) answer {
	s := x.s
	u, a := s.turn(w.Turn), s.attempt(w.Turn, w.Attempt)
	if a.State == 0 || u.State == 0 {
		return ansUnknown
	}
	if a.Ended == w.Verb && a.By == w.By && x.m != SuccessorTwice {
		return ansAlready
	}
	if w.Run != 0 && (!x.holds(w, a) || a.State == queued) && x.m != SuccessorWithoutFence {
		return ansStale
	}
	legal := held(a.State) || a.State == queued && w.Verb == vDelegate || x.m == SuccessorTwice
	if u.Attempt != w.Attempt && x.m != SuccessorTwice || !legal {
		return ansStale
	}
	if w.Verb == vLose && !w.Own && x.m != LoseWithoutLease {
		if refused := x.expired(a); refused != 0 {
			return refused
		}
	}
	hadRun := held(a.State)
	a.State, a.Ended, a.By, a.Next = to, w.Verb, w.By, true
	n := w.Attempt + 1
	if n > maxAttempts {
		return ansUnknown
	}
	look := boxDue
	if w.Keep && hadRun && !(x.m == RestartFreesHold && w.Verb == vReplace) && !(x.m == HandoffFreesHold && w.Verb == vDelegate) {
		if s.Store.Hold != 0 && !s.Store.Over {
			look = boxWaitHold
		}
	} else if hadRun {
		x.freeHold(a.Fence)
	}
	if x.m == SuccessorWithoutOutbox {
		look = 0
	}
	*s.attempt(w.Turn, n) = attempt{State: queued, Service: w.Service, Cause: w.Cause, Box: look}
	u.State, u.Attempt = queued, n
	if x.m != BudgetNotCounted {
		x.count(u, w.Cause)
	}
	a.Lease, a.Box = false, 0
	return ansDone
}

func (x scripts) count(u *turn, cause uint8) {
	switch c := causeOf[cause]; {
	case c.Counted():
		u.Opened++
	case c == "lost":
		u.Losses++
	}
}

// lose is lose.lua, or lose_last.lua when the budget of losses is used.
func (x scripts) lose(w *write) answer {
	if w.State != failed {
		return x.succeed(w, lost)
	}
	a := x.s.attempt(w.Turn, w.Attempt)
	if a.Ended == vLose && a.By == w.By {
		return ansAlready
	}
	if !x.holds(w, a) || !held(a.State) || x.s.turn(w.Turn).Attempt != w.Attempt {
		return ansStale
	}
	if !w.Own && x.m != LoseWithoutLease {
		if refused := x.expired(a); refused != 0 {
			return refused
		}
	}
	return x.finish(w)
}

package model

import (
	"hash/maphash"
	"unsafe"

	"rota/turns"
)

// Sizes of the small world. The budgets below keep every path inside them.
const (
	maxTurns    = 3
	maxAttempts = 5
	nWorkers    = 2
	nGuards     = 2
)

// The small numbers by which a state names things. Zero is none.
type (
	standing = uint8 // of an attempt or turn
	box      = uint8 // an outbox entry
	taskAt   = uint8 // where asynq has a task
	point    = uint8 // where a worker's handler is
)

const (
	queued standing = iota + 1
	starting
	running
	completed
	failed
	delegated
	lost
	cancelled
)

var stateOf = [...]turns.State{"", turns.Queued, turns.Starting, turns.Running, turns.Completed, turns.Failed, turns.Delegated, turns.Lost, turns.Cancelled}

func open(s standing) bool { return s >= queued && s <= running }
func held(s standing) bool { return s == starting || s == running }

const (
	boxDue      box = iota + 1
	boxWaitHold     // looked at when the thread's hold is over
)

const (
	taskPending  taskAt = iota + 1
	taskActive1         // worker 1 has it
	taskActive2         // worker 2
	taskOrphan          // active, and nobody has it
	taskRetry           // waits for asynq's retry
	taskArchived        // by our own skip-retry
	taskRefused         // archived, because the message was refused
	taskByHand          // archived by a person
)

const (
	pcIdle      point = iota
	pcDelivered       // asynq handed the task over
	pcClaimed         // the run has the attempt
	pcStarting        // the agent was launched
	pcRunning         // the agent has accepted the prompt
	pcEnded           // the agent is gone, the move is to be made
	pcStopping        // the attempt ended under the run, the agent is being stopped
	pcRelease         // it is gone, the hold is to be released
	pcLateHook        // only mutated: the hook comes after asynq's archive
	pcFinish          // asynq moves the task
)

// What came of a run, and what asynq does with its task.
const (
	outSuccess uint8 = iota + 1
	outCrash
	outConfig
	outLost
)
const (
	actDone uint8 = iota + 1
	actRetry
	actArchive
	actRefuse
)

const (
	agentNone uint8 = iota
	agentAlive
	agentGone
)

// attempt is the store's record with both of its nets.
type attempt struct {
	State      standing
	Service    uint8
	Cause      uint8
	Run        uint8
	Fence      uint8
	Deliveries uint8
	Ended      uint8 // verb
	By         uint8 // run or command
	LastRun    uint8
	Next       bool
	Box        box
	Lease      bool
}

type turn struct {
	State    standing
	Role     uint8
	Intent   uint8
	Attempt  uint8
	Opened   uint8
	Losses   uint8
	Next     uint8
	Attempts [maxAttempts]attempt // number 1 first
}

// stored is what lies in Redis.
type stored struct {
	Turns    [maxTurns]turn // number 1 first
	Counter  uint8          // turns opened so far
	Open     uint8          // the open turn
	Hold     uint8          // fence
	Over     bool           // the hold, and the lease of the same run, has run out
	Fence    uint8
	Status   uint8 // of the paired task
	From     uint8
	Rounds   uint8
	Turned   uint8 // turns of the paired task since a person spoke
	Messages uint8
	Retried  uint8 // the turn that the retry command opened
	Said     uint8 // the last command that left a message
	Amnesty  bool
	Held     bool // claims are refused after a failover
}

// worker is a worker's handler and the guard of its run.
type worker struct {
	PC      point
	Paused  bool
	Turn    uint8
	Attempt uint8
	Slot    uint8
	Service uint8 // of the queue that it took the task from
	Run     uint8
	Fence   uint8
	Agent   uint8
	Guard   bool
	Gave    bool // its guard has tried to give the run back
	Started bool
	Outcome uint8
	Act     uint8
	Seen    uint8 // messages seen when the end was planned, plus 1
	Ghost   bool  // a failover lost its claim
	Late    bool  // its lease is over, as worker and guard know
	Skipped bool  // its last write got no answer: the lease decides
}

// orphan is the guard of a killed worker.
type orphan struct {
	Turn    uint8
	Attempt uint8
	Service uint8
	Run     uint8
	Fence   uint8
	Agent   uint8
	Ghost   bool
}

// state is the whole world. It has only fields of one byte, so that its memory
// is its identity.
type state struct {
	Store   stored
	Tasks   [maxTurns][maxAttempts][2]taskAt
	Workers [nWorkers]worker
	Guards  [nGuards]orphan
	Flight  write // on its way to Redis, nobody waits for the answer
	Rec     write // what the reconciler has decided to write
	Other   bool  // Redis is another server, and no pass has seen it yet
	Faults  uint8 // left
	Ops     uint8 // left
	Given   uint8 // the highest fence ever given out
	Opens   uint8 // turns that the retry command opened
	Dropped bool  // a hand took the lease entry of the open attempt away
}

func (s *state) attempt(t, n uint8) *attempt { return &s.Store.Turns[t-1].Attempts[n-1] }
func (s *state) turn(t uint8) *turn          { return &s.Store.Turns[t-1] }
func (s *state) task(w *worker) *taskAt      { return &s.Tasks[w.Turn-1][w.Attempt-1][w.Slot] }

// current is the open turn's current attempt; nil when no turn is open.
func (s *state) current() (t uint8, n uint8, a *attempt) {
	if s.Store.Open == 0 {
		return 0, 0, nil
	}
	t = s.Store.Open
	n = s.turn(t).Attempt
	return t, n, s.attempt(t, n)
}

var seed = maphash.MakeSeed()

func (s *state) hash() uint64 {
	return maphash.Bytes(seed, unsafe.Slice((*byte)(unsafe.Pointer(s)), unsafe.Sizeof(*s)))
}

// canonical gives equal states equal bytes: what nobody can reach any more is
// forgotten, and fences and runs are numbered anew in a fixed order.
func (s *state) canonical() {
	s.forget()
	var fences [256]bool
	s.eachFence(func(f *uint8) { fences[*f] = true })
	var rank [256]uint8
	for f, n := 1, uint8(0); f < 256; f++ {
		if fences[f] {
			n++
			rank[f] = n
		}
	}
	s.eachFence(func(f *uint8) { *f = rank[*f] })
	if s.Workers[1].before(&s.Workers[0]) {
		s.swapWorkers()
	}
	var name [256]uint8
	n := uint8(0)
	s.eachRun(func(r *uint8) {
		if *r == 0 || *r >= firstCommand {
			return
		}
		if name[*r] == 0 {
			n++
			name[*r] = n
		}
		*r = name[*r]
	})
}

func (w *worker) before(o *worker) bool {
	a := [...]uint8{w.PC, w.Turn, w.Attempt, w.Slot, w.Fence, w.Agent, w.Outcome, w.Act, w.Seen, w.Service}
	b := [...]uint8{o.PC, o.Turn, o.Attempt, o.Slot, o.Fence, o.Agent, o.Outcome, o.Act, o.Seen, o.Service}
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return !w.Paused && o.Paused
}

func (s *state) swapWorkers() {
	s.Workers[0], s.Workers[1] = s.Workers[1], s.Workers[0]
	for t := range s.Tasks {
		for n := range s.Tasks[t] {
			for k := range s.Tasks[t][n] {
				switch at := &s.Tasks[t][n][k]; *at {
				case taskActive1:
					*at = taskActive2
				case taskActive2:
					*at = taskActive1
				}
			}
		}
	}
}

// forget drops the attempts and tasks of ended turns that nobody speaks of any
// more, once another turn has been opened or everything is over.
func (s *state) forget() {
	for t := uint8(1); t <= s.Store.Counter; t++ {
		u := s.turn(t)
		if open(u.State) || t == s.Store.Counter || s.mentions(t) {
			continue
		}
		*u = turn{State: u.State, Role: u.Role, Intent: u.Intent}
		s.Tasks[t-1] = [maxAttempts][2]taskAt{}
	}
}

func (s *state) mentions(t uint8) bool {
	for i := range s.Workers {
		if s.Workers[i].Turn == t {
			return true
		}
	}
	for i := range s.Guards {
		if s.Guards[i].Turn == t {
			return true
		}
	}
	return s.Flight.Turn == t || s.Rec.Turn == t
}

func (s *state) eachFence(f func(*uint8)) {
	f(&s.Store.Fence)
	f(&s.Store.Hold)
	f(&s.Given)
	for t := range s.Store.Turns {
		for n := range s.Store.Turns[t].Attempts {
			f(&s.Store.Turns[t].Attempts[n].Fence)
		}
	}
	for i := range s.Workers {
		f(&s.Workers[i].Fence)
	}
	for i := range s.Guards {
		f(&s.Guards[i].Fence)
	}
	f(&s.Flight.Fence)
	f(&s.Rec.Fence)
}

func (s *state) eachRun(f func(*uint8)) {
	for t := range s.Store.Turns {
		for n := range s.Store.Turns[t].Attempts {
			a := &s.Store.Turns[t].Attempts[n]
			f(&a.Run)
			f(&a.By)
			f(&a.LastRun)
		}
	}
	for i := range s.Workers {
		f(&s.Workers[i].Run)
	}
	for i := range s.Guards {
		f(&s.Guards[i].Run)
	}
	f(&s.Flight.Run)
	f(&s.Flight.By)
	f(&s.Rec.Run)
	f(&s.Rec.By)
}

// newRun returns a run id that nothing mentions.
func (s *state) newRun() uint8 {
	var used [256]bool
	s.eachRun(func(r *uint8) { used[*r] = true })
	for r := uint8(1); ; r++ {
		if !used[r] {
			return r
		}
	}
}

package turns

import (
	"slices"
)

// State is where an attempt stands. The state of an open turn is the state of
// its current attempt.
type State string

// The states. The first three are open, the others final.
const (
	// Queued: entered by open, requeue and by every move that opens a further
	// attempt; left by claim, delegate, end and cancel.
	Queued State = "queued"
	// Starting: entered by claim; the agent has not accepted the prompt yet.
	Starting State = "starting"
	// Running: entered by start, when the agent has accepted the prompt.
	Running State = "running"
	// Completed: entered by settle. The turn ends with an outcome.
	Completed State = "completed"
	// Failed: entered by settle, replace, compensate and end.
	Failed State = "failed"
	// Delegated: entered by delegate. The turn goes on elsewhere.
	Delegated State = "delegated"
	// Lost: entered by lose, when a run is believed dead.
	Lost State = "lost"
	// Cancelled: entered by cancel.
	Cancelled State = "cancelled"
)

// States lists all states, open ones first.
var States = []State{Queued, Starting, Running, Completed, Failed, Delegated, Lost, Cancelled}

// Open reports whether an attempt in this state may still move.
func (s State) Open() bool { return s == Queued || s == Starting || s == Running }

// Held reports whether a run holds an attempt in this state.
func (s State) Held() bool { return s == Starting || s == Running }

// Final reports whether no move leads out of this state.
func (s State) Final() bool { return s.Valid() && !s.Open() }

// Valid reports whether s is a known state.
func (s State) Valid() bool { return slices.Contains(States, s) }

// FinalForTurn reports whether a turn can end in this state.
func (s State) FinalForTurn() bool { return s == Completed || s == Failed || s == Cancelled }

// Verb is a move of an attempt. The same word names the store's method, its
// script, the log entry and the metric label.
type Verb string

// The verbs.
const (
	VerbOpen       Verb = "open"       // a new turn with its first attempt
	VerbClaim      Verb = "claim"      // new run id and fence, takes the thread's hold
	VerbStart      Verb = "start"      // the agent accepted the prompt
	VerbRequeue    Verb = "requeue"    // this delivery failed, another may help; or given back
	VerbSettle     Verb = "settle"     // ends the turn by the run's own result
	VerbReplace    Verb = "replace"    // attempt n+1 on the same service
	VerbDelegate   Verb = "delegate"   // attempt n+1 on another service
	VerbLose       Verb = "lose"       // the run is believed dead
	VerbCompensate Verb = "compensate" // dead letter of a run that never started
	VerbEnd        Verb = "end"        // dead letter of an attempt that no run holds
	VerbCancel     Verb = "cancel"     // a person's stop
)

// A Move is one row of the machine: what a verb does to an attempt.
type Move struct {
	Verb Verb
	From []State
	To   []State // the attempt's state after it; more than one where the result decides
	// Turn says what becomes of the turn: "opens", "open" (it stays open), "ends",
	// or "open or ends" where a budget decides.
	Turn string
}

// Moves is the one map of legal moves. Everything else is refused. The origins
// given to the store's scripts come from here.
var Moves = map[Verb]Move{
	VerbOpen:       {VerbOpen, nil, []State{Queued}, "opens"},
	VerbClaim:      {VerbClaim, []State{Queued}, []State{Starting}, "open"},
	VerbStart:      {VerbStart, []State{Starting}, []State{Running}, "open"},
	VerbRequeue:    {VerbRequeue, []State{Starting, Running}, []State{Queued}, "open"},
	VerbSettle:     {VerbSettle, []State{Starting, Running}, []State{Completed, Failed}, "ends"},
	VerbReplace:    {VerbReplace, []State{Starting, Running}, []State{Failed}, "open"},
	VerbDelegate:   {VerbDelegate, []State{Queued, Starting, Running}, []State{Delegated}, "open"},
	VerbLose:       {VerbLose, []State{Starting, Running}, []State{Lost}, "open or ends"},
	VerbCompensate: {VerbCompensate, []State{Starting}, []State{Failed}, "ends"},
	VerbEnd:        {VerbEnd, []State{Queued}, []State{Failed}, "ends"},
	VerbCancel:     {VerbCancel, []State{Queued, Starting, Running}, []State{Cancelled}, "ends"},
}

// Verbs lists the verbs in the order of a turn's life.
var Verbs = []Verb{
	VerbOpen, VerbClaim, VerbStart, VerbRequeue, VerbSettle, VerbReplace,
	VerbDelegate, VerbLose, VerbCompensate, VerbEnd, VerbCancel,
}

// Legal reports whether verb v leads from one state to the other.
func Legal(v Verb, from, to State) bool {
	m, ok := Moves[v]
	if !ok || !slices.Contains(m.To, to) {
		return false
	}
	if v == VerbOpen {
		return from == ""
	}
	return slices.Contains(m.From, from)
}

// Cause is why an attempt was opened.
type Cause string

// The causes.
const (
	CauseInitial      Cause = "initial"
	CauseRetry        Cause = "retry"
	CauseRotate       Cause = "rotate"
	CauseHandoff      Cause = "handoff"
	CauseWait         Cause = "wait"
	CauseFreshSession Cause = "fresh-session"
	CauseReminder     Cause = "reminder"
	CauseRestart      Cause = "restart"
	CauseLost         Cause = "lost"
	CauseOperator     Cause = "operator"
)

// Causes lists the valid causes.
var Causes = []Cause{
	CauseInitial, CauseRetry, CauseRotate, CauseHandoff, CauseWait, CauseFreshSession,
	CauseReminder, CauseRestart, CauseLost, CauseOperator,
}

// Counted reports whether opening an attempt for this cause uses up the turn's
// budget of attempts. Losses and reminders have budgets of their own; waiting
// is bounded by time; a person's restart or handoff counts only in AttemptCap.
func (c Cause) Counted() bool {
	switch c {
	case CauseHandoff, CauseRotate, CauseRetry, CauseFreshSession:
		return true
	}
	return false
}

// AttemptCap bounds the number of attempts of one turn, whatever opened them.
const AttemptCap = 100

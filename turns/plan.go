package turns

import "time"

// Ending is how a turn ends: the facts, without what follows from them.
type Ending struct {
	State    State // completed, failed or cancelled
	Outcome  Outcome
	Class    Class
	Error    string // redacted and bounded
	Reason   string // for people
	Text     string // the final answer
	Session  string // the agent's session, kept for the thread's next turn on the service
	Tree     string // the workspace's tree at the end of the run
	Progress Progress
	Usage    string // what the run cost, JSON
	GivenUp  bool   // a person gives the whole paired task up with the turn
	// StartTree is the workspace's tree at the start of the run that ends the turn.
	StartTree string
}

// View is what the workflow looks at when a turn ends.
type View struct {
	Turn     Turn
	Ending   Ending
	Paired   Paired // zero for a lone turn
	Messages int    // human messages that wait on the thread
	Crew     Crew
	Rules    Rules
}

// Crew says which roles are configured, with their services in order of
// preference and the limits of their turns.
type Crew map[Role]Seat

// Seat is a role's services and limits.
type Seat struct {
	Services []string
	Limits   Limits
}

// Rules are the budgets of a paired task. A zero field means its default.
type Rules struct {
	Rounds       int `json:"rounds,omitempty"`       // reviews without approval before the arbiter is asked; 2
	Arbitrations int `json:"arbitrations,omitempty"` // 3
	Turns        int `json:"turns,omitempty"`        // 40
}

// WithDefaults fills the fields that are zero.
func (r Rules) WithDefaults() Rules {
	set(&r.Rounds, 2)
	set(&r.Arbitrations, 3)
	set(&r.Turns, 40)
	return r
}

// Plan is what the end of a turn means: the paired task after it and the next
// turn, if there is one. The write that ends the turn carries it out whole.
type Plan struct {
	Paired Paired // after the move; ignored for a lone turn
	Moved  bool   // the paired task moves: its version is raised
	Next   *Next
}

// Next is a turn to open.
type Next struct {
	Role     Role
	Intent   Intent
	Services []string
	Limits   Limits
	// Messages is the number of waiting human messages that go into the turn's
	// prompt, from the front of the list; they leave it in the same write.
	Messages int
}

// Planner decides what the end of a turn means. It is a pure function; see
// package pairs.
type Planner func(View) Plan

// Message is what a person said to a thread while a turn was open.
type Message struct {
	ID   string    `json:"id"`
	Text string    `json:"text"`
	At   time.Time `json:"at"`
	Note string    `json:"note,omitempty"` // such as: may have been seen already
}

// OutboxEntry is a queued attempt that waits to be carried out, as the relay needs it.
type OutboxEntry struct {
	Thread  string
	Turn    string
	Attempt string
	Role    Role
	Intent  Intent
	Service string
	Stamp   string
	Cause   Cause
	Delay   time.Duration // not due before; 0 means now
	Limits  Limits        // of the turn
	Trace   string        // context of the trace that the attempt belongs to; may be empty
	High    bool          // before the others that wait for the service
}

// Entry is one line of a turn's log.
type Entry struct {
	At      time.Time
	Verb    Verb
	Turn    string
	Attempt string
	From    State
	To      State
	Fence   int64
	Service string
	Role    Role
	Reason  string
}

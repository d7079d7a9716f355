package turns

import (
	"time"
)

// Turn is one logical step of a paired task. Role and Intent are written once.
type Turn struct {
	ID      string // thread/number
	Thread  string
	Number  int    // counts up in the thread
	Paired  string // id of the paired task, empty for a lone turn
	Version int    // the paired task's version when the turn was opened
	Role    Role
	Intent  Intent

	Services []string // the role's services in order of preference, as they were at opening
	Limits   Limits   // as they were at opening

	State   State
	Attempt int // number of the current attempt

	Opened    int       // attempts opened by handoff, rotate, retry, fresh-session
	Losses    int       // attempts that ended as lost
	Reminders int       // attempts opened as a reminder
	WaitSince time.Time // start of the present wait for a login; zero when not waiting

	Outcome Outcome // set when the turn completed with a verdict
	Class   Class   // set when the turn failed
	Error   string  // redacted and bounded; set when the turn failed
	Reason  string  // why it ended, for people

	Parent  string // turn that opened this one in a child thread
	RetryOf string // the failed turn that this one repeats
	Prior   string // the turn whose end opened this one
	Tree    string // workspace's tree at the start of the last run
	EndTree string // workspace's tree at the end of the run that ended it
	High    bool   // its attempts go before the others that wait for the service

	Created time.Time
	Updated time.Time
	Ended   time.Time // zero while open
}

// MayLose reports whether the turn goes on when its run is lost: a loss is left in
// its budget.
func (t Turn) MayLose() bool {
	return t.Losses < t.Limits.WithDefaults().Losses && t.Attempt < AttemptCap
}

// Attempt is the n-th carrying of a turn, on one service. One attempt is one
// asynq task.
type Attempt struct {
	ID      string // turn.number
	Turn    string
	Number  int
	Stamp   string // chosen at opening; tells messages of an earlier life apart
	Service string
	Agent   string // kind of the agent that carried the last run
	State   State
	Cause   Cause
	Reason  string // for a wait: cooldown or needs_login

	Previous string // id of the attempt before
	Next     string // id of the successor, once there is one

	Run      string // id of the last run
	Fence    int64
	Worker   string // name of the worker of the last run, for people
	Deadline time.Time
	Due      time.Time // not to be claimed before

	Credential string
	Session    string // the agent's session of the last run

	Deliveries int // claims of this attempt that count
	Looks      int // how often the relay looked since it was queued
	Progress   Progress

	Class Class  // of the last failed delivery, or of the end
	Error string // redacted and bounded
	Ended Verb   // the move that ended it
	Usage string // what the run that completed it cost, JSON
	Trace string // context of the trace it belongs to; may be empty

	Created time.Time
	Updated time.Time
	Started time.Time // when the agent accepted the prompt
}

// Thread is one conversation with one workspace.
type Thread struct {
	Name      string
	Root      string // its root thread; its own name for a root
	Parent    string // the turn under which a child thread hangs
	Turns     int    // number of turns opened so far; never goes back
	OpenTurn  string
	Paired    string // id of the current or last paired task
	Pairs     int    // number of paired tasks opened so far
	Hold      int64  // fence of the run whose agent may be alive; 0 for none
	HoldUntil time.Time
	Fence     int64             // the last fence given out
	Workspace string            // folder given by the user; the worktree derives from it
	Children  int               // number of the last child thread; the root counts as 1
	Sessions  map[string]string // by SessionKey
	Created   time.Time
	Updated   time.Time
}

// SessionKey names an agent's session in a thread. One service may serve several
// roles; a reviewer never goes on in the owner's session.
func SessionKey(service string, r Role) string { return service + "/" + string(r) }

// Paired is one piece of work, passed between owner, reviewer and arbiter.
type Paired struct {
	ID           string
	Thread       string
	Version      int // raised by every move of the workflow, by nothing else
	Status       PairedStatus
	From         PairedStatus // the status that needs_human was reached from
	Rounds       int
	Arbitrations int
	Turns        int
	Accepted     string // tree at the start of the approving run
	StepTree     string // tree at the end of the last step_done
	Reason       string // why it needs a human, or was cancelled
	First        string // the turn that holds what the human asked for
	Created      time.Time
	Updated      time.Time
}

// PairedStatus is where a paired task stands. in_review and in_arbitration are
// derived, see Shown.
type PairedStatus string

// The stored statuses.
const (
	Active           PairedStatus = "active"
	ReviewReady      PairedStatus = "review_ready"
	MergeReady       PairedStatus = "merge_ready"
	ArbiterRequested PairedStatus = "arbiter_requested"
	NeedsHuman       PairedStatus = "needs_human"
	PairCompleted    PairedStatus = "completed"
	PairCancelled    PairedStatus = "cancelled"
)

// PairedStatuses lists the stored statuses.
var PairedStatuses = []PairedStatus{
	Active, ReviewReady, MergeReady, ArbiterRequested, NeedsHuman, PairCompleted, PairCancelled,
}

// Finished reports whether the paired task has ended; needs_human is no end.
func (s PairedStatus) Finished() bool { return s == PairCompleted || s == PairCancelled }

// Shown returns the status that people see: a running reviewer makes
// review_ready in_review, a running arbiter makes arbiter_requested in_arbitration.
func (s PairedStatus) Shown(role Role, turn State) string {
	switch {
	case s == ReviewReady && role == Reviewer && turn == Running:
		return "in_review"
	case s == ArbiterRequested && role == Arbiter && turn == Running:
		return "in_arbitration"
	}
	return string(s)
}

// Progress says how far a run came; it only grows within an attempt.
type Progress string

// The levels of progress. After ProgressTools the workspace may have changed.
const (
	ProgressNone  Progress = "none"
	ProgressText  Progress = "text"
	ProgressTools Progress = "tools"
)

// Below reports whether p is less than q.
func (p Progress) Below(q Progress) bool { return p.rank() < q.rank() }

func (p Progress) rank() int {
	switch p {
	case ProgressTools:
		return 2
	case ProgressText:
		return 1
	}
	return 0
}

// Limits are the budgets and times of one turn. The zero value of a field
// means its default, see Limits.WithDefaults.
type Limits struct {
	Lease      time.Duration `json:"lease,omitempty"`      // a run is believed alive this long after a renewal; at least 2 s; 30 s
	Start      time.Duration `json:"start,omitempty"`      // the agent must accept the prompt within it; 60 s
	Silence    time.Duration `json:"silence,omitempty"`    // a running agent may be without a word this long; 15 min
	Run        time.Duration `json:"run,omitempty"`        // a whole run; 2 h
	Grace      time.Duration `json:"grace,omitempty"`      // what a stopping worker lets its runs have; 60 s
	Deliveries int           `json:"deliveries,omitempty"` // of one attempt; 5
	Attempts   int           `json:"attempts,omitempty"`   // opened by handoff, rotate, retry, fresh-session; 8
	Losses     int           `json:"losses,omitempty"`     // 5
	Reminders  int           `json:"reminders,omitempty"`  // 2
	Wait       time.Duration `json:"wait,omitempty"`       // for a login; 24 h
}

// MinLease is the shortest lease that is accepted.
const MinLease = 2 * time.Second

// DefaultLimits are the numbers of a turn that says nothing else.
var DefaultLimits = Limits{
	Lease: 30 * time.Second, Start: 60 * time.Second, Silence: 15 * time.Minute, Run: 2 * time.Hour,
	Grace: 60 * time.Second, Deliveries: 5, Attempts: 8, Losses: 5, Reminders: 2, Wait: 24 * time.Hour,
}

// WithDefaults fills the fields that are zero.
func (l Limits) WithDefaults() Limits {
	d := DefaultLimits
	set(&l.Lease, d.Lease)
	set(&l.Start, d.Start)
	set(&l.Silence, d.Silence)
	set(&l.Run, d.Run)
	set(&l.Grace, d.Grace)
	set(&l.Deliveries, d.Deliveries)
	set(&l.Attempts, d.Attempts)
	set(&l.Losses, d.Losses)
	set(&l.Reminders, d.Reminders)
	set(&l.Wait, d.Wait)
	return l
}

func set[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

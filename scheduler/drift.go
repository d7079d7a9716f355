package scheduler

import (
	"time"

	"rota/turns"
	"rota/turns/store"
)

// Finding is what a pass found about one entry; also a metric's label.
type Finding string

// The findings.
const (
	FoundDue       Finding = "due"             // handed to asynq
	FoundTaskWaits Finding = "task_waits"      // its task is where it should be
	FoundGone      Finding = "gone"            // an entry without a stored attempt
	FoundNotQueued Finding = "not_queued"      // an entry of an attempt that is not queued
	FoundWaited    Finding = "waited"          // waited too long for a login
	FoundArchived  Finding = "archived"        // its task was archived by hand
	FoundLostTask  Finding = "lost_task"       // its task was archived by asynq's recoverer, unclaimed
	FoundSwallowed Finding = "swallowed"       // its task ended without a claim, or is a ghost
	FoundUnclaimed Finding = "unclaimed"       // its task is active and nobody claimed
	FoundExpired   Finding = "lease_expired"   // a run is believed dead
	FoundAlive     Finding = "alive"           // renewed in the meantime
	FoundNoLease   Finding = "no_lease"        // an open run without a lease entry
	FoundNoEntry   Finding = "no_outbox_entry" // a queued attempt without an outbox entry
	FoundOrphan    Finding = "orphan_child"    // an open child turn under a cancelled parent
	FoundSweep     Finding = "sweep"           // something was still open below an ended turn
	FoundEnded     Finding = "retention"       // a paired task or lone turn was removed
	FoundCommand   Finding = "command"         // a stored command was due
	FoundUnserved  Finding = "unserved"        // attempts wait for a service that nobody serves
	FoundViolation Finding = "violation"       // an invariant does not hold
)

// TaskState is where asynq has the task of a queued attempt.
type TaskState string

// The states of a task.
const (
	TaskWaiting    TaskState = "waiting"    // pending
	TaskDelayed    TaskState = "delayed"    // scheduled or retry: not before its time
	TaskActive     TaskState = "active"     // a worker has it, or had
	TaskArchived   TaskState = "archived"   // by a person, or by asynq's backstop
	TaskLost       TaskState = "lost"       // archived by asynq's recoverer
	TaskCompleted  TaskState = "completed"  // kept after its end
	TaskGone       TaskState = "gone"       // not there any more
	TaskUnreadable TaskState = "unreadable" // a ghost: its id is taken and it can't be read
)

// Cure is what is done about a finding.
type Cure string

// The cures.
const (
	CureWait    Cure = "wait"    // look again later
	CureEnd     Cure = "end"     // dead letter: end the turn
	CureReissue Cure = "reissue" // remove the dead task and enqueue again
	CureSpare   Cure = "spare"   // carry the attempt by a task of another id
	CureRun     Cure = "run"     // its time has come: make the delayed task pending
)

// Diagnose says what it means that the task id of a queued attempt is taken, and
// what to do. looks is how often the relay has looked before; a worker between
// its dequeue and its claim is given one look's time. No state of asynq decides
// anything about a run that is starting or running.
func Diagnose(s TaskState, looks int) (Finding, Cure) {
	switch s {
	case TaskWaiting, TaskGone:
		return FoundTaskWaits, CureWait
	case TaskDelayed:
		// The entry is due, and stands behind asynq's own retry: that is late, or the
		// attempt was made due by somebody.
		return FoundTaskWaits, CureRun
	case TaskActive:
		if looks < unclaimedLooks {
			return FoundTaskWaits, CureWait
		}
		return FoundUnclaimed, CureSpare
	case TaskArchived:
		return FoundArchived, CureEnd
	case TaskLost:
		return FoundLostTask, CureReissue
	case TaskCompleted:
		return FoundSwallowed, CureReissue
	}
	return FoundSwallowed, CureSpare
}

// Times between two looks at an entry of the outbox.
const (
	firstLook    = 15 * time.Second // after a task was handed over
	conflictLook = time.Second      // after its id was found taken
	longestLook  = 10 * time.Minute
	// unclaimedLooks is how many looks an active task has until somebody must have
	// claimed its attempt: 1 + 2 + 4 + 8 s.
	unclaimedLooks = 4
	// listedLooks is how many looks a pending task has until it is looked for in its
	// list: about a minute.
	listedLooks = 6
)

// NextLook returns when the relay looks again, after it has looked this often:
// doubling up to ten minutes.
func NextLook(looks int, conflict bool) time.Duration {
	d := firstLook
	if conflict {
		d = conflictLook
	}
	for range min(looks, 20) {
		if d *= 2; d >= longestLook {
			return longestLook
		}
	}
	return d
}

// WaitedTooLong reports whether a wait for a login has used up its time.
func WaitedTooLong(w store.Waits, now time.Time) bool {
	limit := w.Entry.Limits.WithDefaults().Wait
	return w.Cause == turns.CauseWait && !w.Since.IsZero() && now.Sub(w.Since) > limit
}

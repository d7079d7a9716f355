package store

import (
	"errors"
	"fmt"

	"rota/turns"
)

// What a verb may answer instead of doing its move. Each leaves everything as it was.
var (
	// ErrStale: the run does not hold this open attempt any more.
	ErrStale = errors.New("the run does not hold this attempt any more")
	// ErrHeld: the run still holds its attempt.
	ErrHeld = errors.New("the run still holds its attempt")
	// ErrMoved: what was read has changed since; read again and decide again.
	ErrMoved = errors.New("it moved on in the meantime")
	// ErrNotFound: no such thread, turn, attempt or paired task.
	ErrNotFound = errors.New("not found")
	// ErrAlive: the run's lease has not run out.
	ErrAlive = errors.New("the run's lease has not run out")
	// ErrAmnesty: Redis was away; no run of the shard may be called lost yet.
	ErrAmnesty = errors.New("no run may be called lost yet, Redis was away")
	// ErrParentFinal: a child turn can't be opened under a turn that has ended.
	ErrParentFinal = errors.New("the parent turn has ended")
	// ErrFull: a bound of waiting things is reached.
	ErrFull = errors.New("too many are waiting")
	// ErrNoTurn: the thread has no open turn.
	ErrNoTurn = errors.New("the thread has no open turn")
	// ErrUnreadable: a strange hand wrote something else over a record. Asking again
	// helps nobody.
	ErrUnreadable = errors.New("what is stored is no record")
	// ErrVersion: the stored data is newer than this program.
	ErrVersion = errors.New("the stored data was written by a newer version")
)

// BusyError says that the thread has an open turn already.
type BusyError struct{ Turn string }

func (e *BusyError) Error() string { return "turn " + e.Turn + " is open in this thread" }

// FinalError says that the turn has ended already, and how.
type FinalError struct {
	Turn  string
	State turns.State
}

func (e *FinalError) Error() string { return fmt.Sprintf("turn %s has ended: %s", e.Turn, e.State) }

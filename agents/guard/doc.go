// Package guard keeps an agent's process tree tied to the life of its run.
//
// Each agent runs under a guard: the worker's own binary, started again as
// "worker guard". The guard is a subreaper, so whatever the agent starts, in
// sessions of its own, forked twice or set to ignore signals, stays below it.
// It hears its worker over a pipe:
//
//	fd 3  orders of the worker, one JSON object a line: the launch first, then
//	      heartbeats, a moved end of the lease, a signal, kill, bye
//	fd 4  reports to the worker: started, refused, failed, exited, gone
//
// The agent's own stdin, stdout and stderr are the guard's 0, 1 and 2; the
// guard hands them on and keeps none of them.
//
// The guard ends the whole tree when the agent has ended, when it is told to,
// when the lease ends, and when the worker is dead (end of file) or silent for
// too long. In the last case it then hands what it was given for the purpose to
// a function of the caller's, which gives the run back. Secrets travel over
// the pipe only, never in arguments or the guard's environment.
//
// The end of the lease is a point on the clock that also runs while the machine
// sleeps (CLOCK_BOOTTIME). A guard that finds it passed refuses to launch.
//
// When the guard itself is killed, the agent dies with it (parent-death signal)
// and the worker sweeps what is left by the mark in its environment. When both
// are gone, SweepLeftovers of the next starting worker does. A process that
// cleans its environment and leaves its parent can outlive both killed at the
// same instant; that is the one gap, and the lease covers it.
package guard

import (
	"context"
	"encoding/json"
	"time"
)

// Command is the first argument of a process that is to be a guard.
const Command = "guard"

// The variables that sweeps look for in the environment of processes.
const (
	FenceVar  = "ROTA_FENCE"  // every agent of rota has it
	StoreVar  = "ROTA_STORE"  // the deployment the agent belongs to
	KeeperVar = "ROTA_KEEPER" // who is to end it: pid:starttime:token
)

// GiveBack gives a run back after its process tree is gone. raw is what the
// worker put into its lease. It may be called again when it returns an error.
type GiveBack func(ctx context.Context, raw json.RawMessage) error

// End is how a guarded agent ended, after its whole tree is gone.
type End struct {
	Code   int    // exit status; -1 when a signal ended it or it is not known
	Signal int    // the signal that ended it, or 0
	Reason Reason // why the guard ended the tree
	Left   int    // processes that could not be killed
}

// Reason says why a guard ended the tree.
type Reason string

// The reasons.
const (
	Exited    Reason = "exited"     // the agent ended by itself
	Killed    Reason = "killed"     // the worker said so
	LeaseOver Reason = "lease over" // the lease was not renewed in time
	Silent    Reason = "silent"     // the worker was not heard
	Orphaned  Reason = "orphaned"   // the worker is dead; only a guard sees it
	GuardDied Reason = "guard died" // nothing was heard from the guard
)

// killBound is how long a guard tries to kill what does not die (a process of
// another user, one that hangs in the kernel) before it reports it as left.
const killBound = 10 * time.Second

// giveBackBound is how long a guard tries to give its run back.
const giveBackBound = 30 * time.Second

// Package model explores every interleaving of a small rota: one thread, two
// workers with their guards, the relay, the reconciler, an operator, asynq as it
// really behaves, and a Redis that loses replies and fails over. It looks at each
// state that can be reached and holds it against the ten invariants, so that a
// fault is found where it happens and not by a bad end, which the net may heal.
//
// # What is real and what is a twin
//
// Judgement is the real code: pairs.Plan, handlers.Decide, scheduler.Diagnose and
// turns.Moves are called as they are. The Lua scripts have a twin in Go
// (scripts.go), small enough to be read beside them; a test walks random paths and
// compares twin and scripts after every step.
//
// # Time
//
// There is no clock. That a lease or hold runs out is a step of its own, allowed
// when nobody alive renews it and the agent that it stands for is gone: a worker and
// a guard end their agent before the lease that they know is over. That is the one
// assumption about time; what it rests on is tested in agents/guard and handlers.
//
// # Faults
//
// A fault costs one of a bounded number: a worker is killed (with or without its
// guard) or stopped, a reply is lost and the write sent again, a write arrives late
// or twice, the write just made is lost by a failover, a delivery is doubled, lost,
// misrouted, archived or deleted, asynq takes a task away from a healthy worker. A
// state without faults to come must lead to an end on every path: no cycle, and no
// state without a step in which something is still open.
//
// # Mutations
//
// A mutation takes one guard away. Each must be caught; see mutation.go.
package model

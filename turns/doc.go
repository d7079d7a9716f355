// Package turns is the domain of rota: what a turn is, which states it goes
// through and which moves are legal. It imports nothing but the standard
// library and talks to nothing; Redis is in turns/store, asynq in tasks.
//
// # The story
//
// A thread is one conversation with one workspace. A paired task is a piece of
// work in a thread, passed between an owner, a reviewer and an arbiter. Each
// step of it is a Turn, taken in one Role that is fixed when the turn is
// opened. A turn is carried by attempts: an Attempt is the n-th carrying of the
// turn, on one service. Retries of asynq are further deliveries of the same
// attempt; a rotation of logins, a handoff to another service, a restart or a
// lost worker open the next attempt of the same turn. So whatever goes wrong,
// the role stays where it is: on the turn.
//
// A Run is one worker's execution of an attempt, from its claim to its end. Its
// id and its fence, a number that only grows, stand in every write, and a write
// is refused unless this run still holds this open attempt.
//
// An attempt is queued, then starting, then running, and ends as completed,
// failed, delegated, lost or cancelled. Moves (state.go) is the one table that
// says which verb leads from where to where; nothing else compares states.
// Final is final: no late write, repair or operator changes it.
//
// # Reading order
//
// role.go, state.go, turn.go, outcome.go, errors.go, items.go, plan.go.
package turns

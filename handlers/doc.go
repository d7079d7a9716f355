// Package handlers is what a worker does with a task: claim the attempt, run the
// agent, record what came of it.
//
// attempt.go reads like that sentence. decide.go is the one pure function that
// judges a failure; handler and hook both use it. runs.go keeps the leases of all
// runs of a worker alive and ends a run when rota says so. deadletter.go is the
// archived-task hook: it ends the turn of a dead letter before asynq archives it.
//
// The handler makes the moves that keep or end the turn knowingly (settle,
// replace, delegate) and then answers nil. When it returns an error instead, the
// hook makes the move: requeue, or compensate on the last delivery.
package handlers

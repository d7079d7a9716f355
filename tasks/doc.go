// Package tasks is asynq's words for our work: which task types there are and
// what their dead letters mean (effects.go), what a message carries (payload.go),
// queues and options, the only call of asynq's Enqueue (enqueue.go), and the hook
// that lets an idle server start within milliseconds (pickup.go).
//
// A task only carries a turn. It can be lost, doubled, archived, deleted or
// delivered to a worker that was given up for dead; none of that may do harm,
// because whoever gets it asks the stored turn.
package tasks

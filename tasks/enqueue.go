package tasks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"rota/turns"
)

// ErrTaken says that a task of this id exists already: our own, when the reply to
// an earlier enqueue was lost, or one that is still somewhere in asynq.
var ErrTaken = errors.New("a task of this id exists already")

// Timeout returns how long asynq lets a task of a turn run: beyond everything
// that rota's own clocks allow, so that asynq never ends a run that rota would
// not have ended. In whole seconds, as asynq wants it.
func Timeout(l turns.Limits) time.Duration {
	l = l.WithDefaults()
	return (l.Start + l.Run + l.Grace + time.Minute).Round(time.Second)
}

// MostRetries returns asynq's MaxRetry for a task of a turn: far above the turn's
// own budget of deliveries, whatever it is, so that asynq never archives a task
// whose attempt is to be tried again.
func MostRetries(l turns.Limits) int { return max(Retries, 2*l.WithDefaults().Deliveries) }

// TaskID returns the id of the task that carries an attempt: the attempt's own
// id, or with k > 0 the k-th spare one, when a dead task keeps the first id.
func TaskID(attempt string, k int) string {
	if k == 0 {
		return attempt
	}
	return attempt + "+" + strconv.Itoa(k)
}

// AttemptOf returns the attempt that a task carries.
func AttemptOf(taskID string) string {
	attempt, _, _ := strings.Cut(taskID, "+")
	return attempt
}

// NewTurnTask returns the task of an attempt, and its queue.
func NewTurnTask(e turns.OutboxEntry, headers map[string]string) *asynq.Task {
	return asynq.NewTaskWithHeaders(string(TypeFor(e.Cause)), PayloadOf(e).Encode(), headers)
}

// Enqueue hands an attempt to asynq as its k-th task. It is the only call of
// asynq's Enqueue for turns, and only the relay calls it. ErrTaken when a task of
// that id exists.
func Enqueue(ctx context.Context, client *asynq.Client, e turns.OutboxEntry, k int, headers map[string]string) error {
	_, err := client.EnqueueContext(ctx, NewTurnTask(e, headers),
		asynq.TaskID(TaskID(e.Attempt, k)),
		asynq.Queue(Queue(e.Service)),
		asynq.MaxRetry(MostRetries(e.Limits)),
		asynq.Timeout(Timeout(e.Limits)),
		asynq.Retention(0))
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return ErrTaken
	}
	if err != nil {
		return fmt.Errorf("enqueue %s: %w", e.Attempt, err)
	}
	return nil
}

// LostByRecoverer reports whether asynq's own recoverer put the task where it is,
// because a worker died with it or a reply was lost: nobody decided that.
func LostByRecoverer(info *asynq.TaskInfo) bool {
	return info.LastErr == asynq.ErrLeaseExpired.Error()
}

// RefusedPrefix begins the error of a message that contradicted the stored turn.
const RefusedPrefix = "message refused: "

// Refused reports whether asynq archived the task because it contradicted the
// stored turn: the right one must be issued again.
func Refused(info *asynq.TaskInfo) bool { return strings.HasPrefix(info.LastErr, RefusedPrefix) }

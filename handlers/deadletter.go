package handlers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"rota/internal/redact"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// deliveryError is what a handler returns when the hook has to make the move:
// requeue when another delivery may help, compensate when this was the last.
type deliveryError struct {
	run      store.Run
	records  store.Records
	failure  turns.Failure
	decision Decision
	progress turns.Progress
	live     *live
}

func (e *deliveryError) Error() string { return e.failure.Error() }

// Unwrap makes asynq archive the task of a dead letter, and leave the task of
// every other failed delivery to its retry.
func (e *deliveryError) Unwrap() error {
	if e.decision.Verb == turns.VerbCompensate {
		return asynq.SkipRetry
	}
	return nil
}

// hookTime bounds the hook: asynq waits for it, also at shutdown.
const hookTime = 15 * time.Second

// asynqFirst is how much later than asynq's own retry the relay looks at a
// requeued attempt.
const asynqFirst = 15 * time.Second

// HandleError is the archived-task hook. asynq calls it before it retries or
// archives a task, in the process that ran the handler, with a context that may
// be over. On the last delivery the turn is ended first; only then asynq
// archives. It never disturbs what asynq does, and a failure of its own is
// finished by the net: the lease entry stays until then.
func (h *Handler) HandleError(ctx context.Context, task *asynq.Task, err error) {
	h.Settle(ctx, task, err)
}

// Settle makes the move that a failed delivery asks for. It survives panics.
func (h *Handler) Settle(ctx context.Context, task *asynq.Task, err error) {
	defer func() {
		if p := recover(); p != nil {
			h.Metrics.HookFailed(h.Service)
			h.Log.Error("hook panicked: the net finishes its work", "type", task.Type(), "panic", fmt.Sprint(p))
		}
	}()
	if errors.Is(err, asynq.ErrLeaseExpired) {
		// asynq has given its lease up, not ours: the run may go on, and if it does
		// not, our own lease decides.
		return
	}
	var failed *deliveryError
	if !errors.As(err, &failed) {
		h.notOurs(task, err)
		return
	}
	defer failed.live.finish()
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), hookTime)
	defer cancel()
	if failed.decision.Verb == turns.VerbCompensate {
		h.compensate(bound, task, failed)
		return
	}
	h.requeue(bound, failed)
}

// notOurs is a delivery that failed without a run of ours that asks for a move:
// before its claim, by asynq's own deadline or cancel, or a refused message.
func (h *Handler) notOurs(task *asynq.Task, err error) {
	effect, ok := tasks.EffectOf(tasks.Type(task.Type()))
	var refused *refusedError
	switch {
	case !ok:
		// Whoever can write into the queue chose the type: it is no label.
		h.Log.Warn("delivery failed", "type", redact.Text(task.Type()), "service", h.Service, "err", redact.Error(err))
		h.Metrics.Refused(h.Service, "type")
	case effect.DeadLetter == tasks.Warn:
		h.Log.Warn("delivery failed", "type", task.Type(), "service", h.Service, "err", err)
		h.Metrics.DeadLetter(h.Service, task.Type(), "warn")
	case errors.As(err, &refused):
		h.Metrics.DeadLetter(h.Service, task.Type(), "refused")
	case errors.Is(err, errDraining):
	case errors.Is(err, tasks.ErrVersion):
		// It comes again every few seconds until a newer worker takes it; the metric counts.
		h.Log.Info("message waits for a newer worker", "type", task.Type(), "service", h.Service, "err", err)
	default:
		h.Log.Warn("delivery ended without a run", "type", task.Type(), "service", h.Service, "err", err)
	}
}

// requeue keeps the attempt for a further delivery; asynq's retry brings it.
func (h *Handler) requeue(ctx context.Context, e *deliveryError) {
	d := e.decision
	q := store.Requeue{
		After: d.Delay, Margin: asynqFirst, Class: e.failure.Class, Error: e.failure.Message, Uncounted: d.Uncounted,
		Progress: e.progress, Reason: d.Reason,
	}
	if d.Uncounted && d.Delay == 0 {
		q.Class, q.Error = "", ""
	}
	_, err := retry(ctx, func() (struct{}, error) { return struct{}{}, h.Store.Requeue(ctx, e.run, q) })
	switch {
	case err == nil:
		h.moved(turns.VerbRequeue, e.records, turns.Queued)
	case store.Refused(err):
		h.Log.Info("write came too late", append(h.attrs(e.records, e.run), "verb", "requeue")...)
		h.letGo(ctx, e.run)
	default:
		h.Metrics.HookFailed(h.Service)
		h.Log.Error("attempt not requeued: its lease decides", append(h.attrs(e.records, e.run), "err", err)...)
	}
}

// compensate ends the turn of a dead letter, with everything open below it,
// before asynq archives the task. When it fails, it is tried on in the background
// as long as the run's lease lasts.
func (h *Handler) compensate(ctx context.Context, task *asynq.Task, e *deliveryError) {
	err := h.compensateOnce(ctx, task, e)
	if err == nil {
		return
	}
	h.Metrics.HookFailed(h.Service)
	h.Log.Error("dead letter not compensated yet", append(h.attrs(e.records, e.run), "err", err)...)
	go func() {
		later, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.records.Turn.Limits.Lease)
		defer cancel()
		if err := h.compensateOnce(later, task, e); err != nil {
			h.Log.Error("dead letter not compensated: its lease decides", append(h.attrs(e.records, e.run), "err", err)...)
		}
	}()
}

func (h *Handler) compensateOnce(ctx context.Context, task *asynq.Task, e *deliveryError) error {
	ending := turns.Ending{
		Class: e.failure.Class, Error: e.failure.Message, Progress: e.progress,
		Reason: fmt.Sprintf("dead letter after %s: %s", deliveries(e.records.Attempt.Deliveries), e.decision.Reason),
	}
	ended, err := retry(ctx, func() (store.Ended, error) { return h.Store.Compensate(ctx, e.run, ending) })
	if store.Refused(err) {
		h.Log.Info("dead letter had moved on", h.attrs(e.records, e.run)...)
		h.letGo(ctx, e.run)
		return nil
	}
	if err != nil {
		return err
	}
	h.moved(turns.VerbCompensate, e.records, turns.Failed)
	h.Metrics.DeadLetter(h.Service, task.Type(), "compensate")
	h.Log.Error("dead letter compensated", append(h.attrs(e.records, e.run), "class", e.failure.Class, "err", e.failure.Message)...)
	h.follow(ctx, e.records.Turn.ID, ended)
	return nil
}

func deliveries(n int) string {
	if n == 1 {
		return "1 delivery"
	}
	return fmt.Sprintf("%d deliveries", n)
}

// IsFailure tells asynq which errors raise its own counter: a backstop far above
// rota's budget. What failed before a claim, or was given back, does not count.
func IsFailure(err error) bool {
	var before *notClaimed
	if errors.As(err, &before) || errors.Is(err, asynq.ErrLeaseExpired) {
		return false
	}
	var failed *deliveryError
	if errors.As(err, &failed) {
		return !failed.decision.Uncounted
	}
	return true
}

// versionDelay is when a message that a newer program wrote comes again: soon
// enough for a rolling upgrade, and no load when no newer worker is there. asynq
// does not count these deliveries, so that no back-off could grow.
const versionDelay = 5 * time.Second

// RetryDelay tells asynq when to bring a task again: rota's own back-off, with
// jitter.
func RetryDelay(n int, err error, _ *asynq.Task) time.Duration {
	var failed *deliveryError
	if errors.As(err, &failed) {
		d := failed.decision.Delay
		if d >= time.Second {
			// asynq cuts its times to whole seconds. A login that rests until then would
			// rest still, and the turn would begin a wait.
			d += time.Second
		}
		return jitter(d)
	}
	switch {
	case errors.Is(err, errDraining):
		return 0
	case errors.Is(err, tasks.ErrVersion):
		return jitter(versionDelay)
	}
	return jitter(Backoff(time.Second, n+1))
}

func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d + rand.N(d/4+1)
}

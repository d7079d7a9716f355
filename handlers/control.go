package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"rota/internal/metrics"
	"rota/internal/redact"
	"rota/tasks"
	"rota/turns/store"
	"rota/workspaces"
)

// Control carries out the tasks on a service's control queue: it hurries requests
// that are stored on a turn, and does what is asked of a thread beside its turns.
// None of them holds a run: a dead letter of theirs is a warning.
type Control struct {
	Service    string
	Store      *store.Store
	Runs       *Runs
	Workspaces *workspaces.Workspaces
	Log        *slog.Logger
	Metrics    *metrics.Set
}

// ControlTypes are the types that Control carries out.
var ControlTypes = slices.Concat(tasks.RequestTypes, tasks.UpkeepTypes)

// ProcessTask carries out one task. A message of a newer program is left to a
// newer worker; one that can't be read, or asks for what is refused, is not tried
// again.
func (c *Control) ProcessTask(ctx context.Context, task *asynq.Task) error {
	t := tasks.Type(task.Type())
	if slices.Contains(tasks.RequestTypes, t) {
		r, err := tasks.DecodeRequest(task.Payload())
		if err != nil {
			return unreadable(err)
		}
		c.hurry(t, r)
		return nil
	}
	u, err := tasks.DecodeUpkeep(t, task.Payload())
	if err != nil {
		return unreadable(err)
	}
	if u.Service != c.Service {
		return fmt.Errorf("%w: the message is for %s", asynq.SkipRetry, u.Service)
	}
	switch t {
	case tasks.SessionDetach:
		return c.detach(ctx, u)
	case tasks.WorkspaceCleanup:
		return c.cleanup(ctx, u)
	case tasks.CheckpointRollback:
		return c.rollback(ctx, u)
	case tasks.CheckpointCapture:
		return c.capture(ctx, u)
	}
	return fmt.Errorf("%w: %s is no task of a control queue", asynq.SkipRetry, t)
}

// unreadable lets asynq archive what no program will ever understand.
func unreadable(err error) error {
	if errors.Is(err, tasks.ErrVersion) {
		return err
	}
	return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
}

// hurry renews at once when the run is here. Anywhere else the run's own worker
// has heard the published word, or brings the request with its next renewal.
func (c *Control) hurry(t tasks.Type, r tasks.Request) {
	here := c.Runs.Hurry(r.Attempt)
	c.Log.Debug("request hurried", "type", string(t), "attempt", r.Attempt, "request", r.ID, "here", here)
}

// detach forgets the agent's sessions of a thread on this service.
func (c *Control) detach(ctx context.Context, u tasks.Upkeep) error {
	if err := c.idle(ctx, u.Thread); err != nil {
		return err
	}
	had, err := c.Store.Detach(ctx, u.Thread, u.Service)
	if err != nil {
		return err
	}
	c.Log.Info("session detached", "thread", u.Thread, "service", u.Service, "had", had)
	return nil
}

func (c *Control) cleanup(ctx context.Context, u tasks.Upkeep) error {
	ref := ""
	err := c.Workspaces.WhileIdle(ctx, u.Thread, func() error { return c.ended(ctx, u.Thread) }, func(i workspaces.Idle) (err error) {
		ref, err = i.Cleanup(ctx)
		return err
	})
	if err != nil {
		return final(ctx, err)
	}
	c.Log.Info("workspace cleaned up", "thread", u.Thread, "kept", ref)
	return nil
}

func (c *Control) rollback(ctx context.Context, u tasks.Upkeep) error {
	err := c.Workspaces.WhileIdle(ctx, u.Thread, func() error { return c.idle(ctx, u.Thread) }, func(i workspaces.Idle) error {
		return i.Rollback(ctx, u.Ref)
	})
	if err != nil {
		return final(ctx, err)
	}
	c.Log.Info("workspace rolled back", "thread", u.Thread, "ref", u.Ref)
	return nil
}

// capture needs no idle thread: it changes no file.
func (c *Control) capture(ctx context.Context, u tasks.Upkeep) error {
	place, ok, err := c.Workspaces.Find(u.Thread)
	if err != nil {
		return err
	}
	if !ok {
		return final(ctx, fmt.Errorf("%s: %w", u.Thread, workspaces.ErrNoWorkspace))
	}
	if !place.Git() {
		return fmt.Errorf("%w: the workspace of %s is no git repository, so there are no checkpoints", asynq.SkipRetry, u.Thread)
	}
	of := u.Turn
	if of == "" {
		of = u.Thread
	}
	ref, err := c.Workspaces.Checkpoint(ctx, place, of)
	if err != nil {
		return final(ctx, err)
	}
	c.Log.Info("checkpoint captured", "thread", u.Thread, "turn", u.Turn, "ref", ref)
	return nil
}

// final makes an error of a workspace the last: the person sees it at once and
// asks again. Only a worker that stops leaves the task to the next one.
func final(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, asynq.SkipRetry) {
		return err
	}
	return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
}

// idle returns an error while a run is in the thread, or an agent of one may be.
func (c *Control) idle(ctx context.Context, thread string) error {
	t, err := c.Store.Thread(ctx, thread)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("%w: %w", asynq.SkipRetry, err)
		}
		return err
	}
	lives, err := c.Store.HoldLives(ctx, t)
	if lives {
		return fmt.Errorf("%w: an agent is at work in %s", asynq.SkipRetry, thread)
	}
	return err
}

// ended returns an error while the thread has an open turn.
func (c *Control) ended(ctx context.Context, thread string) error {
	if err := c.idle(ctx, thread); err != nil {
		return err
	}
	t, err := c.Store.Thread(ctx, thread)
	if err == nil && t.OpenTurn != "" {
		return fmt.Errorf("%w: %s has an open turn (%s)", asynq.SkipRetry, thread, t.OpenTurn)
	}
	return err
}

// HandleError makes a dead letter visible: in the log and in the metric. A failed
// delivery that asynq repeats is only logged. Whoever can write into the queue
// writes the payload: it is shown without secrets and cut.
func (c *Control) HandleError(ctx context.Context, task *asynq.Task, err error) {
	retried, _ := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	if !errors.Is(err, asynq.SkipRetry) && (retried < most || !IsControlFailure(err)) {
		c.Log.Info("control task failed, it is tried again", "type", task.Type(), "service", c.Service, "err", redact.Error(err))
		return
	}
	c.Log.Warn("control task is a dead letter", "type", task.Type(), "service", c.Service, "payload", redact.Text(string(task.Payload())), "err", redact.Error(err))
	c.Metrics.DeadLetter(c.Service, task.Type(), string(tasks.Warn))
}

// IsControlFailure tells asynq which errors use up a control task's retries: not
// a message that waits for a newer worker.
func IsControlFailure(err error) bool {
	return !errors.Is(err, tasks.ErrVersion) && !errors.Is(err, asynq.ErrHandlerNotFound)
}

// ControlRetryDelay is the back-off of control tasks.
func ControlRetryDelay(n int, err error, _ *asynq.Task) time.Duration {
	if !IsControlFailure(err) {
		return jitter(versionDelay)
	}
	return jitter(Backoff(time.Second, n+1))
}

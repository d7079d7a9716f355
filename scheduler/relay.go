package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/internal/metrics"
	"rota/internal/tracing"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// Relay hands queued attempts to asynq. It is the only caller of asynq's Enqueue
// for turns.
type Relay struct {
	store     *store.Store
	rdb       redis.UniversalClient
	client    *asynq.Client
	inspector *asynq.Inspector
	log       *slog.Logger
	metrics   *metrics.Set
	// Ended, when set, is told of turns that the relay ended, so that people are asked.
	Ended func(ctx context.Context, turn string, e store.Ended)
}

// NewRelay returns a relay over the store's own Redis client. m may be nil.
func NewRelay(s *store.Store, log *slog.Logger, m *metrics.Set) *Relay {
	rdb := s.Redis()
	return &Relay{
		store: s, rdb: rdb, client: asynq.NewClientFromRedisClient(tasks.Waking(rdb)), inspector: asynq.NewInspectorFromRedisClient(rdb),
		log: log, metrics: m,
	}
}

// Hand gives an attempt to asynq right after the write that queued it. A delayed
// attempt is left to the pass. A failure is no loss: the outbox has the attempt,
// and the next pass looks.
func (r *Relay) Hand(ctx context.Context, e turns.OutboxEntry) error {
	if e.Attempt == "" || e.Delay > 0 {
		return nil
	}
	err := r.enqueue(ctx, e, 0)
	if errors.Is(err, tasks.ErrTaken) {
		// Our own success whose reply was lost, a task that is about to end, or a
		// retry of asynq's that was to come later.
		return r.expedite(ctx, e)
	}
	return err
}

// expedite makes the delayed task of an attempt pending. A task that is not there
// or not delayed any more is fine.
func (r *Relay) expedite(ctx context.Context, e turns.OutboxEntry) error {
	queue, id := tasks.Queue(e.Service), tasks.TaskID(e.Attempt, 0)
	info, err := r.inspector.GetTaskInfo(queue, id)
	if err != nil || taskState(info) != TaskDelayed {
		return nil
	}
	if err := r.inspector.RunTask(queue, id); err != nil && !errors.Is(err, asynq.ErrTaskNotFound) {
		return fmt.Errorf("run the delayed task of %s: %w", e.Attempt, err)
	}
	r.wake(ctx, e)
	return nil
}

// wake lets an idle worker of the service look at once. A lost wake-up only delays
// the pick-up.
func (r *Relay) wake(ctx context.Context, e turns.OutboxEntry) {
	if err := r.rdb.Publish(ctx, tasks.WakeChannel(e.Service), e.Attempt).Err(); err != nil {
		r.log.Debug("wake-up not sent", "service", e.Service, "err", err)
	}
}

func (r *Relay) enqueue(ctx context.Context, e turns.OutboxEntry, k int) error {
	var headers map[string]string
	if e.Trace != "" {
		headers = map[string]string{tracing.Header: e.Trace}
	}
	if err := tasks.Enqueue(ctx, r.client, e, k, headers); err != nil {
		return err
	}
	if e.High {
		if err := tasks.Promote(ctx, r.rdb, e.Service, tasks.TaskID(e.Attempt, k)); err != nil {
			r.log.Debug("not put in front", "attempt", e.Attempt, "err", err)
		}
	}
	return nil
}

// Look looks at an entry of the outbox that is due and answers what was found.
func (r *Relay) Look(ctx context.Context, l store.Look) (Finding, error) {
	w, err := r.store.Waiter(ctx, l.Attempt)
	if errors.Is(err, store.ErrNotFound) {
		return FoundGone, r.store.DropEntry(ctx, l.Attempt)
	}
	if err != nil {
		return "", err
	}
	if w.State != turns.Queued {
		return FoundNotQueued, r.store.DropEntry(ctx, l.Attempt)
	}
	if w.Cause == turns.CauseWait {
		now, err := r.store.Now(ctx, w.Entry.Thread)
		if err != nil {
			return "", err
		}
		if WaitedTooLong(w, now) {
			return FoundWaited, r.end(ctx, w, turns.ClassWaited, "waited longer than allowed for a login")
		}
	}
	err = r.enqueue(ctx, w.Entry, 0)
	if err == nil {
		return FoundDue, r.store.Defer(ctx, l, NextLook(w.Looks, false))
	}
	if !errors.Is(err, tasks.ErrTaken) {
		return "", err
	}
	state, err := r.task(ctx, w)
	if err != nil {
		return "", err
	}
	return r.mend(ctx, l, w, state)
}

// task finds where asynq has the task of an attempt whose id is taken.
func (r *Relay) task(ctx context.Context, w store.Waits) (TaskState, error) {
	queue, id := tasks.Queue(w.Entry.Service), tasks.TaskID(w.Entry.Attempt, 0)
	info, err := r.inspector.GetTaskInfo(queue, id)
	if errors.Is(err, asynq.ErrTaskNotFound) {
		return TaskGone, nil
	}
	if err != nil {
		return TaskUnreadable, nil
	}
	state := taskState(info)
	if state == TaskWaiting && w.Looks >= listedLooks {
		// It says pending; is it in the list? Asked seldom, since the list may be long.
		_, err := r.rdb.LPos(ctx, "asynq:{"+queue+"}:pending", id, redis.LPosArgs{}).Result()
		if errors.Is(err, redis.Nil) {
			return TaskUnreadable, nil
		}
		if err != nil {
			return "", err
		}
	}
	return state, nil
}

// mend does what the diagnosis says about a queued attempt whose task id is taken.
func (r *Relay) mend(ctx context.Context, l store.Look, w store.Waits, state TaskState) (Finding, error) {
	finding, cure := Diagnose(state, w.Looks)
	queue := tasks.Queue(w.Entry.Service)
	switch cure {
	case CureWait:
	case CureRun:
		if err := r.expedite(ctx, w.Entry); err != nil {
			return finding, err
		}
	case CureEnd:
		return finding, r.end(ctx, w, turns.ClassUnknown, "its task was archived by hand")
	case CureReissue:
		if err := r.inspector.DeleteTask(queue, tasks.TaskID(w.Entry.Attempt, 0)); err != nil && !errors.Is(err, asynq.ErrTaskNotFound) {
			return finding, fmt.Errorf("delete the dead task of %s: %w", w.Entry.Attempt, err)
		}
		if err := r.enqueue(ctx, w.Entry, 0); err != nil && !errors.Is(err, tasks.ErrTaken) {
			return finding, err
		}
	case CureSpare:
		if err := r.enqueue(ctx, w.Entry, w.Looks+1); err != nil && !errors.Is(err, tasks.ErrTaken) {
			return finding, err
		}
	}
	if finding != FoundTaskWaits {
		r.log.Warn("relay mended an attempt", "attempt", w.Entry.Attempt, "service", w.Entry.Service, "finding", string(finding), "cure", string(cure))
	}
	return finding, r.store.Defer(ctx, l, NextLook(w.Looks, true))
}

// end is the dead letter of a queued attempt. What follows is handed on.
func (r *Relay) end(ctx context.Context, w store.Waits, class turns.Class, reason string) error {
	ended, err := r.store.End(ctx, w.Entry.Attempt, "end:"+w.Entry.Attempt, turns.Ending{Class: class, Error: reason, Reason: reason})
	if store.Refused(err) {
		return nil
	}
	if err != nil {
		return err
	}
	r.log.Error("dead letter ended", "thread", w.Entry.Thread, "turn", w.Entry.Turn, "attempt", w.Entry.Attempt,
		"role", w.Entry.Role, "service", w.Entry.Service, "reason", reason)
	if r.metrics != nil {
		r.metrics.DeadLetter(w.Entry.Service, string(tasks.TypeFor(w.Entry.Cause)), "end")
	}
	if r.Ended != nil && !ended.Already {
		r.Ended(ctx, w.Entry.Turn, ended)
	}
	return r.Hand(ctx, ended.Outbox)
}

func taskState(info *asynq.TaskInfo) TaskState {
	if info.ID == "" {
		return TaskUnreadable // a ghost: its hash stands without its message
	}
	switch info.State {
	case asynq.TaskStateArchived:
		if tasks.LostByRecoverer(info) || tasks.Refused(info) {
			return TaskLost
		}
		return TaskArchived
	case asynq.TaskStateCompleted:
		return TaskCompleted
	case asynq.TaskStateActive:
		return TaskActive
	case asynq.TaskStatePending, asynq.TaskStateAggregating:
		return TaskWaiting
	case asynq.TaskStateScheduled, asynq.TaskStateRetry:
		return TaskDelayed
	}
	return TaskUnreadable
}

// WakeWaiting makes attempts that wait for a login of these services due now, and
// hands them to asynq. It returns how many there were.
func WakeWaiting(ctx context.Context, s *store.Store, r *Relay, services []string) (int, error) {
	waiting, err := s.WaitingFor(ctx, services)
	if err != nil {
		return 0, err
	}
	for i, e := range waiting {
		if err := s.DueNow(ctx, e.Attempt); err != nil {
			if store.Refused(err) {
				continue
			}
			return i, err
		}
		if err := r.Hand(ctx, e); err != nil {
			return i, err
		}
	}
	return len(waiting), nil
}

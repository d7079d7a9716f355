package handlers

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/hibiken/asynq"

	"rota/agents"
	"rota/credentials"
	"rota/internal/metrics"
	"rota/internal/redact"
	"rota/internal/tracing"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
	"rota/workspaces"
)

// Handler carries out the attempts of one service.
type Handler struct {
	Service string
	Worker  string // this worker's name, for people
	Agent   agents.Agent
	// ReadOnly says that the agent's own switches keep reviewer and arbiter from
	// changing the workspace; where not, the tree is compared and a change undone.
	ReadOnly bool
	// Structured says that the agent gives its verdict as structured output.
	Structured bool

	Store       *store.Store
	Hand        func(ctx context.Context, e turns.OutboxEntry) error // the relay
	Runs        *Runs
	Workspaces  *workspaces.Workspaces
	Credentials *credentials.Credentials
	Prompts     string // folder of replaced templates; may be empty
	// Served reports whether a live worker serves a service.
	Served func(ctx context.Context, service string) (bool, error)
	// Lease is the longest lease of any role; half of it bounds a claim. The default
	// lease when 0.
	Lease time.Duration
	// GiveBack returns what the guard of a run needs to give it back; nil for no guard.
	GiveBack func(store.Run) []byte
	// Deployment names the store, so that a sweep of left-over agents finds only its own.
	Deployment string
	// LoginBack is told that logins of these services work again: attempts that wait
	// for one are due now. Nil for nobody.
	LoginBack func(ctx context.Context, services []string)
	// Ended is told of every turn that this handler ended; nil for nobody.
	Ended func(ctx context.Context, turn string, e store.Ended)

	Log     *slog.Logger
	Metrics *metrics.Set
}

// settleTime bounds the writes that record what came of a run, while Redis is away.
const settleTime = 20 * time.Second

// ProcessTask carries out the attempt that a task carries: claim it, run the
// agent, record what came of it. Its error, if any, tells the hook which move to
// make; see deadletter.go.
func (h *Handler) ProcessTask(ctx context.Context, task *asynq.Task) (failed error) {
	if !h.Runs.enter() {
		return &notClaimed{errDraining}
	}
	defer h.Runs.leave()
	message, err := tasks.Decode(task.Payload())
	if errors.Is(err, tasks.ErrVersion) {
		// A newer worker takes it: until then the task is tried again, uncounted.
		h.Metrics.Refused(h.Service, "version")
		return &notClaimed{err}
	}
	if err != nil {
		return h.refuse(ctx, message, store.Records{}, "malformed", err)
	}
	claimed, err := h.claim(ctx, message)
	run, records := claimed.run, claimed.records
	if err != nil || run.ID == "" {
		return err
	}
	ctx, span := tracing.Span(ctx, "attempt", records.Attempt.Trace, records.Attempt.Previous != "", "thread", message.Thread, "turn", message.Turn,
		"attempt", message.Attempt, "role", string(message.Role), "service", h.Service, "cause", string(records.Attempt.Cause))
	defer func() { span.End(failed) }()
	before := 0
	if records.Attempt.Number > 1 || claimed.again {
		before = h.Runs.earlier(ctx, run, records.Attempt.Cause)
	}
	l := h.Runs.add(context.WithoutCancel(ctx), run, records.Turn, claimed.sent, before)
	h.Metrics.Running(h.Service, 1)
	defer h.Metrics.Running(h.Service, -1)
	defer h.Runs.remove(l)
	hooked := false // the hook makes the run's last write, and not a panic's way out
	defer func() {
		if !hooked {
			l.finish()
		}
	}()

	// The run lives under rota's own context. When asynq's ends before it, asynq
	// has given the task up, nobody hears our answer, and we make the move ourselves.
	err = h.carryOut(l, claimed)
	var delivery *deliveryError
	if !errors.As(err, &delivery) {
		return err
	}
	delivery.live = l
	if ctx.Err() != nil {
		h.Settle(context.WithoutCancel(ctx), task, err)
		return nil
	}
	// When asynq's context ends in this very moment, asynq hears that and not us: no
	// hook comes, and the lease decides.
	hooked = true
	time.AfterFunc(hookTime+settleTime, l.finish)
	return err
}

// carryOut runs the agent and records what came of it.
func (h *Handler) carryOut(l *live, claimed taken) error {
	began, records := time.Now(), claimed.records
	work := &work{handler: h, live: l, records: records, claimed: claimed}
	result, err := work.run()
	h.Metrics.Ran(h.Service, records.Turn.Role, time.Since(began))
	bound, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), settleTime)
	defer cancel()
	defer h.release(bound, l)
	switch {
	case errors.Is(err, errFenceLost):
		h.loginSpared(bound, work)
		h.Log.Info("run ended from outside", h.attrs(records, l.run)...)
		return nil
	case errors.Is(err, errInterrupt), err == nil && result.Interrupted:
		h.loginSpared(bound, work)
		return h.interrupted(bound, l, records, result)
	case err == nil:
		return h.settle(bound, work, result)
	}
	return h.fail(bound, work, err)
}

// settle ends the turn by its result; the next turn is opened in the same write.
func (h *Handler) settle(ctx context.Context, w *work, result agents.Result) error {
	ending := turns.Ending{
		State: turns.Completed, Outcome: result.Outcome, Text: h.keepWhole(w, result.Text), Session: result.Session,
		Tree: w.endTree, Progress: w.live.level(), Usage: usage(result),
	}
	h.checkpoint(ctx, w)
	seen := w.records
	if w.hasStarted() {
		seen.Turn.Tree = w.startTree
	}
	ended, err := retry(ctx, func() (store.Ended, error) { return h.Store.SettleFrom(ctx, w.live.run, seen, ending) })
	if err != nil {
		return h.unsettled(w, "settle", err)
	}
	h.loginWorked(ctx, w)
	h.moved(turns.VerbSettle, w.records, turns.Completed)
	h.Log.Info("turn settled", append(h.attrs(w.records, w.live.run), "outcome", result.Outcome, "next", ended.Next)...)
	h.follow(ctx, w.records.Turn.ID, ended)
	return nil
}

// checkpoint keeps the owner's result as a git ref, while the thread is still
// ours. A result is worth more than its copy: a failure is only logged.
func (h *Handler) checkpoint(ctx context.Context, w *work) {
	if w.records.Turn.Role != turns.Owner || !w.place.Git() {
		return
	}
	if _, err := h.Workspaces.Checkpoint(ctx, w.place, w.records.Turn.ID); err != nil {
		h.Log.Warn("checkpoint not recorded", append(h.attrs(w.records, w.live.run), "err", err)...)
	}
}

// interrupted ends the turn as cancelled and keeps the text so far.
func (h *Handler) interrupted(ctx context.Context, l *live, records store.Records, result agents.Result) error {
	text := result.Text
	if text == "" {
		text = l.words()
	}
	ending := turns.Ending{Text: text, Reason: "interrupted", Session: result.Session, Progress: l.level()}
	ended, err := retry(ctx, func() (store.Ended, error) { return h.Store.CancelRun(ctx, l.run, ending) })
	if err != nil {
		return h.unsettled(&work{live: l, records: records}, "cancel", err)
	}
	h.moved(turns.VerbCancel, records, turns.Cancelled)
	h.Log.Info("turn interrupted", h.attrs(records, l.run)...)
	h.follow(ctx, records.Turn.ID, ended)
	return nil
}

// fail answers a failed run by the decision about it.
func (h *Handler) fail(ctx context.Context, w *work, cause error) error {
	failure := *turns.FailureOf(cause)
	failure.Message = redact.Text(w.hidden(failure.Message))
	if w.endedFromOutside() {
		h.Log.Info("run ended from outside", append(h.attrs(w.records, w.live.run), "err", failure.Message)...)
		return nil
	}
	h.loginFailed(ctx, w, &failure)
	h.Metrics.Failure(h.Service, failure.Class)
	c, err := h.judge(ctx, w, failure)
	if err != nil {
		return h.unsettled(w, "judge", err)
	}
	d := Decide(c)
	h.Log.Warn("run failed", append(h.attrs(w.records, w.live.run), "class", failure.Class, "err", failure.Message,
		"progress", w.live.level(), "decision", d.String(), "reason", d.Reason)...)
	if d.Warn {
		h.Log.Warn("handed to a service that no worker serves", append(h.attrs(w.records, w.live.run), "target_service", d.Service)...)
	}
	next := store.Successor{
		Service: d.Service, Cause: d.Cause, Reason: d.Reason, Delay: d.Delay, Class: failure.Class, Error: failure.Message,
		Progress: w.live.level(),
	}
	if d.Cause == turns.CauseWait {
		next.Reason = d.Why
	}
	switch d.Verb {
	case turns.VerbReplace:
		return h.goOn(ctx, w, d, func() (store.Continued, error) { return h.Store.Replace(ctx, w.live.run, next) })
	case turns.VerbDelegate:
		return h.goOn(ctx, w, d, func() (store.Continued, error) { return h.Store.Delegate(ctx, w.live.run, next) })
	case turns.VerbLose:
		return h.giveBack(ctx, w, failure.Message)
	case turns.VerbSettle:
		ending := turns.Ending{State: turns.Failed, Class: failure.Class, Error: failure.Message, Reason: d.Reason, Progress: w.live.level(), Tree: w.endTree}
		ended, err := retry(ctx, func() (store.Ended, error) { return h.Store.Settle(ctx, w.live.run, ending) })
		if err != nil {
			return h.unsettled(w, "settle", err)
		}
		h.moved(turns.VerbSettle, w.records, turns.Failed)
		h.follow(ctx, w.records.Turn.ID, ended)
		return nil
	}
	// Requeue and compensate are the hook's moves.
	return &deliveryError{run: w.live.run, records: w.records, failure: failure, decision: d, progress: w.live.level()}
}

// goOn makes a move that keeps the turn open and hands its successor on. After it
// nothing of this run lands.
func (h *Handler) goOn(ctx context.Context, w *work, d Decision, move func() (store.Continued, error)) error {
	on, err := retry(ctx, move)
	if err != nil {
		return h.unsettled(w, string(d.Verb), err)
	}
	h.moved(d.Verb, w.records, turns.Moves[d.Verb].To[0])
	h.Metrics.Opened(d.Cause, d.Service)
	if d.Verb == turns.VerbDelegate {
		h.Metrics.Handoff(h.Service, d.Service, turns.FailureOf(w.err).Class)
	}
	h.Log.Info("turn goes on", append(h.attrs(w.records, w.live.run), "verb", d.Verb, "cause", d.Cause, "next", on.Attempt, "target_service", d.Service)...)
	h.hand(ctx, on.Outbox)
	return nil
}

// giveBack ends a run whose lease could not be renewed and whose agent is gone.
func (h *Handler) giveBack(ctx context.Context, w *work, reason string) error {
	attempt := w.records.Attempt
	attempt.Run, attempt.Fence = w.live.run.ID, w.live.run.Fence
	var ended *store.Ended
	next, err := retry(ctx, func() (turns.OutboxEntry, error) {
		next, e, err := h.Store.LoseOrEnd(ctx, attempt, true, reason)
		ended = e
		return next, err
	})
	if err != nil {
		return h.unsettled(w, "lose", err)
	}
	h.moved(turns.VerbLose, w.records, turns.Lost)
	h.hand(ctx, next)
	if ended != nil {
		h.follow(ctx, w.records.Turn.ID, *ended)
	}
	return nil
}

// unsettled is a run whose end could not be written. A refused write means that
// the run lost its attempt: nothing is left to do. Anything else is left to the
// net: the lease runs out, and the turn goes on.
func (h *Handler) unsettled(w *work, verb string, err error) error {
	if store.Refused(err) {
		h.Log.Info("write came too late", append(h.attrs(w.records, w.live.run), "verb", verb, "err", err)...)
		w.live.end()
		return nil
	}
	h.Log.Error("run's end not written: its lease decides", append(h.attrs(w.records, w.live.run), "verb", verb, "err", err)...)
	return nil
}

// follow hands the next turn on and tells who wants to know.
func (h *Handler) follow(ctx context.Context, turn string, e store.Ended) {
	h.hand(ctx, e.Outbox)
	if h.Ended != nil && !e.Already {
		h.Ended(ctx, turn, e)
	}
}

func (h *Handler) hand(ctx context.Context, e turns.OutboxEntry) {
	if err := h.Hand(ctx, e); err != nil {
		h.Log.Warn("attempt not handed on: the next pass does it", "attempt", e.Attempt, "service", e.Service, "err", err)
	}
}

// release ends the hold of a run whose attempt ended under it; the agent's tree
// is gone. For every other end the hold went with the write.
func (h *Handler) release(ctx context.Context, l *live) {
	if l.lost() {
		h.letGo(ctx, l.run)
	}
}

// letGo ends the hold of a run whose agent is gone, unless another run has the
// thread already, and hands on what waited for it.
func (h *Handler) letGo(ctx context.Context, run store.Run) {
	waiter, err := retry(ctx, func() (string, error) { return h.Store.Release(ctx, run) })
	if err != nil {
		h.Log.Warn("hold not released: it ends by itself", "attempt", run.Attempt, "fence", run.Fence, "err", err)
		return
	}
	if waiter == "" {
		return
	}
	if w, err := h.Store.Waiter(ctx, waiter); err == nil && w.State == turns.Queued {
		h.hand(ctx, w.Entry)
	}
}

func (h *Handler) moved(v turns.Verb, r store.Records, to turns.State) {
	h.Metrics.Move(v, r.Turn.Role, h.Service, to)
}

func (h *Handler) attrs(r store.Records, run store.Run) []any {
	return []any{"thread", r.Turn.Thread, "turn", r.Turn.ID, "attempt", run.Attempt, "fence", run.Fence, "service", h.Service, "role", r.Turn.Role}
}

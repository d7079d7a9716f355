package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"rota/agents"
	"rota/credentials"
	"rota/internal/redact"
	"rota/internal/tracing"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
	"rota/workspaces"
)

// work is the middle of a run: prepare workspace, login and prompt for exactly
// this role, run the agent, and look at what it left behind.
type work struct {
	handler *Handler
	live    *live
	records store.Records
	claimed taken

	place   workspaces.Workspace
	guard   *workspaces.Guard
	choice  *credentials.Choice
	hide    *strings.Replacer // the run's login, by its texts; nil for none
	started bool              // the agent accepted the prompt

	startTree, endTree string // of the workspace; before the agent came, and after it was gone
	err                error
}

// run carries the work out. An error is a *turns.Failure, or one of the reasons
// for which rota itself ends a run. A panic is a crash.
func (w *work) run() (result agents.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = turns.Fail(turns.ClassCrash, "panic: %v", p)
		}
		err = w.reason(err)
		w.err = err
	}()
	ctx := w.live.ctx
	task, err := w.prepareInTime(ctx)
	if err != nil {
		return result, err
	}
	stop := time.AfterFunc(w.records.Turn.Limits.Start, func() {
		if !w.hasStarted() {
			w.live.cancel(errStartLimit)
		}
	})
	defer stop.Stop()
	whole := time.AfterFunc(w.records.Turn.Limits.Start+w.records.Turn.Limits.Run, func() { w.live.cancel(errRunLimit) })
	defer whole.Stop()

	agentCtx, span := tracing.Span(ctx, "agent", "", false, "agent", w.handler.Agent.Kind())
	result, err = w.handler.Agent.Run(agentCtx, task, &reporter{w: w})
	result.Text = w.hidden(result.Text)
	span.End(w.redacted(err))
	if after := w.inspect(); err == nil {
		err = after
	}
	if err != nil || result.Interrupted {
		return result, err
	}
	return w.verdict(result)
}

// prepareInTime bounds the preparation by the start limit, counted by itself: a
// git or a login's command that hangs must not hold the thread for a whole run.
func (w *work) prepareInTime(ctx context.Context) (agents.Task, error) {
	limit := w.records.Turn.Limits.Start
	bound, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	task, err := w.prepare(bound)
	if err != nil && bound.Err() != nil && ctx.Err() == nil {
		return task, turns.Fail(turns.ClassTimeout, "the workspace or the login was not ready in time (%s): %v", limit, err)
	}
	return task, err
}

// prepare makes ready what the agent needs.
func (w *work) prepare(ctx context.Context) (agents.Task, error) {
	h, t := w.handler, w.records.Turn
	if err := w.login(ctx); err != nil {
		return agents.Task{}, err
	}
	if err := w.workspace(ctx); err != nil {
		return agents.Task{}, err
	}
	prompt, previous, err := w.prompt(ctx)
	if err != nil {
		return agents.Task{}, err
	}
	task := agents.Task{
		Thread: t.Thread, Turn: t.ID, Attempt: w.live.run.Attempt, Role: t.Role, Intent: t.Intent, Fence: w.live.run.Fence,
		Prompt: prompt, Workspace: w.place.Path, Session: w.session(), Previous: previous,
		WantVerdict: t.Paired != "", Outcomes: turns.Outcomes(t.Role), ReadOnly: t.Role != turns.Owner,
		Start: t.Limits.Start, Silence: t.Limits.Silence, Controls: w.live.controls,
	}
	if w.choice != nil {
		if task.Login, err = w.choice.Load(ctx); err != nil {
			return agents.Task{}, &turns.Failure{Class: turns.ClassAuth, Message: err.Error(), Dead: true}
		}
		w.hide = hiding(task.Login)
	}
	if h.GiveBack != nil {
		task.Lease = &agents.Lease{Until: w.live.leaseUntil, Silence: w.live.lease / 3, GiveBack: h.GiveBack(w.live.run),
			Store: h.Deployment, Settled: w.live.settled}
	}
	return task, nil
}

// login chooses a login for the run. When none is usable, that is a failure like a
// used-up quota: the decision looks for another service or waits.
func (w *work) login(ctx context.Context) error {
	h := w.handler
	if h.Credentials == nil {
		return nil
	}
	if choice, ok := w.claimed.ahead.Choice(); ok {
		w.choice = &choice
		return nil
	}
	choice, err := h.Credentials.Pick(ctx, h.Service, w.live.run.ID)
	var none *credentials.None
	if errors.As(err, &none) {
		class := turns.ClassQuota
		if none.Reason == credentials.NeedsLogin {
			class = turns.ClassAuth
		}
		return &turns.Failure{Class: class, Message: err.Error(), ResetsAt: none.Until}
	}
	if err != nil {
		return fmt.Errorf("choose a login: %w", err)
	}
	w.choice = &choice
	return nil
}

// workspace prepares the thread's folder. A child thread works in its root's
// source with a worktree of its own.
func (w *work) workspace(ctx context.Context) error {
	h, t := w.handler, w.records.Turn
	source := w.records.Thread.Workspace
	if root := turns.Root(t.Thread); root != t.Thread {
		if r, err := h.Store.Thread(ctx, root); err == nil {
			source = r.Workspace
		}
	}
	var err error
	if w.place, err = h.Workspaces.Prepare(ctx, t.Thread, source); err != nil {
		return turns.Fail(turns.ClassConfig, "%v", err)
	}
	if t.Role != turns.Owner && !h.ReadOnly {
		if w.guard, err = h.Workspaces.Guarded(ctx, w.place); err != nil {
			return turns.Fail(turns.ClassConfig, "%v", err)
		}
		w.startTree = w.guard.Tree()
		return nil
	}
	// Before the agent is there: an approval is for this tree.
	if w.startTree, err = h.Workspaces.Tree(ctx, w.place); err != nil {
		return turns.Fail(turns.ClassConfig, "read the workspace's tree: %v", err)
	}
	return nil
}

func (w *work) session() string {
	if w.records.Attempt.Cause == turns.CauseFreshSession {
		return ""
	}
	// The session of the role's last completed turn on this service. A failed run
	// may have left its prompt in a session, so an attempt never resumes that of the
	// one before.
	return w.records.Thread.Sessions[turns.SessionKey(w.handler.Service, w.records.Turn.Role)]
}

// inspect looks at what the agent left behind, after its tree is gone: the tree,
// and for a reviewer that no switch keeps from it, changes, which are undone.
func (w *work) inspect() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.live.ctx), time.Minute)
	defer cancel()
	if w.guard != nil {
		change, err := w.guard.Verify(ctx)
		if err != nil {
			return turns.Fail(turns.ClassConfig, "compare the workspace: %v", err)
		}
		if change.Any() {
			return turns.Fail(turns.ClassBadOutput, "the %s changed the workspace (%s); the change was undone and its verdict is void",
				w.records.Turn.Role, change)
		}
	}
	tree, err := w.handler.Workspaces.Tree(ctx, w.place)
	if err != nil {
		return turns.Fail(turns.ClassConfig, "read the workspace's tree: %v", err)
	}
	w.endTree = tree
	return nil
}

// verdict takes the outcome from the agent's typed answer, else from the one
// strict line. A paired turn owes one.
func (w *work) verdict(result agents.Result) (agents.Result, error) {
	t := w.records.Turn
	if strings.TrimSpace(result.Text) == "" && result.Outcome == "" {
		return result, turns.Fail(turns.ClassEmpty, "the agent succeeded without an answer")
	}
	if t.Paired == "" {
		// A lone turn owes no verdict; one that it gives is kept.
		if outcome, err := pairs.ParseVerdict(t.Role, result.Text); result.Outcome == "" && err == nil {
			result.Outcome = outcome
		}
		return result, nil
	}
	if result.Outcome != "" {
		if _, err := turns.ParseOutcome(t.Role, string(result.Outcome)); err != nil {
			return result, turns.Fail(turns.ClassNoVerdict, "%v", err)
		}
		return result, nil
	}
	outcome, err := pairs.ParseVerdict(t.Role, result.Text)
	if err != nil {
		return result, turns.Fail(turns.ClassNoVerdict, "%v", err)
	}
	result.Outcome = outcome
	return result, nil
}

// reason puts rota's own reasons for ending a run in the place of what the agent
// said when it was killed for them.
func (w *work) reason(err error) error {
	if err == nil {
		return nil
	}
	switch cause := context.Cause(w.live.ctx); {
	case cause == nil:
		return err
	case errors.Is(cause, errFenceLost), errors.Is(cause, errInterrupt):
		return cause
	case errors.Is(cause, errUnrenewed):
		return turns.Fail(turns.ClassLost, "%v", errUnrenewed)
	case errors.Is(cause, errStartLimit):
		return turns.Fail(turns.ClassTimeout, "%v (%s)", errStartLimit, w.records.Turn.Limits.Start)
	case errors.Is(cause, errRunLimit):
		return turns.Fail(turns.ClassTimeout, "%v (%s)", errRunLimit, w.records.Turn.Limits.Run)
	case errors.Is(cause, errShutdown):
		return turns.Fail(turns.ClassShutdown, "%v", errShutdown)
	}
	return err
}

// redacted is an error as a trace may show it.
func (w *work) redacted(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(redact.Text(w.hidden(err.Error())))
}

func (w *work) hasStarted() bool {
	w.live.mu.Lock()
	defer w.live.mu.Unlock()
	return w.started
}

func (w *work) endedFromOutside() bool { return w.live.lost() }

// end notes that the turn or the attempt ended under the run: its hold is to be
// let go once the agent is gone.
func (l *live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// lost reports whether the turn or the attempt ended under the run.
func (l *live) lost() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended
}

func usage(r agents.Result) string {
	if r.Usage == (agents.Usage{}) && r.Model == "" {
		return ""
	}
	b, err := json.Marshal(struct {
		agents.Usage
		Model string `json:"model,omitempty"`
	}{r.Usage, r.Model})
	if err != nil {
		return ""
	}
	return string(b)
}

// keepWhole keeps an answer that is too long for the store in a file.
func (h *Handler) keepWhole(w *work, text string) string {
	if len(text) <= store.MaxText {
		return text
	}
	path, err := h.Workspaces.KeepOutput(w.records.Turn.Thread, w.live.run.Attempt, text)
	if err != nil {
		h.Log.Warn("whole answer not kept", "attempt", w.live.run.Attempt, "err", err)
		return text
	}
	h.Log.Info("whole answer kept in a file", "attempt", w.live.run.Attempt, "path", path)
	return text
}

package handlers

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"rota/agents"
	"rota/turns"
	"rota/turns/store"
)

// Why rota ends a run. Each is the cause of the run's context.
var (
	errFenceLost  = errors.New("the run does not hold its attempt any more")
	errUnrenewed  = errors.New("the lease could not be renewed in time")
	errStartLimit = errors.New("the agent did not accept the prompt in time")
	errRunLimit   = errors.New("the run took longer than allowed")
	errShutdown   = errors.New("the worker stops")
	errInterrupt  = errors.New("interrupted; the agent did not stop by itself")
)

// live is one run that this worker carries out, from its claim to its end.
type live struct {
	run    store.Run
	turn   turns.Turn
	lease  time.Duration
	ctx    context.Context
	cancel context.CancelCauseFunc

	controls chan agents.Control
	settled  chan struct{} // closed when the run's last write is done; until then its guard stays
	finished sync.Once

	mu       sync.Mutex
	until    time.Time   // the lease's end, counted from before the last good renewal was sent
	overdue  *time.Timer // ends the run while its agent can still be stopped within the lease
	progress turns.Progress
	text     string // the agent's last words, kept for an interrupt
	session  string
	asks     int  // requests seen
	before   int  // requests made to earlier runs of the turn
	ended    bool // the turn or attempt ended under the run: its hold is kept until the agent is gone

	questions map[string]question // open questions to a person, by item
}

// finish lets the guard of the run go. It may be called again.
func (l *live) finish() { l.finished.Do(func() { close(l.settled) }) }

// leaseUntil is the lease's end as the guard must see it.
func (l *live) leaseUntil() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// renewed notes a good renewal that was sent at sent.
func (l *live) renewed(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = sent.Add(l.lease)
	// A fifth of the lease is kept for stopping the agent.
	left := time.Until(l.until) - l.lease/5
	if l.overdue == nil {
		l.overdue = time.AfterFunc(left, func() { l.cancel(errUnrenewed) })
		return
	}
	l.overdue.Reset(left)
}

func (l *live) report(level turns.Progress, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.progress.Below(level) {
		l.progress = level
	}
	if text != "" {
		l.text = text
	}
}

func (l *live) level() turns.Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.progress == "" {
		return turns.ProgressNone
	}
	return l.progress
}

func (l *live) words() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text
}

func (l *live) setSession(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session = id
}

func (l *live) sessionID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// Runs keeps the leases of all runs of a worker alive: one call per shard for all
// of them. It ends a run whose fence is lost or whose time is over, and brings
// people's requests to it.
type Runs struct {
	store *store.Store
	log   *slog.Logger

	mu       sync.Mutex
	entered  int  // handlers at work, also before their claim and after their run
	draining bool // nothing new is taken
	stopped  bool // what begins all the same is given back at once

	all  map[string]*live // by run id
	idle chan struct{}    // closed and replaced when the last handler leaves
	next time.Duration    // pause until the next renewal
	kick chan struct{}
}

// NewRuns returns an empty set of runs.
func NewRuns(s *store.Store, log *slog.Logger) *Runs {
	return &Runs{store: s, log: log, all: map[string]*live{}, idle: make(chan struct{}), kick: make(chan struct{}, 1)}
}

// Kick makes the next renewal happen now: a person's request is waiting.
func (r *Runs) Kick() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// Len returns the number of runs.
func (r *Runs) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

func (r *Runs) list() []*live {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*live, 0, len(r.all))
	for _, l := range r.all {
		all = append(all, l)
	}
	return all
}

// add starts the life of a run; parent must not be asynq's context, because only
// rota's own reasons end a run.
func (r *Runs) add(parent context.Context, run store.Run, t turns.Turn, sent time.Time, before int) *live {
	ctx, cancel := context.WithCancelCause(parent)
	l := &live{run: run, turn: t, before: before, lease: t.Limits.Lease, ctx: ctx, cancel: cancel, controls: make(chan agents.Control, 64), settled: make(chan struct{})}
	l.renewed(sent)
	r.mu.Lock()
	r.all[run.ID] = l
	sooner, stopped := l.lease/6 < r.next, r.stopped
	r.mu.Unlock()
	if stopped {
		cancel(errShutdown)
	}
	if sooner || before > 0 {
		r.Kick()
	}
	return l
}

func (r *Runs) remove(l *live) {
	l.mu.Lock()
	l.overdue.Stop()
	l.mu.Unlock()
	l.silence()
	l.cancel(context.Canceled)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, l.run.ID)
}

// Run renews until ctx ends.
func (r *Runs) Run(ctx context.Context) error {
	for {
		r.renew(ctx)
		pause := r.pause()
		r.mu.Lock()
		r.next = pause
		r.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-r.kick:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// pause is a sixth of the shortest lease.
func (r *Runs) pause() time.Duration {
	shortest := turns.DefaultLimits.Lease
	for _, l := range r.list() {
		shortest = min(shortest, l.lease)
	}
	return shortest / 6
}

func (r *Runs) renew(ctx context.Context) {
	call, cancel := context.WithTimeout(ctx, max(time.Second, r.pause()))
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	var lives []*live
	var renewals []store.Renewal
	for _, l := range r.list() {
		if l.lost() {
			group.Go(func() { r.keepHold(call, l) })
			continue
		}
		lives = append(lives, l)
		renewals = append(renewals, store.Renewal{Run: l.run, Lease: l.lease, Progress: l.level(), Session: l.sessionID()})
	}
	if len(renewals) == 0 {
		return
	}
	sent := time.Now()
	answers, err := r.store.Renew(call, renewals)
	if err != nil {
		r.log.Warn("leases not renewed", "runs", len(renewals), "err", err)
	}
	var heard []int
	for i, l := range lives {
		switch a := answers[i]; {
		case a.Unknown:
		case a.OK:
			l.renewed(sent)
			heard = append(heard, i)
		case a.Over:
			l.cancel(errRunLimit)
		default:
			l.end()
			l.cancel(errFenceLost)
		}
	}
	// After all leases, with a time of its own: what is read here is less urgent.
	read, stop := context.WithTimeout(ctx, max(time.Second, r.pause()))
	defer stop()
	for _, i := range heard {
		r.deliver(read, lives[i], answers[i].Asks)
	}
}

// keepHold keeps the thread's hold of a run that lost its attempt, while its
// agent is being stopped, so that no successor starts beside it.
func (r *Runs) keepHold(ctx context.Context, l *live) {
	if err := r.store.KeepHold(ctx, l.run, l.lease); err != nil && !errors.Is(err, store.ErrStale) {
		r.log.Warn("hold not kept", "attempt", l.run.Attempt, "fence", l.run.Fence, "err", err)
	}
}

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/metrics"
	"rota/internal/pipeline"
	"rota/turns"
	"rota/turns/store"
)

// Config is what a reconciler needs. The function fields may be nil.
type Config struct {
	Store   *store.Store
	Relay   *Relay
	Log     *slog.Logger
	Metrics *metrics.Set
	// Every is the time between two passes; 1 s, or a tenth of a shorter lease, when 0.
	Every time.Duration
	// Lease is the longest lease of any role: an amnesty lasts one; 30 s when 0.
	Lease time.Duration
	// Shortest is the shortest lease of any role: Redis counts as away after a third
	// of it; Lease when 0.
	Shortest time.Duration
	// Services are checked for workers: a service that attempts wait for and nobody
	// serves is warned about.
	Services []string
	// Fire carries out a stored command or schedule that is due.
	Fire func(ctx context.Context, id string) error
	// Retired is told of a paired task or lone turn before it is removed, so that
	// its workspace can be cleaned up.
	Retired func(ctx context.Context, id string) error
	// Ended is told of turns that a pass ended, so that people are asked.
	Ended func(ctx context.Context, turn string, e store.Ended)
	// Only, when set, bounds everything that is mended to the outbox and the leases of
	// the threads it names; the rest of the store is left to others.
	Only func(thread string) bool
}

// Reconciler finds and mends what no hook saw.
type Reconciler struct {
	Config
	servers *servers
	last    bool // this worker made the last pass, and probably makes the next one
	drift   int  // the shard whose open turns are compared next
	warned  map[string]time.Time
	said    map[string]time.Time // problems, and when each was logged
	checked time.Time            // when the invariants were last looked at
}

// NewReconciler returns a reconciler.
func NewReconciler(c Config) *Reconciler {
	if c.Lease == 0 {
		c.Lease = turns.DefaultLimits.Lease
	}
	if c.Shortest == 0 {
		c.Shortest = c.Lease
	}
	if c.Every == 0 {
		// Redis counts as away when nobody looked for a third of a lease.
		c.Every = min(time.Second, c.Shortest/10)
	}
	return &Reconciler{Config: c, servers: newServers(c.Store), warned: map[string]time.Time{}, said: map[string]time.Time{}}
}

// Report is what one pass found, and what it could not do.
type Report struct {
	Found    map[Finding]int
	Amnesty  bool // an amnesty began
	Problems []error
}

func (r *Report) add(f Finding) {
	if f != "" {
		r.Found[f]++
	}
}

func (r *Report) failed(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		r.Problems = append(r.Problems, err)
	}
}

// mine reports whether this worker makes the next pass. One of all workers does,
// whoever asks first when the last pass is old enough: the cost of the passes does
// not grow with the number of workers. Nothing is held while a pass is made, so a
// worker that dies or hangs in it delays nobody. When Redis does not answer,
// everybody tries.
func (r *Reconciler) mine(ctx context.Context) bool {
	if r.Only != nil {
		return true // it is nobody else's pass, and must not stand for one
	}
	// Workers that look at different times don't share passes.
	key := fmt.Sprintf("rota:{pass}:%d", r.Every.Milliseconds())
	var first *redis.BoolCmd
	_, _ = pipeline.Send(ctx, r.Store.Redis(), func(p redis.Pipeliner) {
		first = p.SetNX(ctx, key, 1, max(time.Millisecond, r.Every*9/10))
		if r.last {
			r.servers.along(p)
		}
	})
	if r.last = first.Val() || first.Err() != nil; !r.last {
		r.servers.ahead = nil // it would be old in the pass that this worker makes next
	}
	return r.last
}

// Run makes passes until ctx ends, in turns with the other workers. A failed pass
// is logged once until the next good one.
func (r *Reconciler) Run(ctx context.Context) error {
	tick := time.NewTicker(r.Every)
	defer tick.Stop()
	failing := false
	for {
		var report Report
		var err error
		if r.mine(ctx) {
			report, err = r.Pass(ctx)
		} else {
			r.spared()
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !failing:
			r.Log.Warn("pass failed", "err", err)
			failing = true
		case err == nil:
			failing = false
		}
		if err != nil && r.Metrics != nil {
			r.Metrics.PassFailed()
		}
		r.tell(report)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// spared is a pass that another worker makes: what it finds is its to say.
func (r *Reconciler) spared() {
	for _, service := range r.Services {
		if r.Metrics != nil {
			r.Metrics.Unserved(service, false)
		}
	}
}

func (r *Reconciler) tell(report Report) {
	if report.Amnesty {
		r.Log.Warn("redis was away: no run is called lost for one lease", "lease", r.Lease)
		if r.Metrics != nil {
			r.Metrics.Amnesty()
		}
	}
	for _, f := range slices.Sorted(maps.Keys(report.Found)) {
		if r.Metrics != nil {
			r.Metrics.Finding(string(f), report.Found[f])
		}
		switch f {
		case FoundDue, FoundTaskWaits, FoundAlive, FoundCommand, FoundUnserved, FoundViolation:
		default:
			r.Log.Info("pass mended", "finding", string(f), "count", report.Found[f])
		}
	}
	r.complain(report.Problems, time.Now())
}

// sayAgain is how long a problem that stays is not logged again.
const sayAgain = time.Minute

// complain logs what could not be mended. Passes are made every second, and what
// can't be read now can't be read then: the same problem is logged once a minute.
func (r *Reconciler) complain(problems []error, now time.Time) {
	maps.DeleteFunc(r.said, func(_ string, at time.Time) bool { return now.Sub(at) >= sayAgain })
	for _, err := range problems {
		if _, said := r.said[err.Error()]; !said {
			r.said[err.Error()] = now
			r.Log.Warn("pass could not mend", "err", err)
		}
	}
}

// Pass looks at every shard once and mends what is due. It may run at any number
// of workers at once. The error is of Redis: nothing was looked at. Shards of a
// Cluster that are out of reach are a problem in the report; the others are mended.
func (r *Reconciler) Pass(ctx context.Context) (Report, error) {
	report := Report{Found: map[Finding]int{}}
	straying, queues := r.Store.Straying(r.drift%r.Store.Shards(), comparedAtOnce), &queues{services: r.Services}
	glances, err := r.Store.LookAll(ctx, store.LookOptions{Gap: r.Shortest / 3, Amnesty: r.Lease, Server: r.servers.look(ctx)},
		straying.Along, queues.along)
	if len(glances) == 0 && err != nil {
		return report, err
	}
	report.failed(err)
	whole := err == nil
	for _, g := range glances {
		if r.Only != nil {
			g = r.bounded(g)
		}
		report.Amnesty = report.Amnesty || g.Begun
		for _, l := range g.Outbox {
			f, err := r.Relay.Look(ctx, l)
			report.add(f)
			report.failed(err)
		}
		for _, attempt := range g.Expired {
			f, err := r.lose(ctx, attempt)
			report.add(f)
			report.failed(err)
		}
		for _, turn := range g.Sweeps {
			_, _, err := r.Store.Sweep(ctx, turn)
			report.add(FoundSweep)
			report.failed(err)
		}
		for _, id := range g.Ended {
			report.add(FoundEnded)
			report.failed(r.retire(ctx, id))
		}
		if r.Fire != nil {
			for _, id := range g.Due {
				report.add(FoundCommand)
				report.failed(r.Fire(ctx, id))
			}
		}
	}
	if whole && r.Only == nil { // else they would wait for what is out of reach
		report.failed(r.compare(ctx, straying, &report))
		report.failed(r.unserved(ctx, queues, &report))
		report.failed(r.invariants(ctx, &report))
	}
	return report, nil
}

// bounded leaves of a glance what Only allows.
func (r *Reconciler) bounded(g store.Glance) store.Glance {
	g.Outbox = slices.DeleteFunc(g.Outbox, func(l store.Look) bool { return !r.Only(turns.ThreadOf(l.Attempt)) })
	g.Expired = slices.DeleteFunc(g.Expired, func(attempt string) bool { return !r.Only(turns.ThreadOf(attempt)) })
	g.Sweeps, g.Ended, g.Due = nil, nil, nil
	return g
}

// lose declares a run dead whose lease has run out. The script checks that again.
func (r *Reconciler) lose(ctx context.Context, attempt string) (Finding, error) {
	a, err := r.Store.Attempt(ctx, attempt)
	if errors.Is(err, store.ErrNotFound) {
		return FoundGone, r.Store.DropLease(ctx, attempt)
	}
	if err != nil {
		return "", err
	}
	if !a.State.Held() {
		return FoundGone, r.Store.DropLease(ctx, attempt)
	}
	outbox, ended, err := r.Store.LoseOrEnd(ctx, a, false, "lease ran out")
	switch {
	case errors.Is(err, store.ErrAlive), errors.Is(err, store.ErrAmnesty), store.Refused(err):
		return FoundAlive, nil
	case err != nil:
		return "", err
	}
	r.Log.Warn("run lost", "turn", a.Turn, "attempt", attempt, "fence", a.Fence, "service", a.Service, "worker", a.Worker, "next", outbox.Attempt)
	if ended != nil && r.Ended != nil {
		r.Ended(ctx, a.Turn, *ended)
	}
	return FoundExpired, r.Relay.Hand(ctx, outbox)
}

// comparedAtOnce bounds what one pass compares, so that its cost does not grow
// with what exists.
const comparedAtOnce = 50

// compare looks at a bounded number of open turns of one shard a pass and finds
// those without a net: only a hand in the store or a fault of ours makes one.
func (r *Reconciler) compare(ctx context.Context, straying *store.Straying, report *Report) error {
	r.drift++
	stray, err := straying.Read(ctx)
	if err != nil {
		return err
	}
	for _, s := range stray {
		switch {
		case s.Orphan:
			report.add(FoundOrphan)
			_, err = r.Store.Cancel(ctx, s.Turn, "orphan:"+s.Turn, "its parent was cancelled")
		case s.State == turns.Queued:
			report.add(FoundNoEntry)
			err = r.Store.DueNow(ctx, s.Attempt)
		default:
			report.add(FoundNoLease)
			_, err = r.lose(ctx, s.Attempt)
		}
		var final *store.FinalError
		if err != nil && !store.Refused(err) && !errors.As(err, &final) {
			return err
		}
	}
	return nil
}

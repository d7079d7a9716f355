package handlers

import "context"

// Drain lets no handler begin any more: its task goes to another worker.
func (r *Runs) Drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.draining = true
}

// enter lets a handler begin, and reports whether it may.
func (r *Runs) enter() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return false
	}
	r.entered++
	return true
}

func (r *Runs) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entered--
	if r.entered == 0 {
		close(r.idle)
		r.idle = make(chan struct{})
	}
}

// Stop ends every run: the worker stops. The runs are given back without counting
// a failure.
func (r *Runs) Stop() {
	r.mu.Lock()
	r.draining, r.stopped = true, true
	r.mu.Unlock()
	for _, l := range r.list() {
		l.cancel(errShutdown)
	}
}

// Wait returns when no handler is at work any more, or when ctx ends.
func (r *Runs) Wait(ctx context.Context) error {
	for {
		r.mu.Lock()
		n, idle := r.entered, r.idle
		r.mu.Unlock()
		if n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-idle:
		}
	}
}

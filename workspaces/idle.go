package workspaces

import (
	"context"
	"errors"
	"fmt"
)

// ErrNoWorkspace says that a thread has no workspace here.
var ErrNoWorkspace = errors.New("the thread has no workspace here")

// Checkpoint is a stored checkpoint of a thread, as people see it.
type Checkpoint struct {
	Number int
	Ref    string
	Commit string
	Tree   string
	Title  string
}

// Checkpoints lists the checkpoints of a thread, in the order of their refs. A
// thread without a workspace here has none (ErrNoWorkspace).
func (w *Workspaces) Checkpoints(ctx context.Context, thread string) ([]Checkpoint, error) {
	place, rec, err := w.known(thread)
	if err != nil {
		return nil, err
	}
	if rec.Kind != kindWorktree {
		return nil, nil
	}
	all, err := place.checkpoints(ctx, rec)
	if err != nil {
		return nil, fmt.Errorf("checkpoints of %s: %w", thread, explain(err, w.Dir))
	}
	list := make([]Checkpoint, len(all))
	for i, c := range all {
		list[i] = Checkpoint{c.number, c.ref, c.commit, c.tree, c.title}
	}
	return list, nil
}

func (w *Workspaces) known(thread string) (place, record, error) {
	p, err := w.place(thread)
	if err != nil {
		return place{}, record{}, err
	}
	rec, ok, err := p.load()
	if err == nil && !ok {
		err = fmt.Errorf("%s: %w", thread, ErrNoWorkspace)
	}
	return p, rec, err
}

// WhileIdle calls f with the thread's workspace locked, after idle has said under
// the same lock that no run is in the thread. A run prepares its workspace after
// its claim and under this lock: one that idle did not see waits until f is done.
func (w *Workspaces) WhileIdle(ctx context.Context, thread string, idle func() error, f func(Idle) error) error {
	if _, _, err := w.known(thread); err != nil {
		return err
	}
	p, unlock, err := w.enter(ctx, thread)
	if err != nil {
		return err
	}
	defer unlock()
	if err := idle(); err != nil {
		return err
	}
	rec, ok, err := p.load()
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("%s: %w", thread, ErrNoWorkspace)
	}
	return f(Idle{place: p, record: rec})
}

// Idle is a locked workspace without a run in it.
type Idle struct {
	place  place
	record record
}

// Rollback is Workspaces.Rollback.
func (i Idle) Rollback(ctx context.Context, ref string) error {
	if i.record.Kind != kindWorktree {
		return fmt.Errorf("roll back %s: its workspace is no git repository, so there are no checkpoints", i.place.thread)
	}
	return i.place.rollback(ctx, i.record, ref)
}

// Cleanup is Workspaces.Cleanup.
func (i Idle) Cleanup(ctx context.Context) (ref string, err error) { return i.place.cleanup(ctx) }

package workspaces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Cleanup removes the worktree of a thread whose task has ended and answers the
// ref that keeps what was not committed, or nothing when all was. The branch,
// the checkpoints and the outputs stay. Ignored files are gone. A fresh folder
// goes only when it is empty, the user's own folder never. It may be repeated.
func (w *Workspaces) Cleanup(ctx context.Context, thread string) (ref string, err error) {
	place, unlock, err := w.enter(ctx, thread)
	if err != nil {
		return "", err
	}
	defer unlock()
	if ref, err = place.cleanup(ctx); err != nil {
		return "", fmt.Errorf("clean up %s: %w", thread, explain(err, w.Dir))
	}
	return ref, nil
}

// Forget cleans up a thread and removes its outputs and every other trace of it
// below Dir. Branch and checkpoints stay in the user's repository.
func (w *Workspaces) Forget(ctx context.Context, thread string) error {
	place, unlock, err := w.enter(ctx, thread)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := place.cleanup(ctx); err != nil {
		return fmt.Errorf("forget %s: %w", thread, explain(err, w.Dir))
	}
	if exists(place.tree) {
		return fmt.Errorf("forget %s: its folder %s is not empty and in no repository; remove it yourself", thread, place.tree)
	}
	// One step, so that whoever waits for the lock begins in a folder of its own.
	if err := os.Rename(place.home, going(place.home)); err != nil {
		return explain(err, w.Dir)
	}
	return explain(removeAll(going(place.home)), w.Dir)
}

// going is where a folder waits to be removed. No thread's folder begins with a dot.
func going(path string) string {
	return filepath.Join(filepath.Dir(path), ".going-"+filepath.Base(path))
}

func (p place) cleanup(ctx context.Context) (ref string, err error) {
	if err := removeAll(going(p.tree)); err != nil {
		return "", err
	}
	rec, ok, err := p.load()
	if err != nil || !ok {
		return "", err
	}
	switch rec.Kind {
	case kindFresh:
		// ENOTEMPTY and ENOENT are both fine.
		_ = os.Remove(p.tree)
		if exists(p.tree) {
			return "", nil
		}
	case kindWorktree:
		if !exists(filepath.Join(rec.Common, "objects")) {
			return "", fmt.Errorf("the repository %s is not on this host, so nothing can be kept", rec.Common)
		}
		if exists(p.tree) {
			if ref, err = p.keep(ctx, rec); err != nil {
				return "", err
			}
			// One step, so that nobody takes a half removed worktree for work.
			if err := os.Rename(p.tree, going(p.tree)); err != nil {
				return "", err
			}
		}
		if err := p.forget(ctx, rec); err != nil {
			return ref, err
		}
	}
	for _, name := range []string{"record", "index", "guard"} {
		if err := os.Remove(p.file(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return ref, err
		}
	}
	return ref, removeAll(going(p.tree))
}

// keep takes a checkpoint if HEAD does not have the files as they are, or no
// branch keeps HEAD.
func (p place) keep(ctx context.Context, rec record) (string, error) {
	if err := p.repair(ctx, rec); err != nil {
		return "", err
	}
	if err := p.undoLeftGuard(ctx, p.workspace(rec)); err != nil {
		return "", err
	}
	entry, err := p.entry(rec)
	if err != nil {
		return "", err
	}
	branch, _, err := p.position(ctx, rec, entry)
	if err != nil {
		return "", err
	}
	tree, err := p.snapshot(ctx, rec, rec.excludes(), cover{cache: true})
	if err != nil {
		return "", err
	}
	committed, err := found(p.gitHere(ctx, entry, "rev-parse", "--verify", "-q", "HEAD^{tree}"))
	if err != nil {
		return "", err
	}
	if committed == tree && branch != "" {
		return "", nil
	}
	return p.checkpoint(ctx, rec, p.thread+" at its end")
}

package workspaces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxPaths bounds the paths that a Change names.
const maxPaths = 20

// Guard watches over a workspace during the run of an agent that must not
// change it but could.
type Guard struct {
	w    *Workspaces
	ws   Workspace
	snap snapshotRecord
}

// Change is what a guarded run changed, and Verify has undone.
type Change struct {
	Paths []string // changed, added or removed; at most 20
	Moved bool     // the run moved the branch or switched to another one
}

// Any reports whether anything was changed.
func (c Change) Any() bool { return len(c.Paths) > 0 || c.Moved }

// String names what was changed, for people.
func (c Change) String() string {
	what := slices.Clip(c.Paths)
	if c.Moved {
		what = append(what, "its branch")
	}
	return strings.Join(what, ", ")
}

// snapshotRecord is what Verify compares with. It is stored, so that the run
// after a killed one finds it.
type snapshotRecord struct {
	Tree     string `json:"tree"`
	Branch   string `json:"branch"` // full ref; empty when HEAD is detached
	Head     string `json:"head"`   // commit; empty when there is none
	Index    []byte `json:"index"`  // the worktree's index file
	Staged   string `json:"staged"` // and what it says
	Excludes []byte `json:"excludes"`
	// Ignores are the ignored .gitignore files in the tree's folders. They are
	// in no tree, but they decide what is.
	Ignores map[string][]byte `json:"ignores"`
}

// Guarded takes a snapshot of the workspace. The caller calls Verify when the
// agent's process tree is gone; when it never does, the next Prepare undoes
// what was changed. Without git nothing can be compared and Verify sees no
// change.
func (w *Workspaces) Guarded(ctx context.Context, ws Workspace) (*Guard, error) {
	g := &Guard{w: w, ws: ws}
	if !ws.Git() {
		return g, nil
	}
	place, unlock, err := w.enter(ctx, ws.Thread)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if g.snap, err = place.guard(ctx, ws.record); err != nil {
		return nil, fmt.Errorf("guard workspace of %s: %w", ws.Thread, explain(err, w.Dir))
	}
	return g, nil
}

// Tree returns the tree of the snapshot.
func (g *Guard) Tree() string {
	if !g.ws.Git() {
		return NoTree
	}
	return g.snap.Tree
}

// Verify compares the workspace with the snapshot and undoes every change:
// files, the branch, the index. It reads every file and trusts nothing that the
// agent could have written. It may be repeated after an error.
func (g *Guard) Verify(ctx context.Context) (Change, error) {
	if !g.ws.Git() {
		return Change{}, nil
	}
	place, unlock, err := g.w.enter(ctx, g.ws.Thread)
	if err != nil {
		return Change{}, err
	}
	defer unlock()
	change, err := place.undo(ctx, g.ws.record, g.snap)
	if err != nil {
		return change, fmt.Errorf("verify workspace of %s: %w", g.ws.Thread, explain(err, g.w.Dir))
	}
	return change, nil
}

func (p place) guard(ctx context.Context, rec record) (snapshotRecord, error) {
	snap := snapshotRecord{Excludes: rec.excludes()}
	var err error
	if snap.Tree, err = p.snapshot(ctx, rec, snap.Excludes, cover{}); err != nil {
		return snap, err
	}
	entry, err := p.entry(rec)
	if err != nil {
		return snap, err
	}
	if snap.Branch, snap.Head, err = p.position(ctx, rec, entry); err != nil {
		return snap, err
	}
	if snap.Staged, err = p.tracked(ctx, rec); err != nil {
		return snap, err
	}
	if snap.Ignores, err = p.ignores(ctx, rec, snap.Tree); err != nil {
		return snap, err
	}
	snap.Index, err = os.ReadFile(filepath.Join(entry, "index"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return snap, err
	}
	return snap, writeJSON(p.file("guard"), snap)
}

// position returns the branch and the commit that the worktree stands on.
func (p place) position(ctx context.Context, rec record, entry string) (branch, head string, err error) {
	branch, err = found(p.gitHere(ctx, entry, "symbolic-ref", "-q", "HEAD"))
	if err != nil {
		return "", "", err
	}
	head, err = p.head(ctx, rec)
	return branch, head, err
}

// undo puts the workspace back to a snapshot and forgets the snapshot.
func (p place) undo(ctx context.Context, rec record, snap snapshotRecord) (Change, error) {
	var change Change
	if err := os.MkdirAll(p.tree, 0o700); err != nil {
		return change, err
	}
	if err := p.repair(ctx, rec); err != nil {
		return change, err
	}
	entry, err := p.entry(rec)
	if err != nil {
		return change, err
	}
	branch, head, err := p.position(ctx, rec, entry)
	if err != nil {
		return change, err
	}
	if branch != snap.Branch || head != snap.Head {
		change.Moved = true
		if err := p.moveBack(ctx, entry, snap); err != nil {
			return change, err
		}
	}
	if staged, err := p.tracked(ctx, rec); err != nil {
		return change, err
	} else if staged != snap.Staged && snap.Index != nil {
		if err := replaceFile(filepath.Join(entry, "index"), snap.Index, 0o644); err != nil {
			return change, err
		}
	}
	if change.Paths, err = p.undoIgnores(ctx, rec, snap); err != nil {
		return change, err
	}
	now, err := p.snapshot(ctx, rec, snap.Excludes, cover{tree: snap.Tree})
	if err != nil {
		return change, err
	}
	if now != snap.Tree {
		paths, err := p.between(ctx, rec, snap.Tree, now)
		if err != nil {
			return change, err
		}
		change.Paths = append(change.Paths, paths...)
		change.Paths = change.Paths[:min(len(change.Paths), maxPaths)]
		if err := p.reset(ctx, rec, snap.Excludes, snap.Tree); err != nil {
			return change, err
		}
	}
	err = os.Remove(p.file("guard"))
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return change, err
}

// moveBack puts HEAD and the branch where the snapshot saw them. Commits that
// the run made are left to git's garbage collection.
func (p place) moveBack(ctx context.Context, entry string, snap snapshotRecord) error {
	if snap.Branch == "" {
		_, err := p.gitHere(ctx, entry, "update-ref", "--no-deref", "HEAD", snap.Head)
		return err
	}
	if _, err := p.gitHere(ctx, entry, "symbolic-ref", "HEAD", snap.Branch); err != nil {
		return err
	}
	if snap.Head == "" {
		_, err := p.gitHere(ctx, entry, "update-ref", "-d", snap.Branch)
		return err
	}
	_, err := p.gitHere(ctx, entry, "update-ref", snap.Branch, snap.Head)
	return err
}

// between names the paths in which two trees differ.
func (p place) between(ctx context.Context, rec record, from, to string) ([]string, error) {
	s, err := p.scratch(rec, nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	args := []string{"diff-tree", "-r", "-z", "--name-only", "--no-renames", "--no-ext-diff", from, to}
	out, err := call{dir: s.dir, env: s.bareEnv(), args: args}.run(ctx)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(out, "\x00"), "\x00"), nil
}

// undoLeftGuard undoes what a guarded run changed that was killed before it was verified.
func (p place) undoLeftGuard(ctx context.Context, ws Workspace) error {
	var snap snapshotRecord
	found, err := readJSON(p.file("guard"), &snap)
	if err != nil || !found {
		return err
	}
	_, err = p.undo(ctx, ws.record, snap)
	return err
}

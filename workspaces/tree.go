package workspaces

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Tree returns the id of the tree of everything in the workspace that is not
// ignored, as of now. The user's index is not touched. Without git it is NoTree.
func (w *Workspaces) Tree(ctx context.Context, ws Workspace) (string, error) {
	if !ws.Git() {
		return NoTree, nil
	}
	place, unlock, err := w.enter(ctx, ws.Thread)
	if err != nil {
		return "", err
	}
	defer unlock()
	tree, err := place.snapshot(ctx, ws.record, ws.record.excludes(), cover{cache: true})
	if err != nil {
		return "", fmt.Errorf("tree of %s: %w", ws.Thread, explain(err, w.Dir))
	}
	return tree, nil
}

// cover says how a snapshot looks at the files.
type cover struct {
	cache bool   // trust the stat cache
	tree  string // count what this tree has although it is ignored now; may be empty
}

// snapshot stores the working files as a tree.
func (p place) snapshot(ctx context.Context, rec record, excludes []byte, c cover) (string, error) {
	s, tree, err := p.open(ctx, rec, excludes, c)
	if err != nil {
		return "", err
	}
	defer s.close()
	// The cache only saves time, so failing to keep it is no failure.
	_ = os.Rename(s.index(), p.file("index"))
	return tree, nil
}

// open stores the working files as a tree and returns the scratch folder with
// the index of it. The caller closes it.
func (p place) open(ctx context.Context, rec record, excludes []byte, c cover) (*scratch, string, error) {
	tracked, err := p.tracked(ctx, rec)
	if err != nil {
		return nil, "", err
	}
	s, err := p.scratch(rec, excludes)
	if err != nil {
		return nil, "", err
	}
	if c.tree != "" {
		var listed string
		listed, err = s.list(ctx, c.tree)
		tracked += listed
	}
	if err == nil && c.cache {
		err = renameIfThere(p.file("index"), s.index())
	}
	var tree string
	if err == nil {
		tree, err = s.writeTree(ctx, tracked)
	}
	if err != nil {
		s.close()
		return nil, "", err
	}
	return s, tree, nil
}

// list prints what a tree holds, in a form that --index-info takes.
func (s *scratch) list(ctx context.Context, tree string) (string, error) {
	return call{dir: s.dir, env: s.bareEnv(), args: []string{"ls-tree", "-r", "-z", "--full-tree", tree}}.run(ctx)
}

// tracked lists the worktree's own index. When there is none, or an agent broke
// it, HEAD says what is tracked.
func (p place) tracked(ctx context.Context, rec record) (string, error) {
	entry, err := p.entry(rec)
	if err != nil {
		return "", err
	}
	if entry == "" {
		return "", errors.New("the worktree lost its entry in the repository; the next run repairs it")
	}
	if exists(entry + "/index") {
		out, err := p.gitHere(ctx, entry, "ls-files", "-s", "-z")
		if err == nil || ctx.Err() != nil {
			return out, err
		}
	}
	head, err := p.head(ctx, rec)
	if err != nil || head == "" {
		return "", err // no commit: nothing is tracked
	}
	return p.gitHere(ctx, entry, "ls-tree", "-r", "-z", "--full-tree", head)
}

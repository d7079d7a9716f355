package workspaces

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// checkpoint is one stored checkpoint; the zero value is none.
type checkpoint struct {
	number int
	ref    string
	commit string
	tree   string
	parent string // the worktree's HEAD at the time; empty when it had none
	title  string
}

// Checkpoint records the workspace as a commit and returns its ref,
// refs/rota/THREAD/N. It changes neither files nor branches. Repeating it for
// the same turn and the same files returns the same ref. Without git the ref is
// empty.
func (w *Workspaces) Checkpoint(ctx context.Context, ws Workspace, turn string) (string, error) {
	if !ws.Git() {
		return "", nil
	}
	place, unlock, err := w.enter(ctx, ws.Thread)
	if err != nil {
		return "", err
	}
	defer unlock()
	ref, err := place.checkpoint(ctx, ws.record, turn)
	if err != nil {
		return "", fmt.Errorf("checkpoint of %s: %w", turn, explain(err, w.Dir))
	}
	return ref, nil
}

// Rollback makes the workspace's files those of a checkpoint of the thread. The
// present files become a checkpoint first; branches and commits stay.
func (w *Workspaces) Rollback(ctx context.Context, ws Workspace, ref string) error {
	if !ws.Git() {
		return fmt.Errorf("roll back %s: its workspace is no git repository, so there are no checkpoints", ws.Thread)
	}
	place, unlock, err := w.enter(ctx, ws.Thread)
	if err != nil {
		return err
	}
	defer unlock()
	if err := place.rollback(ctx, ws.record, ref); err != nil {
		return fmt.Errorf("roll back %s to %s: %w", ws.Thread, ref, explain(err, w.Dir))
	}
	return nil
}

func (p place) checkpoint(ctx context.Context, rec record, turn string) (string, error) {
	tree, err := p.snapshot(ctx, rec, rec.excludes(), cover{cache: true})
	if err != nil {
		return "", err
	}
	last, err := p.lastCheckpoint(ctx, rec)
	if err != nil {
		return "", err
	}
	head, err := p.head(ctx, rec)
	if err != nil {
		return "", err
	}
	title := oneLine("checkpoint of " + turn)
	if last.tree == tree && last.title == title && last.parent == head {
		return last.ref, nil
	}
	s, err := p.scratch(rec, nil)
	if err != nil {
		return "", err
	}
	defer s.close()
	args := []string{"commit-tree", "-m", title}
	if head != "" {
		args = append(args, "-p", head)
	}
	commit, err := call{dir: s.dir, env: s.bareEnv(), args: append(args, tree)}.run(ctx)
	if err != nil {
		return "", err
	}
	ref := p.refs() + strconv.Itoa(last.number+1)
	_, err = p.gitOf(ctx, rec, "update-ref", ref, line(commit), "")
	return ref, err
}

func (p place) rollback(ctx context.Context, rec record, ref string) error {
	all, err := p.checkpoints(ctx, rec)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.ref != ref {
			continue
		}
		if _, err := p.checkpoint(ctx, rec, p.thread+" before a rollback"); err != nil {
			return err
		}
		return p.reset(ctx, rec, rec.excludes(), c.tree)
	}
	return fmt.Errorf("no such checkpoint; there are %d below %s", len(all), p.refs())
}

// reset makes the working files those of a tree. It looks again afterwards,
// because the files that it removes and brings back can change what is ignored.
// What the tree has counts, ignored or not.
func (p place) reset(ctx context.Context, rec record, excludes []byte, tree string) error {
	for range 5 {
		s, now, err := p.open(ctx, rec, excludes, cover{tree: tree})
		if err != nil {
			return err
		}
		if now == tree {
			s.close()
			return nil
		}
		err = s.restore(ctx, tree)
		s.close()
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("the files do not become tree %s; something else writes to %s", tree, p.tree)
}

// head returns the commit the worktree stands on, or nothing.
func (p place) head(ctx context.Context, rec record) (string, error) {
	entry, err := p.entry(rec)
	if err != nil || entry == "" {
		return "", err
	}
	return found(p.gitHere(ctx, entry, "rev-parse", "--verify", "-q", "HEAD^{commit}"))
}

// checkpoints lists the thread's checkpoints, oldest first.
func (p place) checkpoints(ctx context.Context, rec record) ([]checkpoint, error) {
	const format = "%(refname)%00%(objectname)%00%(tree)%00%(parent)%00%(contents:subject)"
	out, err := p.gitOf(ctx, rec, "for-each-ref", "--format="+format, p.refs())
	if err != nil {
		return nil, err
	}
	var all []checkpoint
	for row := range strings.SplitSeq(line(out), "\n") {
		f := strings.Split(row, "\x00")
		if len(f) != 5 {
			continue
		}
		n, err := strconv.Atoi(strings.TrimPrefix(f[0], p.refs()))
		if err != nil || f[2] == "" {
			continue // not one of ours
		}
		all = append(all, checkpoint{number: n, ref: f[0], commit: f[1], tree: f[2], parent: f[3], title: f[4]})
	}
	return all, nil
}

func (p place) lastCheckpoint(ctx context.Context, rec record) (checkpoint, error) {
	all, err := p.checkpoints(ctx, rec)
	var last checkpoint
	for _, c := range all {
		if c.number > last.number {
			last = c
		}
	}
	return last, err
}

package workspaces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"rota/turns"
)

// NoTree is the tree of a workspace without git; it never changes.
const NoTree = "none"

// Workspaces are the workspaces below one folder. Several processes may use the
// same folder at once.
type Workspaces struct {
	// Dir is an absolute path that is the same on all workers.
	Dir string
}

// Workspace is the folder of one thread. Get one from Prepare or Find.
type Workspace struct {
	Thread string
	Path   string // where the agent works; absolute
	Root   string // top of the worktree; Path or a folder above it
	Branch string // branch of the worktree, without refs/heads/; empty without git

	record record
}

// Git reports whether the workspace is a worktree, so that it has trees and checkpoints.
func (ws Workspace) Git() bool { return ws.record.Kind == kindWorktree }

// Prepare returns the workspace of a thread and makes it when there is none.
// source is the folder that the user gave, an absolute path, or empty. The same
// thread always gets the same workspace; another source than before is an
// error. Work that a Cleanup put into a checkpoint is there again.
//
// Only the run that holds the thread may call it: when a guarded run was killed
// before it was verified, Prepare undoes what that run changed.
func (w *Workspaces) Prepare(ctx context.Context, thread, source string) (Workspace, error) {
	place, unlock, err := w.locked(ctx, thread)
	if err != nil {
		return Workspace{}, err
	}
	defer unlock()
	if ws, ok := place.ready(source); ok {
		return ws, nil
	}
	err = place.tidy()
	var ws Workspace
	if err == nil {
		ws, err = place.prepare(ctx, source)
	}
	if err != nil {
		return Workspace{}, fmt.Errorf("workspace of %s: %w", thread, explain(err, w.Dir))
	}
	return ws, nil
}

// Find returns the workspace of a thread if it has one, without making or
// changing anything.
func (w *Workspaces) Find(thread string) (Workspace, bool, error) {
	place, err := w.place(thread)
	if err != nil {
		return Workspace{}, false, err
	}
	rec, ok, err := place.load()
	if err != nil || !ok {
		return Workspace{}, false, err
	}
	return place.workspace(rec), true, nil
}

// Threads returns the threads that have anything below Dir.
func (w *Workspaces) Threads() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(w.Dir, "threads"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(err, w.Dir)
	}
	var threads []string
	for _, e := range entries {
		if thread := threadOf(e.Name()); turns.CheckThread(thread) == nil && safeName(thread) == e.Name() {
			threads = append(threads, thread)
		}
	}
	return threads, nil
}

// ready returns the workspace of a thread that works without git, when it was handed
// out before and is there: nothing in such a folder can be half made or left by a
// killed operation.
func (p place) ready(source string) (Workspace, bool) {
	source, err := canonical(source)
	if err != nil {
		return Workspace{}, false
	}
	rec, ok, err := p.load()
	if err != nil || !ok || rec.Kind == kindWorktree || rec.Source != source {
		return Workspace{}, false
	}
	ws := p.workspace(rec)
	info, err := os.Stat(ws.Path)
	return ws, err == nil && info.IsDir()
}

func (p place) prepare(ctx context.Context, source string) (Workspace, error) {
	source, err := canonical(source)
	if err != nil {
		return Workspace{}, err
	}
	rec, ok, err := p.load()
	if err != nil {
		return Workspace{}, err
	}
	if ok && rec.Source != source {
		return Workspace{}, fmt.Errorf("the thread works on %s, not on %s; use another thread", shown(rec.Source), shown(source))
	}
	if !ok {
		if rec, err = p.inspect(ctx, source); err != nil {
			return Workspace{}, err
		}
	}
	switch rec.Kind {
	case kindWorktree:
		err = p.ensureWorktree(ctx, rec, ok)
	case kindFresh:
		err = os.MkdirAll(p.tree, 0o700)
	}
	if err != nil {
		return Workspace{}, err
	}
	if !ok {
		if err := writeJSON(p.file("record"), rec); err != nil {
			return Workspace{}, err
		}
	}
	ws := p.workspace(rec)
	if rec.Kind != kindFresh {
		if err := os.MkdirAll(ws.Path, 0o755); err != nil {
			return Workspace{}, err
		}
	}
	return ws, p.undoLeftGuard(ctx, ws)
}

// inspect finds out what kind of workspace a source makes.
func (p place) inspect(ctx context.Context, source string) (record, error) {
	rec := record{Thread: p.thread, Source: source, Kind: kindFolder}
	if source == "" {
		rec.Kind = kindFresh
		return rec, nil
	}
	out, err := gitIn(ctx, source, "rev-parse", "--path-format=absolute", "--show-object-format", "--git-common-dir")
	if isNoRepository(err, source) {
		return rec, nil
	}
	if err != nil {
		return rec, err
	}
	format, common, ok := strings.Cut(line(out), "\n")
	if !ok {
		return rec, fmt.Errorf("git named no repository of %s", source)
	}
	if common, err = filepath.EvalSymlinks(common); err != nil {
		return rec, err
	}
	rec.Format, rec.Common, rec.Prefix = format, common, prefix(source, common)
	if rec.Base, err = found(gitIn(ctx, source, "rev-parse", "--verify", "-q", "HEAD^{commit}")); err != nil {
		return rec, err
	}
	if err := soundSource(ctx, rec); err != nil {
		return rec, err
	}
	if rec.Prefix != "" {
		tracked, err := found(gitIn(ctx, source, "rev-parse", "--verify", "-q", "HEAD:"+rec.Prefix))
		if err != nil {
			return rec, err
		}
		if tracked == "" {
			// The repository above does not track this folder: it is no part of it.
			return record{Thread: p.thread, Source: source, Kind: kindFolder}, nil
		}
	}
	rec.Kind = kindWorktree
	return rec, nil
}

// soundSource refuses what is no place to work in: a git folder itself, and a
// repository whose last commit is missing, which must not pass for one without a commit.
func soundSource(ctx context.Context, rec record) error {
	if top, _, _ := strings.Cut(rec.Prefix, "/"); top == ".git" {
		return fmt.Errorf("%s lies in a git folder; name the folder above .git", rec.Source)
	}
	if rec.Base != "" {
		return nil
	}
	named, err := found(gitIn(ctx, rec.Source, "rev-parse", "--verify", "-q", "HEAD"))
	if err == nil && named != "" {
		err = fmt.Errorf("the last commit of %s, %s, is missing; `git fsck` there says what is damaged", rec.Source, named)
	}
	return err
}

// prefix returns the path of a folder below the top of its repository. Git is
// not asked: the repository could name any other top.
func prefix(source, common string) string {
	for top := source; ; top = filepath.Dir(top) {
		if dir := gitFolder(top); dir == common || strings.HasPrefix(dir, filepath.Join(common, "worktrees")+"/") {
			return strings.TrimPrefix(strings.TrimPrefix(source, top), "/")
		}
		if top == filepath.Dir(top) {
			return "" // bare
		}
	}
}

// gitFolder returns the folder that .git in dir is or names, or nothing.
func gitFolder(dir string) string {
	path := filepath.Join(dir, ".git")
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		text, _ := os.ReadFile(path)
		named, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
		if !ok {
			return ""
		}
		if path = named; !filepath.IsAbs(path) {
			path = filepath.Join(dir, named)
		}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return real
}

// canonical returns source without symbolic links, as an existing folder.
func canonical(source string) (string, error) {
	if source == "" {
		return "", nil
	}
	if !filepath.IsAbs(source) {
		return "", fmt.Errorf("folder %q is relative; give its absolute path", source)
	}
	real, err := filepath.EvalSymlinks(source)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("folder %s is not on this host; workspaces need the same paths on all workers", source)
	}
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(real); err != nil {
		return "", err
	} else if !info.IsDir() {
		return "", fmt.Errorf("%s is no folder", source)
	}
	return real, nil
}

func shown(source string) string {
	if source == "" {
		return "a folder of its own"
	}
	return source
}

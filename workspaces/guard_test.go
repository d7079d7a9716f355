package workspaces

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// breaches are what an agent that should only read may do to a workspace.
var breaches = map[string]struct {
	do    func(t *testing.T, r repo, ws Workspace)
	paths []string
	moved bool
}{
	"nothing":         {do: func(t *testing.T, r repo, ws Workspace) {}},
	"git status":      {do: func(t *testing.T, r repo, ws Workspace) { userGit(t, ws.Path, "status") }},
	"an ignored file": {do: func(t *testing.T, r repo, ws Workspace) { write(t, ws.Path, "build/x", "x") }},
	"an edit":         {paths: []string{"a.txt"}, do: func(t *testing.T, r repo, ws Workspace) { write(t, ws.Path, "a.txt", "x") }},
	"removals": {paths: []string{"a.txt", "open.txt", "run.sh"}, do: func(t *testing.T, r repo, ws Workspace) {
		for _, name := range []string{"a.txt", "open.txt", "run.sh"} {
			must(t, os.Remove(filepath.Join(ws.Path, name)))
		}
	}},
	"additions": {paths: []string{"new/x", "y"}, do: func(t *testing.T, r repo, ws Workspace) {
		write(t, ws.Path, "new/x", "x")
		write(t, ws.Path, "y", "y")
	}},
	"a mode": {paths: []string{"run.sh"}, do: func(t *testing.T, r repo, ws Workspace) {
		must(t, os.Chmod(filepath.Join(ws.Path, "run.sh"), 0o644))
	}},
	"a folder for a file": {paths: []string{"a.txt", "a.txt/x"}, do: func(t *testing.T, r repo, ws Workspace) {
		must(t, os.Remove(filepath.Join(ws.Path, "a.txt")))
		write(t, ws.Path, "a.txt/x", "x")
	}},
	"a link for a folder": {paths: []string{"dir", "dir/b.txt"}, do: func(t *testing.T, r repo, ws Workspace) {
		relink(t, ws.Path, "dir", "/etc")
	}},
	"a file hidden by a changed .gitignore": {paths: []string{".gitignore"}, do: func(t *testing.T, r repo, ws Workspace) {
		write(t, ws.Path, ".gitignore", "*.log\nbuild/\nevil\n")
		write(t, ws.Path, "evil", "x")
	}},
	"a file hidden by info/exclude": {paths: []string{"evil"}, do: func(t *testing.T, r repo, ws Workspace) {
		write(t, r.dir, ".git/info/exclude", "evil\n")
		write(t, ws.Path, "evil", "x")
	}},
	"a new .gitignore over an open file": {paths: []string{"sub/.gitignore", "sub/open.txt"}, do: func(t *testing.T, r repo, ws Workspace) {
		write(t, ws.Path, "sub/.gitignore", "*\n")
		write(t, ws.Path, "sub/open.txt", "changed")
	}},
	"an ignored .gitignore changed": {paths: []string{".hidden/.gitignore"}, do: func(t *testing.T, r repo, ws Workspace) {
		write(t, ws.Path, ".hidden/.gitignore", "*\n")
	}},
	"a cache that ignores itself": {do: func(t *testing.T, r repo, ws Workspace) {
		write(t, ws.Path, "cache/.gitignore", "*\n")
		write(t, ws.Path, "cache/x", "x")
	}},
	"an edit behind skip-worktree": {paths: []string{"a.txt"}, do: func(t *testing.T, r repo, ws Workspace) {
		userGit(t, ws.Path, "update-index", "--skip-worktree", "a.txt")
		sameTime(t, ws.Path, "a.txt", "b\n")
	}},
	"a commit": {moved: true, paths: []string{"y"}, do: func(t *testing.T, r repo, ws Workspace) {
		write(t, ws.Path, "y", "y")
		userGit(t, ws.Path, "add", "y")
		userGit(t, ws.Path, "commit", "-q", "-m", "mine")
	}},
	"a commit of what lay there": {moved: true, do: func(t *testing.T, r repo, ws Workspace) {
		userGit(t, ws.Path, "add", "-A")
		userGit(t, ws.Path, "commit", "-q", "-m", "mine")
	}},
	"a hard reset": {paths: []string{".hidden/x", "open.txt", "sub/open.txt"}, do: func(t *testing.T, r repo, ws Workspace) {
		userGit(t, ws.Path, "add", "-A")
		userGit(t, ws.Path, "reset", "-q", "--hard")
	}},
	"a clean": {paths: []string{".hidden/x", "open.txt", "sub/open.txt"}, do: func(t *testing.T, r repo, ws Workspace) {
		userGit(t, ws.Path, "clean", "-q", "-f", "-d")
	}},
	"a stash": {paths: []string{".hidden/x", "open.txt", "sub/open.txt"}, do: func(t *testing.T, r repo, ws Workspace) {
		userGit(t, ws.Path, "stash", "-q", "-u")
	}},
	"another branch":  {moved: true, do: func(t *testing.T, r repo, ws Workspace) { userGit(t, ws.Path, "checkout", "-q", "-b", "elsewhere") }},
	"a detached head": {moved: true, do: func(t *testing.T, r repo, ws Workspace) { userGit(t, ws.Path, "checkout", "-q", "--detach") }},
	"staging":         {do: func(t *testing.T, r repo, ws Workspace) { userGit(t, ws.Path, "add", "-A") }},
	".git taken over": {paths: []string{"a.txt"}, do: func(t *testing.T, r repo, ws Workspace) {
		must(t, os.Remove(filepath.Join(ws.Root, ".git")))
		userGit(t, ws.Root, "init", "-q")
		write(t, ws.Path, "a.txt", "x")
	}},
	"everything removed": {
		paths: []string{".hidden/.gitignore", ".gitignore", ".hidden/x", "a.txt", "dir/b.txt", "kept.log", "link", "open.txt", "run.sh", "sub/open.txt"},
		do:    func(t *testing.T, r repo, ws Workspace) { must(t, os.RemoveAll(ws.Root)) },
	},
}

func TestAGuardUndoesEveryChange(t *testing.T) {
	ctx := context.Background()
	for name, breach := range breaches {
		t.Run(name, func(t *testing.T) {
			r, w := newRepo(t), newWorkspaces(t)
			ws := prepare(t, w, "t", r.dir)
			write(t, ws.Path, "open.txt", "the owner did not commit this")
			write(t, ws.Path, "sub/open.txt", "nor this")
			write(t, ws.Path, ".hidden/.gitignore", ".gitignore\n")
			write(t, ws.Path, ".hidden/x", "x")
			want := seen(t, w, ws)
			guard, err := w.Guarded(ctx, ws)
			must(t, err)
			if guard.Tree() != want["tree"] {
				t.Errorf("guard's tree %s, want %s", guard.Tree(), want["tree"])
			}
			breach.do(t, r, ws)
			change, err := guard.Verify(ctx)
			must(t, err)
			if change.Moved != breach.moved || !slices.Equal(change.Paths, breach.paths) {
				t.Errorf("change %+v, want %v moved %v", change, breach.paths, breach.moved)
			}
			if text := change.String(); (text == "") == change.Any() || strings.Contains(text, "branch") != breach.moved {
				t.Errorf("the change reads %q", text)
			}
			for _, ignored := range []string{"build", "cache"} {
				must(t, os.RemoveAll(filepath.Join(ws.Path, ignored)))
			}
			must(t, os.RemoveAll(filepath.Join(r.dir, ".git/info/exclude")))
			if got := seen(t, w, ws); !maps.Equal(got, want) {
				t.Errorf("afterwards %v, want %v", got, want)
			}
			if change, err := guard.Verify(ctx); err != nil || change.Any() {
				t.Errorf("again: %+v %v", change, err)
			}
		})
	}
}

// seen is all a person sees of a workspace: files, branch, commit, status.
func seen(t *testing.T, w *Workspaces, ws Workspace) map[string]string {
	all := files(t, ws.Root)
	all["tree"] = tree(t, w, ws)
	all["status"] = userGit(t, ws.Root, "status", "--porcelain", "--branch")
	all["head"] = userGit(t, ws.Root, "rev-parse", "HEAD")
	return all
}

// The worker is killed while a reviewer has changed something: the next run
// finds the workspace as it was.
func TestTheRunAfterAKilledGuardedOneUndoesItsChange(t *testing.T) {
	ctx := context.Background()
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	write(t, ws.Path, "open.txt", "the owner's")
	want := files(t, ws.Root)
	_, err := w.Guarded(ctx, ws)
	must(t, err)
	write(t, ws.Path, "open.txt", "the reviewer's")
	write(t, ws.Path, "more", "the reviewer's")
	prepare(t, w, "t", r.dir)
	if got := files(t, ws.Root); !maps.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	write(t, ws.Path, "open.txt", "the owner goes on")
	prepare(t, w, "t", r.dir)
	if got := read(t, ws.Path, "open.txt"); got != "the owner goes on" {
		t.Errorf("the old snapshot came back: %q", got)
	}
}

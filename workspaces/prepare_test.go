package workspaces

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestAThreadWorksInAWorktreeOfItsOwn(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	write(t, r.dir, "a.txt", "not committed\n")
	before := files(t, r.dir)
	status := r.git("status", "--porcelain")

	ws := prepare(t, w, "fix-login", r.dir)
	if !ws.Git() || ws.Branch != "rota/fix-login" || ws.Path != filepath.Join(w.Dir, "trees", "fix-login") {
		t.Fatalf("workspace %+v", ws)
	}
	if got := read(t, ws.Path, "a.txt"); got != "a\n" {
		t.Errorf("a.txt is %q, want what HEAD says", got)
	}
	if got := read(t, ws.Path, "dir/b.txt"); got != "b\r\nb\n" {
		t.Errorf("b.txt is %q", got)
	}
	if got := userGit(t, ws.Path, "status", "--porcelain", "--branch"); got != "## rota/fix-login" {
		t.Errorf("the user's git sees %q in the worktree, want it clean on its branch", got)
	}
	if !maps.Equal(before, files(t, r.dir)) || r.git("status", "--porcelain") != status {
		t.Error("the source was changed")
	}
	if got, want := tree(t, w, ws), r.git("rev-parse", "HEAD^{tree}"); got != want {
		t.Errorf("tree %s, want that of HEAD %s", got, want)
	}
	child := prepare(t, w, "fix-login~2", r.dir)
	if child.Path == ws.Path || child.Branch != "rota/fix-login+2" {
		t.Errorf("child thread got %+v", child)
	}
}

func TestPrepareAgainKeepsTheWork(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	write(t, ws.Path, "new.txt", "work\n")
	again := prepare(t, w, "t", r.dir)
	if again != ws {
		t.Errorf("%+v, then %+v", ws, again)
	}
	if got := read(t, again.Path, "new.txt"); got != "work\n" {
		t.Errorf("new.txt is %q", got)
	}
	found, ok, err := w.Find("t")
	if err != nil || !ok || found != ws {
		t.Errorf("Find: %+v %v %v", found, ok, err)
	}
	if _, ok, _ := w.Find("other"); ok {
		t.Error("found a workspace that nobody made")
	}
	if _, err := w.Prepare(context.Background(), "t", newRepo(t).dir); err == nil || !strings.Contains(err.Error(), "another thread") {
		t.Errorf("another source: %v", err)
	}
}

// A worker killed between any two steps of making a worktree leaves what the
// next Prepare completes.
func TestPrepareAfterACrash(t *testing.T) {
	crashes := map[string]func(t *testing.T, r repo, w *Workspaces, ws Workspace){
		"before the record": func(t *testing.T, r repo, w *Workspaces, ws Workspace) {},
		"after the branch": func(t *testing.T, r repo, w *Workspaces, ws Workspace) {
			r.git("worktree", "remove", "--force", ws.Root)
		},
		"entry without files": func(t *testing.T, r repo, w *Workspaces, ws Workspace) {
			must(t, os.RemoveAll(ws.Root))
		},
		"entry still locked": func(t *testing.T, r repo, w *Workspaces, ws Workspace) {
			r.git("worktree", "lock", ws.Root)
			must(t, os.RemoveAll(ws.Root))
		},
		"files without entry": func(t *testing.T, r repo, w *Workspaces, ws Workspace) {
			must(t, os.RemoveAll(filepath.Join(r.dir, ".git", "worktrees")))
		},
		"half of the files": func(t *testing.T, r repo, w *Workspaces, ws Workspace) {
			must(t, os.RemoveAll(filepath.Join(ws.Root, "dir")))
			must(t, os.Mkdir(filepath.Join(w.Dir, "threads", "t", "scratch-1"), 0o700))
		},
	}
	for name, crash := range crashes {
		t.Run(name, func(t *testing.T) {
			r, w := newRepo(t), newWorkspaces(t)
			ws := prepare(t, w, "t", r.dir)
			whole := files(t, ws.Root)
			must(t, os.Remove(filepath.Join(w.Dir, "threads", "t", "record")))
			crash(t, r, w, ws)
			ws = prepare(t, w, "t", r.dir)
			if got := files(t, ws.Root); !maps.Equal(got, whole) {
				t.Errorf("files %v, want %v", got, whole)
			}
			if got := userGit(t, ws.Path, "status", "--porcelain", "--branch"); got != "## rota/t" {
				t.Errorf("status %q", got)
			}
			if n := strings.Count(r.git("worktree", "list", "--porcelain"), "worktree "); n != 2 {
				t.Errorf("%d worktrees, want the user's and one", n)
			}
			if left, _ := filepath.Glob(filepath.Join(w.Dir, "threads", "t", "scratch-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// People prune worktrees and agents break .git; the files are what counts.
func TestPrepareRepairsALostLink(t *testing.T) {
	damages := map[string]func(t *testing.T, r repo, ws Workspace){
		"entry pruned": func(t *testing.T, r repo, ws Workspace) {
			must(t, os.RemoveAll(filepath.Join(r.dir, ".git", "worktrees")))
		},
		"entry and branch gone": func(t *testing.T, r repo, ws Workspace) {
			must(t, os.RemoveAll(filepath.Join(r.dir, ".git", "worktrees")))
			r.git("branch", "-D", "rota/t")
		},
		".git removed": func(t *testing.T, r repo, ws Workspace) {
			must(t, os.Remove(filepath.Join(ws.Root, ".git")))
		},
		".git a repository of its own": func(t *testing.T, r repo, ws Workspace) {
			must(t, os.Remove(filepath.Join(ws.Root, ".git")))
			userGit(t, ws.Root, "init", "-q")
		},
		".git points elsewhere": func(t *testing.T, r repo, ws Workspace) {
			write(t, ws.Root, ".git", "gitdir: "+newRepo(t).dir+"/.git\n")
		},
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			r, w := newRepo(t), newWorkspaces(t)
			ws := prepare(t, w, "t", r.dir)
			write(t, ws.Path, "work.txt", "work\n")
			want := tree(t, w, ws)
			damage(t, r, ws)
			ws = prepare(t, w, "t", r.dir)
			if got := tree(t, w, ws); got != want {
				t.Errorf("tree %s, want %s", got, want)
			}
			if got := userGit(t, ws.Path, "status", "--porcelain", "--branch"); got != "## rota/t\n?? work.txt" {
				t.Errorf("status %q", got)
			}
		})
	}
}

func TestAWorktreeWhoseFilesAreGoneComesBackFromItsCheckpoint(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	write(t, ws.Path, "work.txt", "work\n")
	checkpointOf(t, w, ws, "t/1")
	must(t, os.RemoveAll(ws.Root))
	ws = prepare(t, w, "t", r.dir)
	if got := read(t, ws.Path, "work.txt"); got != "work\n" {
		t.Errorf("work.txt is %q", got)
	}
}

func TestManyPrepareAtOnce(t *testing.T) {
	r, dir := newRepo(t), newWorkspaces(t).Dir
	threads := []string{"one", "one~2", "two"}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			w := &Workspaces{Dir: dir}
			ws, err := w.Prepare(context.Background(), threads[i%3], r.dir)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(ws.Path, "a.txt")); err != nil {
				t.Error("handed out before its files were there: ", err)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(r.git("worktree", "list", "--porcelain"), "worktree "); n != 4 {
		t.Errorf("%d worktrees, want the user's and three", n)
	}
	names, err := (&Workspaces{Dir: dir}).Threads()
	if err != nil || len(names) != 3 || names[1] != "one~2" {
		t.Errorf("threads %q %v", names, err)
	}
}

func TestPrepareWaitsOnlyAsLongAsItsContext(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	_, unlock, err := w.enter(context.Background(), "t")
	must(t, err)
	defer unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.Prepare(ctx, "t", r.dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// Forget removes the lock's file: whoever waited for it must not believe to
// hold the thread by a file that is gone.
func TestALockOutlivesItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "home", "lock")
	first, err := lock(context.Background(), path)
	must(t, err)
	waiting, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer waiting.Close()
	must(t, os.Remove(path))
	second, err := tryLock(path)
	if err != nil || second == nil {
		t.Fatalf("the file is gone, and nobody gets a new one: %v", err)
	}
	defer second.Close()
	must(t, first.Close())
	if third, err := tryLock(path); err != nil || third != nil {
		t.Errorf("two hold the thread: %v", err)
	}

	r, w := newRepo(t), newWorkspaces(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if i%2 == 0 {
				if _, err := w.Prepare(context.Background(), "t", r.dir); err != nil {
					t.Error(err)
				}
			} else if err := w.Forget(context.Background(), "t"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ws := prepare(t, w, "t", r.dir)
	if read(t, ws.Path, "a.txt") != "a\n" {
		t.Error("damaged")
	}
}

func TestAnEndedContextStopsGit(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	ctx, cancel := context.WithCancelCause(context.Background())
	gone := errors.New("the fence is lost")
	cancel(gone)
	if _, err := w.Tree(ctx, ws); !errors.Is(err, gone) {
		t.Errorf("tree: %v", err)
	}
	if _, err := w.Checkpoint(ctx, ws, "t/1"); !errors.Is(err, gone) {
		t.Errorf("checkpoint: %v", err)
	}
	if _, err := w.Cleanup(ctx, "t"); !errors.Is(err, gone) || !exists(ws.Path) {
		t.Errorf("cleanup: %v", err)
	}
	if _, err := w.Prepare(ctx, "other", r.dir); !errors.Is(err, gone) {
		t.Errorf("prepare: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

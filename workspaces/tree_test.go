package workspaces

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestATreeIsEverythingNotIgnored(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	last := tree(t, w, ws)
	changes := []struct {
		name    string
		change  func()
		changes bool
	}{
		{"nothing", func() {}, false},
		{"an edit", func() { write(t, ws.Path, "a.txt", "A\n") }, true},
		{"an edit of the same length at the same time", func() { sameTime(t, ws.Path, "a.txt", "B\n") }, true},
		{"a new file", func() { write(t, ws.Path, "new/deep/file", "x") }, true},
		{"an ignored file", func() { write(t, ws.Path, "build/out", "x") }, false},
		{"an ignored file by name", func() { write(t, ws.Path, "x.log", "x") }, false},
		{"a tracked file although ignored", func() { write(t, ws.Path, "kept.log", "changed") }, true},
		{"the executable bit", func() { must(t, os.Chmod(filepath.Join(ws.Path, "a.txt"), 0o755)) }, true},
		{"another target of a link", func() { relink(t, ws.Path, "link", "run.sh") }, true},
		{"staging", func() { userGit(t, ws.Path, "add", "-A") }, false},
		{"a commit", func() { userGit(t, ws.Path, "commit", "-q", "-m", "two") }, false},
		{"a removed file", func() { must(t, os.Remove(filepath.Join(ws.Path, "a.txt"))) }, true},
		{"a folder becomes a link", func() { relink(t, ws.Path, "dir", "new") }, true},
		{"a file becomes a folder", func() {
			must(t, os.Remove(filepath.Join(ws.Path, "run.sh")))
			write(t, ws.Path, "run.sh/x", "x")
		}, true},
		{"a fifo", func() { must(t, syscall.Mkfifo(filepath.Join(ws.Path, "fifo"), 0o600)) }, false},
		{"a link out of the workspace", func() { relink(t, ws.Path, "out", "/etc") }, true},
		{"an edit behind assume-unchanged", func() {
			userGit(t, ws.Path, "update-index", "--assume-unchanged", "kept.log")
			write(t, ws.Path, "kept.log", "hidden")
		}, true},
		{"an edit behind skip-worktree", func() {
			userGit(t, ws.Path, "update-index", "--skip-worktree", "new/deep/file")
			write(t, ws.Path, "new/deep/file", "hidden")
		}, true},
		{"a broken index", func() {
			write(t, r.dir, ".git/worktrees/t/index", "garbage")
		}, false},
		{"a broken stat cache", func() { write(t, w.Dir, "threads/t/index", "garbage") }, false},
		{"a nested repository without a commit", func() {
			userGit(t, ws.Path, "init", "-q", "nested")
			write(t, ws.Path, "nested/x", "x")
		}, true},
		{"an edit in a nested repository", func() { write(t, ws.Path, "nested/x", "y") }, true},
		{"a commit in a nested repository", func() {
			userGit(t, filepath.Join(ws.Path, "nested"), "add", "x")
			userGit(t, filepath.Join(ws.Path, "nested"), "commit", "-q", "-m", "x")
		}, false},
		{"an edit in a repository in a nested one", func() {
			userGit(t, ws.Path, "init", "-q", "nested/deeper")
			write(t, ws.Path, "nested/deeper/z", "z")
		}, true},
	}
	for _, c := range changes {
		c.change()
		now := tree(t, w, ws)
		if (now != last) != c.changes {
			t.Errorf("%s: tree changed %v, want %v", c.name, now != last, c.changes)
		}
		if again := tree(t, w, ws); again != now {
			t.Errorf("%s: the tree is %s, then %s", c.name, now, again)
		}
		must(t, os.RemoveAll(filepath.Join(w.Dir, "threads", "t", "index")))
		if again := tree(t, w, ws); again != now {
			t.Errorf("%s: the tree is %s with the stat cache, %s without", c.name, now, again)
		}
		last = now
	}
}

// sameTime changes a file of the same length and puts its time back.
func sameTime(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	must(t, err)
	write(t, dir, name, text)
	must(t, os.Chtimes(path, time.Time{}, info.ModTime()))
}

func relink(t *testing.T, dir, name, target string) {
	t.Helper()
	path := filepath.Join(dir, name)
	must(t, os.RemoveAll(path))
	must(t, os.Symlink(target, path))
}

func TestATreeLeavesTheIndexAlone(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	write(t, ws.Path, "a.txt", "staged")
	userGit(t, ws.Path, "add", "a.txt")
	write(t, ws.Path, "a.txt", "not staged")
	index := read(t, r.dir, ".git/worktrees/t/index")
	tree(t, w, ws)
	if read(t, r.dir, ".git/worktrees/t/index") != index {
		t.Error("the index changed")
	}
}

func TestStrangeFileNames(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	names := []string{"new\nline", "tab\there", " space ", "quote\"'", "-n", "--help", ":(glob)*", ":!a.txt", "*", "\\", "ümlaut",
		"not-utf8-\xff\xfe", "a\x7fb", "git~1", "con", "!neg", "#hash", "$(touch pwned)", "deep/ \n/x", ".gitmodules", "trailing."}
	for _, name := range names {
		write(t, ws.Path, name, "one")
	}
	first := tree(t, w, ws)
	ref := checkpointOf(t, w, ws, "t/1")
	want := files(t, ws.Root)
	for _, name := range names {
		write(t, ws.Path, name, "two")
	}
	if tree(t, w, ws) == first {
		t.Error("no change seen")
	}
	must(t, w.Rollback(context.Background(), ws, ref))
	if got := files(t, ws.Root); !maps.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	stored := userGit(t, ws.Path, "ls-tree", "-r", "-z", "--name-only", ref)
	for _, name := range names {
		if !strings.Contains(stored, filepath.Clean(name)+"\x00") && !strings.HasSuffix(stored, name) {
			t.Errorf("%q is not in the checkpoint", name)
		}
	}
}

func TestCheckpointAndRollback(t *testing.T) {
	ctx := context.Background()
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t~2", r.dir)
	write(t, ws.Path, "a.txt", "one")
	first := checkpointOf(t, w, ws, "t~2/1")
	if first != "refs/rota/t+2/1" || checkpointOf(t, w, ws, "t~2/1") != first {
		t.Errorf("checkpoint %s", first)
	}
	want := files(t, ws.Root)
	write(t, ws.Path, "more.txt", "two")
	userGit(t, ws.Path, "add", "-A")
	userGit(t, ws.Path, "commit", "-q", "-m", "two")
	second := checkpointOf(t, w, ws, "t~2/3")
	if second != "refs/rota/t+2/2" {
		t.Errorf("checkpoint %s", second)
	}
	if got := r.git("log", "-1", "--format=%an <%ae> %s", second); got != "rota <rota@localhost> checkpoint of t~2/3" {
		t.Errorf("commit %q", got)
	}
	write(t, ws.Path, "third.txt", "three")

	must(t, w.Rollback(ctx, ws, first))
	if got := files(t, ws.Root); !maps.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	if got := r.git("log", "-1", "--format=%s", "rota/t+2"); got != "two" {
		t.Errorf("the branch moved to %q", got)
	}
	if got := r.git("show", "refs/rota/t+2/3:third.txt"); got != "three" {
		t.Errorf("the files before the rollback are lost: %q", got)
	}
	for _, ref := range []string{"refs/rota/t+2/9", "refs/heads/main", "HEAD", "", "--help"} {
		if err := w.Rollback(ctx, ws, ref); err == nil || !strings.Contains(err.Error(), "no such checkpoint") {
			t.Errorf("rollback to %q: %v", ref, err)
		}
	}
}

func TestCleanupThrowsNothingAway(t *testing.T) {
	ctx := context.Background()
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	write(t, ws.Path, "committed.txt", "c")
	userGit(t, ws.Path, "add", "-A")
	userGit(t, ws.Path, "commit", "-q", "-m", "two")
	write(t, ws.Path, "open.txt", "not committed")
	write(t, ws.Path, "ro/x", "x")
	must(t, os.Chmod(filepath.Join(ws.Path, "ro"), 0o555))
	kept, err := w.KeepOutput("t", "t/1.1", "long")
	must(t, err)
	want := files(t, ws.Root)

	ref, err := w.Cleanup(ctx, "t")
	if err != nil || ref != "refs/rota/t/1" {
		t.Fatalf("cleanup: %q %v", ref, err)
	}
	if exists(ws.Root) || strings.Count(r.git("worktree", "list", "--porcelain"), "worktree ") != 1 {
		t.Error("the worktree is still there")
	}
	if r.git("show", ref+":open.txt") != "not committed" || r.git("show", "rota/t:committed.txt") != "c" {
		t.Error("work is lost")
	}
	if !exists(kept) {
		t.Error("the output is gone")
	}
	if ref, err := w.Cleanup(ctx, "t"); ref != "" || err != nil {
		t.Errorf("again: %q %v", ref, err)
	}
	ws = prepare(t, w, "t", r.dir)
	if got := files(t, ws.Root); !maps.Equal(got, want) {
		t.Errorf("the thread goes on with %v, want %v", got, want)
	}
	if got := userGit(t, ws.Path, "status", "--porcelain"); got != "?? open.txt\n?? ro/" {
		t.Errorf("status %q", got)
	}
	must(t, w.Forget(ctx, "t"))
	if names, _ := w.Threads(); len(names) > 0 || exists(kept) {
		t.Errorf("left of it: %v", names)
	}
}

func TestCleanupOfCommittedWorkNeedsNoCheckpoint(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	write(t, ws.Path, "build/out", "ignored")
	if ref, err := w.Cleanup(context.Background(), "t"); ref != "" || err != nil {
		t.Errorf("%q %v", ref, err)
	}
	ws = prepare(t, w, "t", r.dir)
	userGit(t, ws.Path, "checkout", "-q", "--detach")
	userGit(t, ws.Path, "commit", "-q", "--allow-empty", "-m", "on no branch")
	ref, err := w.Cleanup(context.Background(), "t")
	if err != nil || r.git("log", "-1", "--format=%s", ref+"^") != "on no branch" {
		t.Errorf("a commit on no branch is lost: %q %v", ref, err)
	}
}

// After the end a person goes on with the branch: the old checkpoint must not
// come over it.
func TestABranchThatMovedOnCountsMoreThanItsCheckpoint(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	write(t, ws.Path, "a.txt", "open")
	if _, err := w.Cleanup(context.Background(), "t"); err != nil {
		t.Fatal(err)
	}
	r.git("checkout", "-q", "rota/t")
	write(t, r.dir, "a.txt", "the person's")
	r.git("commit", "-q", "-a", "-m", "two")
	if _, err := w.Prepare(context.Background(), "t", r.dir); err == nil || !strings.Contains(err.Error(), "already checked out") {
		t.Errorf("while it is checked out: %v", err)
	}
	r.git("checkout", "-q", "main")
	ws = prepare(t, w, "t", r.dir)
	if got := read(t, ws.Path, "a.txt"); got != "the person's" {
		t.Errorf("a.txt is %q", got)
	}
}

// Cleanup killed after the worktree was moved away, before the record went.
func TestCleanupAfterACrash(t *testing.T) {
	ctx := context.Background()
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	write(t, ws.Path, "open.txt", "open")
	checkpointOf(t, w, ws, "t at its end")
	must(t, os.Rename(ws.Root, filepath.Join(w.Dir, "trees", ".going-t")))
	if ref, err := w.Cleanup(ctx, "t"); ref != "" || err != nil {
		t.Errorf("%q %v", ref, err)
	}
	left, err := os.ReadDir(filepath.Join(w.Dir, "trees"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	ws = prepare(t, w, "t", r.dir)
	if read(t, ws.Path, "open.txt") != "open" {
		t.Error("work is lost")
	}
}

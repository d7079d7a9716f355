package workspaces

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// trap makes a repository in which every setting that can start a program
// starts one that leaves a mark, and returns the path of the mark.
func trap(t *testing.T, r repo) string {
	t.Helper()
	mark := filepath.Join(t.TempDir(), "mark")
	program := filepath.Join(t.TempDir(), "program")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$0 $*\" >> "+mark+"\ncat\n"), 0o755))
	hooks := filepath.Join(r.dir, ".git", "hooks")
	must(t, os.MkdirAll(hooks, 0o755))
	for _, hook := range []string{"post-checkout", "post-index-change", "reference-transaction", "post-commit", "pre-commit",
		"commit-msg", "prepare-commit-msg", "post-merge", "pre-auto-gc", "fsmonitor-watchman", "post-rewrite", "pre-rebase"} {
		must(t, os.Symlink(program, filepath.Join(hooks, hook)))
	}
	for _, setting := range [][2]string{
		{"core.fsmonitor", program}, {"core.hooksPath", hooks}, {"core.pager", program}, {"core.editor", program},
		{"core.sshCommand", program}, {"core.askPass", program}, {"core.alternateRefsCommand", program},
		{"filter.trap.clean", program}, {"filter.trap.smudge", program}, {"filter.trap.process", program}, {"filter.trap.required", "true"},
		{"diff.trap.textconv", program}, {"diff.trap.command", program}, {"diff.external", program}, {"merge.trap.driver", program},
		{"gpg.program", program}, {"commit.gpgSign", "true"}, {"credential.helper", program}, {"sequence.editor", program},
		{"alias.worktree", "!" + program}, {"pager.for-each-ref", program}, {"pager.ls-files", program},
		{"submodule.recurse", "true"}, {"core.worktree", "/"}, {"core.autocrlf", "true"}, {"core.sparseCheckout", "true"},
	} {
		r.git("config", setting[0], setting[1])
	}
	return mark
}

func TestARepositoryStartsNoProgram(t *testing.T) {
	ctx := context.Background()
	r, w := newRepo(t), newWorkspaces(t)
	write(t, r.dir, ".gitattributes", "* filter=trap diff=trap merge=trap text ident\n")
	write(t, r.dir, ".git/info/attributes", "*.txt filter=trap\n")
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "attributes")
	mark := trap(t, r)

	ws := prepare(t, w, "t", r.dir)
	write(t, ws.Path, "a.txt", "changed\r\n")
	tree(t, w, ws)
	guard, err := w.Guarded(ctx, ws)
	must(t, err)
	write(t, ws.Path, "a.txt", "changed again\r\n")
	if change, err := guard.Verify(ctx); err != nil || !change.Any() {
		t.Errorf("verify: %+v %v", change, err)
	}
	if got := read(t, ws.Path, "a.txt"); got != "changed\r\n" {
		t.Errorf("not byte for byte: %q", got)
	}
	ref := checkpointOf(t, w, ws, "t/1")
	must(t, w.Rollback(ctx, ws, ref))
	must(t, os.RemoveAll(filepath.Join(r.dir, ".git", "worktrees")))
	prepare(t, w, "t", r.dir)
	if _, err := w.Cleanup(ctx, "t"); err != nil {
		t.Error(err)
	}
	if exists(mark) {
		t.Errorf("programs were started:\n%s", read(t, filepath.Dir(mark), "mark"))
	}
	// The trap works: git without our care falls into it.
	careless := exec.Command("git", "--work-tree="+r.dir, "status")
	careless.Dir = r.dir
	_ = careless.Run()
	if !exists(mark) {
		t.Error("the trap never goes off, so this test proves nothing")
	}
}

func TestASubmoduleIsFilesLikeAnyOthers(t *testing.T) {
	ctx := context.Background()
	inner, r, w := newRepo(t), newRepo(t), newWorkspaces(t)
	r.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", inner.dir, "sub")
	r.git("commit", "-q", "-m", "submodule")
	ws := prepare(t, w, "t", r.dir)
	if got, want := tree(t, w, ws), r.git("rev-parse", "HEAD^{tree}"); got != want {
		t.Errorf("tree %s, want %s while the submodule is not checked out", got, want)
	}
	userGit(t, ws.Path, "-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init")
	mark := filepath.Join(t.TempDir(), "mark")
	program := filepath.Join(t.TempDir(), "program")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755))
	userGit(t, filepath.Join(ws.Path, "sub"), "config", "core.fsmonitor", program)

	guard, err := w.Guarded(ctx, ws)
	must(t, err)
	write(t, ws.Path, "sub/a.txt", "changed")
	write(t, ws.Path, "sub/new.txt", "new")
	change, err := guard.Verify(ctx)
	if err != nil || strings.Join(change.Paths, " ") != "sub/a.txt sub/new.txt" {
		t.Errorf("verify: %+v %v", change, err)
	}
	if read(t, ws.Path, "sub/a.txt") != "a\n" || exists(filepath.Join(ws.Path, "sub/new.txt")) {
		t.Error("the submodule was not restored")
	}
	if exists(mark) {
		t.Error("the submodule started a program")
	}
	if got := userGit(t, filepath.Join(ws.Path, "sub"), "-c", "core.fsmonitor=false", "status", "--porcelain"); got != "" {
		t.Errorf("status of the submodule: %q", got)
	}
	if _, err := w.Cleanup(ctx, "t"); err != nil || exists(ws.Root) {
		t.Errorf("cleanup: %v", err)
	}
}

// A link in the workspace leads nowhere: neither reading nor restoring follows it.
func TestLinksAreNotFollowed(t *testing.T) {
	ctx := context.Background()
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	outside := t.TempDir()
	write(t, outside, "b.txt", "outside")
	write(t, ws.Path, "own/.gitignore", ".gitignore\n")
	write(t, ws.Path, "own/x", "x")
	guard, err := w.Guarded(ctx, ws)
	must(t, err)
	relink(t, ws.Path, "dir", outside)
	relink(t, ws.Path, "own", outside)
	if change, err := guard.Verify(ctx); err != nil || !change.Any() {
		t.Errorf("verify: %+v %v", change, err)
	}
	if got := files(t, outside); len(got) != 1 || read(t, outside, "b.txt") != "outside" {
		t.Errorf("outside: %v", got)
	}
	if read(t, ws.Path, "dir/b.txt") != "b\r\nb\n" || read(t, ws.Path, "own/x") != "x" {
		t.Error("not restored")
	}
}

// Neither the worker's environment nor the user's own settings reach git.
func TestTheWorkersEnvironmentDoesNotCount(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	home := t.TempDir()
	write(t, home, ".gitconfig", "[core]\n\tworktree = /\n[broken\n")
	write(t, home, ".config/git/ignore", "*\n")
	t.Setenv("HOME", home)
	t.Setenv("GIT_DIR", "/nonexistent")
	t.Setenv("GIT_WORK_TREE", "/")
	t.Setenv("GIT_INDEX_FILE", "/nonexistent")
	t.Setenv("GIT_CONFIG_COUNT", "x")
	ws, err := w.Prepare(context.Background(), "t", r.dir)
	must(t, err)
	before := tree(t, w, ws)
	write(t, ws.Path, "new", "new")
	if tree(t, w, ws) == before {
		t.Error("the user's ignore file counts")
	}
}

func TestAnUnwritableFolderIsSaidClearly(t *testing.T) {
	ctx := context.Background()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	w := &Workspaces{Dir: filepath.Join(file, "below")}
	_, prepared := w.Prepare(ctx, "t", "")
	_, kept := w.KeepOutput("t", "t/1.1", "text")
	_, marked := w.Mark()
	for name, err := range map[string]error{"prepare": prepared, "output": kept, "mark": marked} {
		if err == nil || !strings.Contains(err.Error(), "not writable") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	full := explain(&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, "/somewhere")
	git := explain(&gitError{verb: "update-index", stderr: "fatal: unable to write new index file: No space left on device"}, "/somewhere")
	silent := explain(&gitError{verb: "read-tree", stderr: "error: unable to write file big"}, t.TempDir())
	if !strings.HasPrefix(silent.Error(), "not written: ") || !strings.Contains(silent.Error(), " KiB free, make room") || strings.Contains(silent.Error(), " 0 KiB") {
		t.Errorf("%v", silent)
	}
	for _, err := range []error{full, git} {
		if !strings.HasPrefix(err.Error(), "disk full: ") || !strings.HasSuffix(err.Error(), "make room for /somewhere and for the repository") {
			t.Errorf("%v", err)
		}
	}
}

func TestMarksAndOutputs(t *testing.T) {
	w := newWorkspaces(t)
	if err := w.CheckMark("0123456789abcdef"); err == nil {
		t.Error("a folder without a mark passes for another one")
	}
	ids := make(chan string, 8)
	for range cap(ids) {
		go func() {
			id, err := w.Mark()
			if err != nil {
				t.Error(err)
			}
			ids <- id
		}()
	}
	id := <-ids
	for range cap(ids) - 1 {
		if other := <-ids; other != id {
			t.Errorf("marks %s and %s", id, other)
		}
	}
	must(t, w.CheckMark(id))
	other := newWorkspaces(t)
	if _, err := other.Mark(); err != nil {
		t.Fatal(err)
	}
	if err := other.CheckMark(id); err == nil || !strings.Contains(err.Error(), "shared disk") {
		t.Errorf("another folder: %v", err)
	}
	path, err := w.KeepOutput("t~2", "t~2/3.1", "one")
	must(t, err)
	again, err := w.KeepOutput("t~2", "t~2/3.1", "two")
	if err != nil || again != path || read(t, "/", path) != "two" {
		t.Errorf("%s %s %v", path, again, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	for _, bad := range []string{"u/3.1", "t~2/3", "t~2/../1.1", ""} {
		if _, err := w.KeepOutput("t~2", bad, "x"); err == nil {
			t.Errorf("kept an output of %q", bad)
		}
	}
}

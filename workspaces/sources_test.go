package workspaces

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSources(t *testing.T) {
	ctx := context.Background()
	w := newWorkspaces(t)

	t.Run("a plain folder is the workspace", func(t *testing.T) {
		dir, _ := filepath.EvalSymlinks(t.TempDir())
		ws := prepare(t, w, "plain", dir)
		if ws.Path != dir || ws.Git() {
			t.Fatalf("%+v", ws)
		}
		before := tree(t, w, ws)
		write(t, dir, "x", "x")
		if after := tree(t, w, ws); before != NoTree || after != NoTree {
			t.Errorf("trees %s, %s", before, after)
		}
		guard, err := w.Guarded(ctx, ws)
		must(t, err)
		if change, err := guard.Verify(ctx); err != nil || change.Any() || guard.Tree() != NoTree {
			t.Errorf("guard %v %v", change, err)
		}
		if ref := checkpointOf(t, w, ws, "plain/1"); ref != "" {
			t.Errorf("checkpoint %q", ref)
		}
		if err := w.Rollback(ctx, ws, "refs/rota/plain/1"); err == nil {
			t.Error("rolled back without git")
		}
		if _, err := w.Cleanup(ctx, "plain"); err != nil || read(t, dir, "x") != "x" {
			t.Errorf("cleanup: %v", err)
		}
	})
	t.Run("no source makes a fresh folder", func(t *testing.T) {
		ws := prepare(t, w, "fresh", "")
		write(t, ws.Path, "x", "x")
		if ws.Git() || prepare(t, w, "fresh", "") != ws || read(t, ws.Path, "x") != "x" {
			t.Errorf("%+v", ws)
		}
		if _, err := w.Cleanup(ctx, "fresh"); err != nil || read(t, ws.Path, "x") != "x" {
			t.Errorf("cleanup threw work away: %v", err)
		}
		if err := w.Forget(ctx, "fresh"); err == nil {
			t.Error("forgot a folder with work in it")
		}
		must(t, os.Remove(filepath.Join(ws.Path, "x")))
		must(t, w.Forget(ctx, "fresh"))
		if exists(ws.Path) {
			t.Error("the empty folder stayed")
		}
	})
	t.Run("a fresh folder that is gone is made again", func(t *testing.T) {
		ws := prepare(t, w, "gone", "")
		for _, replaced := range []bool{false, true} {
			must(t, os.Remove(ws.Path))
			if replaced {
				write(t, filepath.Dir(ws.Path), filepath.Base(ws.Path), "no folder")
				if _, err := w.Prepare(ctx, "gone", ""); err == nil {
					t.Error("a file was handed out as a workspace")
				}
				continue
			}
			if again := prepare(t, w, "gone", ""); again != ws || !exists(again.Path) {
				t.Errorf("%+v, then %+v", ws, again)
			}
		}
	})
	t.Run("a run waits for whoever found the thread idle", func(t *testing.T) {
		dir, _ := filepath.EvalSymlinks(t.TempDir())
		for thread, source := range map[string]string{"idle": "", "idle-plain": dir} {
			prepare(t, w, thread, source)
			must(t, w.WhileIdle(ctx, thread, func() error { return nil }, func(i Idle) error {
				bound, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				if ws, err := w.Prepare(bound, thread, source); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("prepared %+v meanwhile, %v", ws, err)
				}
				_, err := i.Cleanup(ctx)
				return err
			}))
			if ws := prepare(t, w, thread, source); !exists(ws.Path) {
				t.Errorf("%s was handed out, and is gone", ws.Path)
			}
		}
	})
	t.Run("a subfolder", func(t *testing.T) {
		r := newRepo(t)
		ws := prepare(t, w, "sub", filepath.Join(r.dir, "dir"))
		if ws.Path != filepath.Join(ws.Root, "dir") || read(t, ws.Path, "b.txt") != "b\r\nb\n" || read(t, ws.Root, "a.txt") != "a\n" {
			t.Errorf("%+v", ws)
		}
	})
	t.Run("a subfolder with a .git that is none", func(t *testing.T) {
		r := newRepo(t)
		must(t, os.Mkdir(filepath.Join(r.dir, "dir", ".git"), 0o700))
		if ws := prepare(t, w, "sub-git", filepath.Join(r.dir, "dir")); ws.Path != filepath.Join(ws.Root, "dir") {
			t.Errorf("%+v", ws)
		}
	})
	t.Run("a submodule", func(t *testing.T) {
		r := newRepo(t)
		r.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", newRepo(t).dir, "sub")
		if ws := prepare(t, w, "submodule", filepath.Join(r.dir, "sub")); ws.Path != ws.Root || read(t, ws.Path, "a.txt") != "a\n" {
			t.Errorf("%+v", ws)
		}
	})
	t.Run("a subfolder that the repository does not track", func(t *testing.T) {
		r := newRepo(t)
		write(t, r.dir, "build/x", "x")
		if ws := prepare(t, w, "ignored", filepath.Join(r.dir, "build")); ws.Git() || read(t, ws.Path, "x") != "x" {
			t.Errorf("%+v", ws)
		}
	})
	t.Run("a symbolic link to the repository", func(t *testing.T) {
		r := newRepo(t)
		link := filepath.Join(t.TempDir(), "link")
		must(t, os.Symlink(r.dir, link))
		ws := prepare(t, w, "link", link)
		if prepare(t, w, "link", r.dir) != ws {
			t.Error("the link and its target are two sources")
		}
	})
	t.Run("a bare repository", func(t *testing.T) {
		r := newRepo(t)
		above := t.TempDir()
		must(t, os.Mkdir(filepath.Join(above, ".git"), 0o700)) // no repository, and git knows
		bare := filepath.Join(above, "bare.git")
		r.git("clone", "-q", "--bare", r.dir, bare)
		if ws := prepare(t, w, "bare", bare); read(t, ws.Path, "a.txt") != "a\n" {
			t.Errorf("%+v", ws)
		}
	})
	t.Run("a repository without a commit", func(t *testing.T) {
		r := emptyRepo(t)
		write(t, r.dir, "draft", "draft")
		ws := prepare(t, w, "empty", r.dir)
		first := tree(t, w, ws)
		write(t, ws.Path, "x", "x")
		if tree(t, w, ws) == first {
			t.Error("the tree did not change")
		}
		checkpointOf(t, w, ws, "empty/1")
		userGit(t, ws.Path, "add", "x")
		userGit(t, ws.Path, "commit", "-q", "-m", "first")
		r.git("merge", "-q", "rota/empty")
		if read(t, r.dir, "x") != "x" || read(t, r.dir, "draft") != "draft" {
			t.Error("the user can't take the work over")
		}
	})
	t.Run("sha256", func(t *testing.T) {
		r := newRepo(t, "--object-format=sha256")
		ws := prepare(t, w, "sha256", r.dir)
		write(t, ws.Path, "x", "x")
		if id := tree(t, w, ws); len(id) != 64 {
			t.Errorf("tree %q", id)
		}
		must(t, os.Remove(filepath.Join(ws.Path, "x")))
		if got, want := tree(t, w, ws), r.git("rev-parse", "HEAD^{tree}"); got != want {
			t.Errorf("tree %s, want %s", got, want)
		}
	})
	t.Run("a worktree of another thread", func(t *testing.T) {
		root := prepare(t, w, "root", newRepo(t).dir)
		write(t, root.Path, "c.txt", "c")
		userGit(t, root.Path, "add", "c.txt")
		userGit(t, root.Path, "commit", "-q", "-m", "two")
		child := prepare(t, w, "root~2", root.Path)
		if child.Path == root.Path || read(t, child.Path, "c.txt") != "c" {
			t.Errorf("%+v", child)
		}
	})
}

func TestRefusedSources(t *testing.T) {
	ctx, w := context.Background(), newWorkspaces(t)
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	broken := emptyRepo(t)
	must(t, os.RemoveAll(filepath.Join(broken.dir, ".git")))
	write(t, broken.dir, ".git", "gitdir: /nonexistent/somewhere\n")
	damaged, detached := newRepo(t), newRepo(t)
	detached.git("checkout", "-q", "--detach")
	for _, r := range []repo{damaged, detached} {
		must(t, os.RemoveAll(filepath.Join(r.dir, ".git", "objects")))
		must(t, os.Mkdir(filepath.Join(r.dir, ".git", "objects"), 0o700))
	}
	whole := newRepo(t)
	for source, want := range map[string]string{
		damaged.dir:                 "is missing",
		detached.dir:                "is missing",
		whole.dir + "/.git":         "lies in a git folder",
		whole.dir + "/.git/objects": "lies in a git folder",
		"rel/ative":                 "absolute",
		"/nonexistent/repo":         "not on this host",
		file:                        "no folder",
		broken.dir:                  "not a git repository",
	} {
		if _, err := w.Prepare(ctx, "t", source); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", source, err, want)
		}
		if _, ok, _ := w.Find("t"); ok {
			t.Errorf("%s: left a workspace", source)
		}
	}
	if _, err := w.Prepare(ctx, "../up", ""); err == nil {
		t.Error("took a bad thread name")
	}
	taken := newRepo(t)
	taken.git("branch", "rota")
	if _, err := w.Prepare(ctx, "t", taken.dir); err == nil || !strings.Contains(err.Error(), "rota/t") {
		t.Errorf("a branch named rota: %v", err)
	}
}

// Thread names may be ., .. or end in .lock; in paths and refs they must not.
func TestNamesArePathsAndRefs(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	seen := map[string]string{}
	for _, thread := range []string{".", "..", "...", "a..b", "a.", ".a", "a.lock", "lock", "a.lock~2", "-x", "a~2", "a", "a.b", strings.Repeat("z", 64)} {
		name := safeName(thread)
		if old, ok := seen[name]; ok {
			t.Errorf("%s and %s share %s", thread, old, name)
		}
		seen[name] = thread
		if threadOf(name) != thread {
			t.Errorf("%s comes back as %s", thread, threadOf(name))
		}
		ws := prepare(t, w, thread, r.dir)
		if filepath.Dir(ws.Path) != filepath.Join(w.Dir, "trees") {
			t.Errorf("%s works in %s", thread, ws.Path)
		}
	}
}

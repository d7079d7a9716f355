package workspaces

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// repo is a user's repository in a temporary folder.
type repo struct {
	t   *testing.T
	dir string
}

// userGit runs git as a user would, with the repository's own settings.
func userGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=user", "GIT_AUTHOR_EMAIL=user@localhost", "GIT_COMMITTER_NAME=user", "GIT_COMMITTER_EMAIL=user@localhost")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("git %v: %v %s", args, err, stderr.String())
	}
	return strings.TrimSuffix(stdout.String(), "\n")
}

// emptyRepo has no commit.
func emptyRepo(t *testing.T, flags ...string) repo {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	userGit(t, dir, append([]string{"init", "-q", "-b", "main"}, flags...)...)
	return repo{t, dir}
}

// newRepo has one commit with a.txt, dir/b.txt, an executable, a link and a .gitignore.
func newRepo(t *testing.T, flags ...string) repo {
	t.Helper()
	r := emptyRepo(t, flags...)
	write(t, r.dir, "a.txt", "a\n")
	write(t, r.dir, "dir/b.txt", "b\r\nb\n")
	write(t, r.dir, "run.sh", "#!/bin/sh\n")
	write(t, r.dir, ".gitignore", "*.log\nbuild/\n")
	write(t, r.dir, "kept.log", "tracked although ignored\n")
	if err := os.Chmod(filepath.Join(r.dir, "run.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.txt", filepath.Join(r.dir, "link")); err != nil {
		t.Fatal(err)
	}
	r.git("add", "-A", "-f")
	r.git("commit", "-q", "-m", "one")
	return r
}

func (r repo) git(args ...string) string {
	r.t.Helper()
	return userGit(r.t, r.dir, args...)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// files describes everything below dir but git's own folders: kind, mode, contents.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		switch {
		case e.Name() == ".git":
			if e.IsDir() {
				return filepath.SkipDir
			}
		case e.IsDir():
		case e.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(path)
			all[name] = "-> " + target
			return err
		default:
			info, err := e.Info()
			if err != nil {
				return err
			}
			all[name] = info.Mode().String()[:4] + " " + read(t, dir, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func newWorkspaces(t *testing.T) *Workspaces {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &Workspaces{Dir: filepath.Join(dir, "rota")}
}

func prepare(t *testing.T, w *Workspaces, thread, source string) Workspace {
	t.Helper()
	ws, err := w.Prepare(context.Background(), thread, source)
	if err != nil {
		t.Fatal(err)
	}
	return ws
}

func tree(t *testing.T, w *Workspaces, ws Workspace) string {
	t.Helper()
	id, err := w.Tree(context.Background(), ws)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func checkpointOf(t *testing.T, w *Workspaces, ws Workspace, turn string) string {
	t.Helper()
	ref, err := w.Checkpoint(context.Background(), ws, turn)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

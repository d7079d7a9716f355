package workspaces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxExcludes bounds what is read of a repository's info/exclude.
const maxExcludes = 1 << 20

// ensureWorktree makes the worktree, or completes what a crash or a person left
// of it. ready says that it was complete once.
func (p place) ensureWorktree(ctx context.Context, rec record, ready bool) error {
	if !exists(filepath.Join(rec.Common, "objects")) {
		return fmt.Errorf("the repository %s is not on this host; workspaces need the same paths on all workers", rec.Common)
	}
	if ready && exists(p.tree) {
		return p.repair(ctx, rec)
	}
	return p.create(ctx, rec)
}

// create makes the worktree from nothing. Whatever lies at its place was never
// handed out, or its files are gone.
func (p place) create(ctx context.Context, rec record) error {
	if err := errors.Join(removeAll(p.tree), p.forget(ctx, rec)); err != nil {
		return err
	}
	if err := os.Remove(p.file("index")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	head, err := p.ensureBranch(ctx, rec)
	if err != nil {
		return err
	}
	if err := p.addWorktree(ctx, rec); err != nil {
		return err
	}
	tree, err := p.startTree(ctx, rec, head)
	if err != nil {
		return err
	}
	s, err := p.scratch(rec, nil)
	if err != nil {
		return err
	}
	defer s.close()
	// The index of the worktree is that of its commit, the files may be newer.
	if err := s.restore(ctx, head); err != nil {
		return err
	}
	if err := p.adoptIndex(rec, s); err != nil {
		return err
	}
	if tree == "" {
		return nil
	}
	return s.restore(ctx, tree)
}

func (p place) addWorktree(ctx context.Context, rec record) error {
	p, unlock, err := p.entering(ctx, rec)
	if err != nil {
		return err
	}
	defer unlock()
	_, err = p.gitOf(ctx, rec, "worktree", "add", "--no-checkout", p.tree, p.branch())
	return err
}

// ensureBranch returns the head of the thread's branch, which is made at the
// source's commit when there is none. A repository without a commit gets an
// empty first one, on the thread's branch only.
func (p place) ensureBranch(ctx context.Context, rec record) (string, error) {
	ref := "refs/heads/" + p.branch()
	head, err := found(p.gitOf(ctx, rec, "rev-parse", "--verify", "-q", ref+"^{commit}"))
	if err != nil || head != "" {
		return head, err
	}
	head = rec.Base
	if last, err := p.lastCheckpoint(ctx, rec); err != nil {
		return "", err
	} else if last.parent != "" {
		head = last.parent
	}
	if head == "" {
		s, err := p.scratch(rec, nil)
		if err != nil {
			return "", err
		}
		defer s.close()
		tree, err := call{dir: s.dir, env: s.bareEnv(), args: []string{"write-tree"}}.run(ctx)
		if err != nil {
			return "", err
		}
		out, err := call{dir: s.dir, env: s.bareEnv(), args: []string{"commit-tree", "-m", "start of " + p.thread, line(tree)}}.run(ctx)
		if err != nil {
			return "", err
		}
		head = line(out)
	}
	_, err = p.gitOf(ctx, rec, "update-ref", "-m", "rota: start of "+p.thread, ref, head, "")
	if err != nil {
		return "", fmt.Errorf("%w; rota needs to make the branch %s", err, p.branch())
	}
	return head, nil
}

// startTree returns the tree of the newest checkpoint if the branch still
// stands where it was taken, else nothing.
func (p place) startTree(ctx context.Context, rec record, head string) (string, error) {
	last, err := p.lastCheckpoint(ctx, rec)
	if err != nil || last.parent != head {
		return "", err
	}
	return last.tree, nil
}

// adoptIndex gives the scratch index to the worktree, so that git finds its
// files unchanged.
func (p place) adoptIndex(rec record, s *scratch) error {
	entry, err := p.entry(rec)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(s.index())
	if errors.Is(err, os.ErrNotExist) {
		return nil // an empty tree leaves no index
	}
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(entry, "index"), content, 0o644)
}

// repair puts back the links between the worktree and its repository when an
// agent or a `git worktree prune` removed or changed them. The files stay.
func (p place) repair(ctx context.Context, rec record) error {
	entry, err := p.entry(rec)
	if err != nil {
		return err
	}
	if entry == "" {
		if _, err := p.ensureBranch(ctx, rec); err != nil {
			return err
		}
		if entry, err = p.makeEntry(ctx, rec); err != nil {
			return err
		}
		if _, err := p.gitHere(ctx, entry, "read-tree", "HEAD"); err != nil {
			return err
		}
	}
	link := filepath.Join(p.tree, ".git")
	want := "gitdir: " + entry + "\n"
	if have, err := os.ReadFile(link); err == nil && string(have) == want {
		return nil
	}
	if err := removeAll(link); err != nil {
		return err
	}
	return replaceFile(link, []byte(want), 0o644)
}

// makeEntry writes the worktree's entry in the repository by hand, as
// `git worktree add` does.
func (p place) makeEntry(ctx context.Context, rec record) (string, error) {
	p, unlock, err := p.entering(ctx, rec)
	if err != nil {
		return "", err
	}
	defer unlock()
	entries := filepath.Join(rec.Common, "worktrees")
	if err := os.MkdirAll(entries, 0o755); err != nil {
		return "", err
	}
	entry := filepath.Join(entries, p.name)
	for n := 1; ; n++ {
		err := os.Mkdir(entry, 0o755)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrExist) || n > 1000 {
			return "", err
		}
		entry = filepath.Join(entries, fmt.Sprintf("%s%d", p.name, n))
	}
	// gitdir comes last: without it the entry is not ours yet.
	return entry, errors.Join(
		os.WriteFile(filepath.Join(entry, "commondir"), []byte("../..\n"), 0o644),
		os.WriteFile(filepath.Join(entry, "HEAD"), []byte("ref: refs/heads/"+p.branch()+"\n"), 0o644),
		os.WriteFile(filepath.Join(entry, "gitdir"), []byte(filepath.Join(p.tree, ".git")+"\n"), 0o644),
	)
}

// entry returns the worktree's entry in the repository, or nothing. The
// worktree's own .git file is not asked: an agent can write to it.
func (p place) entry(rec record) (string, error) {
	entries, err := os.ReadDir(filepath.Join(rec.Common, "worktrees"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		dir := filepath.Join(rec.Common, "worktrees", e.Name())
		link, err := os.ReadFile(filepath.Join(dir, "gitdir"))
		if err == nil && strings.TrimSpace(string(link)) == filepath.Join(p.tree, ".git") {
			return dir, nil
		}
	}
	return "", nil
}

// forget removes the worktree's entry from the repository.
func (p place) forget(ctx context.Context, rec record) error {
	p, unlock, err := p.entering(ctx, rec)
	if err != nil {
		return err
	}
	defer unlock()
	entry, err := p.entry(rec)
	if err != nil || entry == "" {
		return err
	}
	return removeAll(entry)
}

// gitHere runs git with the worktree's own git folder, without working files.
func (p place) gitHere(ctx context.Context, entry string, args ...string) (string, error) {
	return call{dir: entry, env: []string{"GIT_DIR=" + entry}, locks: p.locks, args: args}.run(ctx)
}

// excludes returns the repository's info/exclude.
func (rec record) excludes() []byte {
	content, err := os.ReadFile(filepath.Join(rec.Common, "info", "exclude"))
	if err != nil || len(content) > maxExcludes {
		return nil
	}
	return content
}

// bareEnv is for commands of the scratch folder that touch no working file.
func (s *scratch) bareEnv() []string {
	return []string{"GIT_DIR=" + s.dir, "GIT_OBJECT_DIRECTORY=" + filepath.Join(s.rec.Common, "objects")}
}

// removeAll removes a file or folder, also below folders that forbid it.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, os.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(dir string, e os.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(dir, 0o700)
		}
		return nil
	})
	return os.RemoveAll(path)
}

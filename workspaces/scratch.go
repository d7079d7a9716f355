package workspaces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// scratch is a git folder of rota's own that lives for one operation. It works
// on the thread's working files and stores its objects with the source's, but
// knows no configuration, hook, attribute or index besides its own.
type scratch struct {
	dir   string
	root  string // top of the working files
	rec   record
	locks []*os.File
}

// rawAttributes switch off every conversion of contents.
const rawAttributes = "* -text -eol -filter -ident -working-tree-encoding\n"

// scratch makes the scratch folder; excludes is the text of the repository's
// info/exclude. The caller closes it.
func (p place) scratch(rec record, excludes []byte) (*scratch, error) {
	dir, err := os.MkdirTemp(p.home, "scratch-")
	if err != nil {
		return nil, err
	}
	s := &scratch{dir: dir, root: p.tree, rec: rec, locks: p.locks}
	config := "[core]\n\trepositoryformatversion = 0\n\tbare = false\n"
	if rec.Format != "" && rec.Format != "sha1" {
		config = "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectformat = " + rec.Format + "\n"
	}
	err = errors.Join(
		os.Mkdir(filepath.Join(dir, "refs"), 0o700),
		os.Mkdir(filepath.Join(dir, "info"), 0o700),
		os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/none\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600),
		os.WriteFile(filepath.Join(dir, "info", "attributes"), []byte(rawAttributes), 0o600),
		os.WriteFile(filepath.Join(dir, "info", "exclude"), excludes, 0o600),
	)
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *scratch) close() { _ = os.RemoveAll(s.dir) }

func (s *scratch) index() string { return filepath.Join(s.dir, "index") }

// git runs a command on the working files below sub, a path below the root.
func (s *scratch) git(ctx context.Context, sub string, stdin io.Reader, args ...string) (string, error) {
	top := filepath.Join(s.root, sub)
	return call{
		dir: top,
		env: []string{
			"GIT_DIR=" + s.dir,
			"GIT_WORK_TREE=" + top,
			"GIT_OBJECT_DIRECTORY=" + filepath.Join(s.rec.Common, "objects"),
		},
		stdin: stdin,
		locks: s.locks,
		args:  args,
	}.run(ctx)
}

// writeTree stores everything that is not ignored and returns the tree's id.
// tracked is the worktree's own index as `git ls-files -s -z` prints it: what it
// names counts although it is ignored. The scratch index may start as a stat
// cache; nothing in it is believed but unchanged files.
func (s *scratch) writeTree(ctx context.Context, tracked string) (string, error) {
	kept, links := s.present(tracked)
	// List what is not tracked against an index of exactly what is.
	cache := s.index() + ".cache"
	if err := renameIfThere(s.index(), cache); err != nil {
		return "", err
	}
	if _, err := s.git(ctx, "", strings.NewReader(kept+links), "update-index", "-z", "--index-info"); err != nil {
		return "", err
	}
	paths, err := s.untracked(ctx, "")
	if err != nil {
		return "", err
	}
	for entry := range strings.SplitSeq(kept, "\x00") {
		if _, path, ok := strings.Cut(entry, "\t"); ok {
			paths = append(paths, path)
		}
	}
	if err := s.reuse(ctx, cache, paths, links); err != nil {
		return "", err
	}
	if _, err := s.git(ctx, "", strings.NewReader(joinZ(paths)), "update-index", "-z", "--add", "--stdin"); err != nil {
		return "", err
	}
	out, err := s.git(ctx, "", nil, "write-tree")
	return line(out), err
}

// present splits index entries: kept are those whose file is there, links the
// submodules that are not checked out.
func (s *scratch) present(tracked string) (kept, links string) {
	var files, modules strings.Builder
	real := map[string]bool{".": true}
	for entry := range strings.SplitSeq(tracked, "\x00") {
		head, path, ok := strings.Cut(entry, "\t")
		if !ok || !s.realFolder(filepath.Dir(path), real) {
			continue
		}
		info, err := os.Lstat(filepath.Join(s.root, path))
		switch {
		case err != nil:
		case strings.HasPrefix(head, "160000 "):
			if info.IsDir() && !exists(filepath.Join(s.root, path, ".git")) {
				modules.WriteString(entry + "\x00")
			}
		case info.Mode().IsRegular(), info.Mode()&os.ModeSymlink != 0:
			files.WriteString(entry + "\x00")
		}
	}
	return files.String(), modules.String()
}

// realFolder reports whether a folder below the root is reached without a
// symbolic link and is no part of a nested repository.
func (s *scratch) realFolder(dir string, known map[string]bool) bool {
	if real, ok := known[dir]; ok {
		return real
	}
	full := filepath.Join(s.root, dir)
	info, err := os.Lstat(full)
	known[dir] = err == nil && info.IsDir() && s.realFolder(filepath.Dir(dir), known)
	return known[dir]
}

// untracked lists the files below sub that the scratch index does not have and
// that are not ignored, going into nested repositories.
func (s *scratch) untracked(ctx context.Context, sub string) ([]string, error) {
	if sub != "" {
		// A nested repository has an index of its own, which does not count.
		if err := os.Rename(s.index(), s.index()+".outer"); err != nil {
			return nil, err
		}
	}
	out, err := s.git(ctx, sub, nil, "ls-files", "-z", "--others", "--exclude-standard")
	if sub != "" {
		err = errors.Join(err, os.Rename(s.index()+".outer", s.index()))
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for path := range strings.SplitSeq(out, "\x00") {
		if path == "" {
			continue
		}
		full := filepath.Join(sub, path)
		if !strings.HasSuffix(path, "/") {
			paths = append(paths, full)
			continue
		}
		nested, err := s.untracked(ctx, full)
		if err != nil {
			return nil, err
		}
		paths = append(paths, nested...)
	}
	return paths, nil
}

// reuse turns the cache into the scratch index: entries of other paths than
// the given ones leave it, the links come in.
func (s *scratch) reuse(ctx context.Context, cache string, paths []string, links string) error {
	if err := os.Remove(s.index()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := renameIfThere(cache, s.index()); err != nil {
		return err
	}
	old, err := s.git(ctx, "", nil, "ls-files", "-s", "-z")
	if err != nil {
		_ = os.Remove(s.index()) // a broken cache costs time only
		old = ""
	}
	want := make(map[string]bool, len(paths))
	for _, path := range paths {
		want[path] = true
	}
	var change strings.Builder
	zero := strings.Repeat("0", 40)
	if s.rec.Format == "sha256" {
		zero = strings.Repeat("0", 64)
	}
	for entry := range strings.SplitSeq(old, "\x00") {
		if head, path, ok := strings.Cut(entry, "\t"); ok && (!want[path] || strings.HasPrefix(head, "160000 ")) {
			fmt.Fprintf(&change, "0 %s\t%s\x00", zero, path)
		}
	}
	change.WriteString(links)
	_, err = s.git(ctx, "", strings.NewReader(change.String()), "update-index", "-z", "--index-info")
	return err
}

// restore makes the working files equal to a tree: files that are not in it and
// not ignored are removed. The scratch index must be that of a writeTree.
func (s *scratch) restore(ctx context.Context, tree string) error {
	_, err := s.git(ctx, "", nil, "read-tree", "--reset", "-u", tree)
	return err
}

func joinZ(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	return strings.Join(paths, "\x00") + "\x00"
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func renameIfThere(from, to string) error {
	if err := os.Rename(from, to); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

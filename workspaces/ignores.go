package workspaces

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// ignores reads the .gitignore files that a tree does not have but that lie in
// its folders: ignored ones, often by themselves. Caches that tools make in
// folders of their own bring such files too; those decide about nothing in the
// tree and do not count.
func (p place) ignores(ctx context.Context, rec record, tree string) (map[string][]byte, error) {
	paths, err := p.ignorePaths(ctx, rec, tree)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(p.tree)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	found := map[string][]byte{}
	for _, name := range paths {
		// A folder that is gone or a link now holds none.
		info, err := root.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		content, err := root.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found[name] = content
	}
	return found, nil
}

// ignorePaths lists where ignored .gitignore files would decide about a tree.
func (p place) ignorePaths(ctx context.Context, rec record, tree string) ([]string, error) {
	s, err := p.scratch(rec, nil)
	if err != nil {
		return nil, err
	}
	defer s.close()
	listed, err := s.list(ctx, tree)
	if err != nil {
		return nil, err
	}
	folders, has := map[string]bool{".": true}, map[string]bool{}
	for entry := range strings.SplitSeq(listed, "\x00") {
		_, name, _ := strings.Cut(entry, "\t")
		has[name] = true
		for dir := path.Dir(name); !folders[dir]; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	var paths []string
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		if name := path.Join(dir, ".gitignore"); !has[name] {
			paths = append(paths, name)
		}
	}
	return paths, nil
}

// undoIgnores puts the ignored .gitignore files back to a snapshot and names
// those that were changed. Files that are not ignored are the tree's matter.
func (p place) undoIgnores(ctx context.Context, rec record, snap snapshotRecord) ([]string, error) {
	now, err := p.ignores(ctx, rec, snap.Tree)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(p.tree)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, known := snap.Ignores[name]; known {
			continue
		}
		if err := root.Remove(name); err != nil {
			return nil, err
		}
		changed = append(changed, name)
	}
	for _, name := range slices.Sorted(maps.Keys(snap.Ignores)) {
		if have, ok := now[name]; ok && bytes.Equal(have, snap.Ignores[name]) {
			continue
		}
		changed = append(changed, name)
		if err := errors.Join(root.MkdirAll(path.Dir(name), 0o755), root.RemoveAll(name)); err != nil {
			continue // its folder became something else, which the tree undoes
		}
		if err := root.WriteFile(name, snap.Ignores[name], 0o644); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return changed, nil
}

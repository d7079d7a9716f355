package workspaces

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"rota/turns"
)

const (
	kindWorktree = "worktree"
	kindFolder   = "folder" // the user's folder itself
	kindFresh    = "fresh"  // a folder below Dir
)

// record is what a thread's workspace is. It is written last, so that a
// workspace without one was never handed out.
type record struct {
	Thread string `json:"thread"`
	Source string `json:"source"`
	Kind   string `json:"kind"`
	Common string `json:"common,omitempty"` // git folder of the source's repository
	Format string `json:"format,omitempty"` // object format, sha1 or sha256
	Prefix string `json:"prefix,omitempty"` // of the source in its repository
	Base   string `json:"base,omitempty"`   // commit the branch starts at; empty: repository without one
}

// place is where the things of one thread lie.
type place struct {
	thread string
	name   string // the thread in paths and refs
	tree   string
	home   string
	locks  []*os.File // held
}

func (w *Workspaces) place(thread string) (place, error) {
	if err := turns.CheckThread(thread); err != nil {
		return place{}, err
	}
	if !filepath.IsAbs(w.Dir) {
		return place{}, fmt.Errorf("workspaces folder %q is no absolute path", w.Dir)
	}
	name := safeName(thread)
	return place{
		thread: thread,
		name:   name,
		tree:   filepath.Join(w.Dir, "trees", name),
		home:   filepath.Join(w.Dir, "threads", name),
	}, nil
}

// enter makes the thread's folder and locks it, across processes. What a killed
// operation left is removed.
func (w *Workspaces) enter(ctx context.Context, thread string) (place, func(), error) {
	p, unlock, err := w.locked(ctx, thread)
	if err == nil {
		err = p.tidy()
	}
	if err != nil {
		if unlock != nil {
			unlock()
		}
		return place{}, nil, explain(err, w.Dir)
	}
	return p, unlock, nil
}

// locked makes the thread's folder and locks it, across processes.
func (w *Workspaces) locked(ctx context.Context, thread string) (place, func(), error) {
	p, err := w.place(thread)
	if err != nil {
		return place{}, nil, err
	}
	held, err := lock(ctx, p.file("lock"))
	if err != nil {
		return place{}, nil, fmt.Errorf("lock workspace of %s: %w", thread, explain(err, w.Dir))
	}
	p.locks = []*os.File{held}
	return p, func() { _ = held.Close() }, nil
}

// tidy removes what a killed operation left.
func (p place) tidy() error {
	if err := os.MkdirAll(filepath.Dir(p.tree), 0o700); err != nil {
		return err
	}
	for _, name := range names(p.home) {
		if strings.HasPrefix(name, "scratch-") {
			_ = os.RemoveAll(p.file(name))
		}
	}
	if _, err := os.Lstat(going(p.home)); err == nil {
		_ = os.RemoveAll(going(p.home))
	}
	return nil
}

// entering also locks the repository's list of worktrees: git fails when it
// meets the half made entry of another thread.
func (p place) entering(ctx context.Context, rec record) (place, func(), error) {
	held, err := lock(ctx, filepath.Join(rec.Common, "rota.lock"))
	if err != nil {
		return place{}, nil, err
	}
	p.locks = append(slices.Clip(p.locks), held)
	return p, func() { _ = held.Close() }, nil
}

// lock takes the file lock at path and waits for it until ctx ends. It is free
// when the file is closed, or the process and every git it started are dead.
func lock(ctx context.Context, path string) (*os.File, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		f, err := tryLock(path)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return f, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// tryLock returns the locked file, or nil when another holds it or it was
// removed meanwhile.
func tryLock(path string) (*os.File, error) {
	f, err := openFile(path, os.O_CREATE|os.O_RDWR)
	if errors.Is(err, os.ErrNotExist) {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			f, err = openFile(path, os.O_CREATE|os.O_RDWR)
		}
	}
	if errors.Is(err, os.ErrExist) || errors.Is(err, os.ErrNotExist) {
		return nil, nil // removed while it was made
	}
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		mine, err1 := f.Stat()
		there, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(mine, there) {
			return f, nil
		}
	}
	_ = f.Close()
	if err == nil || errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return nil, nil
	}
	return nil, err
}

func (p place) file(name string) string { return filepath.Join(p.home, name) }

func (p place) branch() string { return "rota/" + p.name }

// refs is the namespace of the thread's checkpoints.
func (p place) refs() string { return "refs/rota/" + p.name + "/" }

func (p place) load() (record, bool, error) {
	var rec record
	ok, err := readJSON(p.file("record"), &rec)
	return rec, ok, err
}

func (p place) workspace(rec record) Workspace {
	ws := Workspace{Thread: p.thread, Path: rec.Source, Root: rec.Source, record: rec}
	if rec.Kind != kindFolder {
		ws.Root = p.tree
		ws.Path = filepath.Join(p.tree, rec.Prefix)
	}
	if rec.Kind == kindWorktree {
		ws.Branch = p.branch()
	}
	return ws
}

// safeName returns the thread's name as one component of a path and of a git
// ref. ~ becomes +, and a dot that git or the file system would not take
// becomes %2e; both signs occur in no thread name, so names stay different.
func safeName(thread string) string {
	var b strings.Builder
	for i, c := range []byte(thread) {
		first, last := i == 0, i == len(thread)-1
		switch {
		case c == '~':
			b.WriteByte('+')
		case c == '.' && (first || last || thread[i-1] == '.' || thread[i:] == ".lock"):
			b.WriteString("%2e")
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func threadOf(name string) string {
	return strings.NewReplacer("+", "~", "%2e", ".").Replace(name)
}

// explain adds what a person can do about a full or unwritable disk.
func explain(err error, dir string) error {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT),
		strings.Contains(text, "No space left on device"), strings.Contains(text, "Disk quota exceeded"):
		return fmt.Errorf("disk full: %w; make room for %s and for the repository", err, dir)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EPERM),
		errors.Is(err, syscall.ENOTDIR), strings.Contains(text, "Permission denied"), strings.Contains(text, "Read-only file system"):
		return fmt.Errorf("not writable: %w; the worker's user needs to write to %s and to the repository", err, dir)
	case strings.Contains(text, "unable to write"):
		// Git keeps the reason to itself.
		return fmt.Errorf("not written: %w; %s has %d KiB free, make room or let the worker's user write to it", err, dir, free(dir)>>10)
	}
	return err
}

// free returns the bytes that may be written below dir.
func free(dir string) uint64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0
	}
	return uint64(st.Bavail) * uint64(st.Bsize)
}

package workspaces

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"rota/turns"
)

// Mark returns the id of the disk that Dir lies on and chooses one the first
// time. Hosts that share the folder read the same id.
func (w *Workspaces) Mark() (string, error) {
	if !filepath.IsAbs(w.Dir) {
		return "", fmt.Errorf("workspaces folder %q is no absolute path", w.Dir)
	}
	if err := os.MkdirAll(w.Dir, 0o700); err != nil {
		return "", explain(err, w.Dir)
	}
	path := filepath.Join(w.Dir, "id")
	if id, err := readMark(path); err == nil || !errors.Is(err, os.ErrNotExist) {
		return id, err
	}
	f, err := os.CreateTemp(w.Dir, ".new-*")
	if err != nil {
		return "", explain(err, w.Dir)
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(turns.NewToken() + "\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", explain(err, w.Dir)
	}
	// A link, unlike a rename, never replaces the mark of another process.
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, os.ErrExist) {
		return "", explain(err, w.Dir)
	}
	return readMark(path)
}

// CheckMark returns an error unless this host sees the folder whose Mark was id.
// It makes nothing. Folders of the user that are no repository carry no mark;
// Prepare says when one is not on the host.
func (w *Workspaces) CheckMark(id string) error {
	own, err := readMark(filepath.Join(w.Dir, "id"))
	if errors.Is(err, os.ErrNotExist) {
		own, err = "none", nil
	}
	if err != nil {
		return explain(err, w.Dir)
	}
	if own != id {
		return fmt.Errorf("%s on this host is another folder (mark %s, expected %s); put workspaces on one host or a shared disk", w.Dir, own, id)
	}
	return nil
}

func readMark(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(text))
	if id == "" || len(id) > 64 {
		return "", fmt.Errorf("%s holds no mark; remove it to get a new one", path)
	}
	return id, nil
}

package workspaces

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"rota/turns"
)

// KeepOutput writes the whole output of an attempt to a file that only the
// worker's user can read, and returns its path. A repeat replaces the file.
func (w *Workspaces) KeepOutput(thread, attempt, text string) (string, error) {
	place, err := w.place(thread)
	if err != nil {
		return "", err
	}
	turn, n, err := turns.ParseAttempt(attempt)
	if err != nil {
		return "", err
	}
	of, number, err := turns.ParseTurn(turn)
	if err != nil {
		return "", err
	}
	if of != thread {
		return "", fmt.Errorf("attempt %s is none of thread %s", attempt, thread)
	}
	dir := place.file("outputs")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", explain(err, w.Dir)
	}
	path := filepath.Join(dir, strconv.Itoa(number)+"."+strconv.Itoa(n)+".txt")
	if err := replaceFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("keep output of %s: %w", attempt, explain(err, w.Dir))
	}
	return path, nil
}

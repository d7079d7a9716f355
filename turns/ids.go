package turns

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// MaxName is the length of the longest thread name, in bytes.
const MaxName = 64

// CheckThread returns an error unless name is a thread's name: 1 to 64 of
// a-z 0-9 . _ -, for a child thread followed by ~ and a number.
func CheckThread(name string) error {
	root, child, isChild := strings.Cut(name, "~")
	if !validName(root) {
		return fmt.Errorf("thread name %q: use 1 to %d of a-z 0-9 . _ -", clip(name), MaxName)
	}
	if isChild {
		if n, err := positive(child); err != nil || n < 1 {
			return fmt.Errorf("thread name %q: a child thread is %s~ and a number", clip(name), root)
		}
	}
	return nil
}

func validName(s string) bool {
	if len(s) < 1 || len(s) > MaxName {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// CheckService returns an error unless name is a service's name: 1 to 64 of a-z 0-9 -.
func CheckService(name string) error {
	if !validName(name) || strings.ContainsAny(name, "._") {
		return fmt.Errorf("service name %q: use 1 to %d of a-z 0-9 -", clip(name), MaxName)
	}
	return nil
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}

// positive parses a number without sign or leading zero.
func positive(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || strconv.Itoa(n) != s {
		return 0, fmt.Errorf("%q is no number", clip(s))
	}
	return n, nil
}

// Root returns the root thread of a thread: the name before ~.
func Root(thread string) string {
	root, _, _ := strings.Cut(thread, "~")
	return root
}

// TurnID returns the id of the n-th turn of a thread.
func TurnID(thread string, n int) string { return thread + "/" + strconv.Itoa(n) }

// AttemptID returns the id of the n-th attempt of a turn.
func AttemptID(turn string, n int) string { return turn + "." + strconv.Itoa(n) }

// PairedID returns the id of the n-th paired task of a thread.
func PairedID(thread string, n int) string { return thread + "#" + strconv.Itoa(n) }

// ParseTurn splits a turn's id into thread and number.
func ParseTurn(id string) (thread string, n int, err error) {
	i := strings.LastIndexByte(id, '/')
	if i < 0 {
		return "", 0, fmt.Errorf("turn id %q: want thread/number", clip(id))
	}
	if err := CheckThread(id[:i]); err != nil {
		return "", 0, err
	}
	n, err = positive(id[i+1:])
	if err != nil || n < 1 {
		return "", 0, fmt.Errorf("turn id %q: want thread/number", clip(id))
	}
	return id[:i], n, nil
}

// ParseAttempt splits an attempt's id into turn and number.
func ParseAttempt(id string) (turn string, n int, err error) {
	i := strings.LastIndexByte(id, '.')
	if i < 0 || i < strings.LastIndexByte(id, '/') {
		return "", 0, fmt.Errorf("attempt id %q: want thread/turn.number", clip(id))
	}
	if _, _, err := ParseTurn(id[:i]); err != nil {
		return "", 0, err
	}
	n, err = positive(id[i+1:])
	if err != nil || n < 1 {
		return "", 0, fmt.Errorf("attempt id %q: want thread/turn.number", clip(id))
	}
	return id[:i], n, nil
}

// ThreadOf returns the thread of a thread, turn or attempt id, without checking it.
func ThreadOf(id string) string {
	thread, _, _ := strings.Cut(id, "/")
	thread, _, _ = strings.Cut(thread, "#")
	return thread
}

// NewToken returns 16 random hexadecimal digits: a run id, a stamp or a command id.
func NewToken() string {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic("turns: no randomness: " + err.Error())
	}
	return hex.EncodeToString(b[:])
}

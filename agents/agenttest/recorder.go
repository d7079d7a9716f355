package agenttest

import (
	"slices"
	"sync"
	"testing"
	"time"

	"rota/turns"
)

// Recorder is a reporter that records. The zero value is ready.
type Recorder struct {
	// Refuse, when set, is answered by every method that can say no: the run's
	// fence is lost.
	Refuse func() error

	mu   sync.Mutex
	seen Seen
}

// Seen is what a recorder heard, in order.
type Seen struct {
	Accepted int
	Sessions []string
	Levels   []turns.Progress
	Texts    []string // of progress, the empty ones left out
	Items    []turns.Item
	Order    []string // accepted, session, progress, item
}

func (r *Recorder) note(word string, f func(*Seen)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.seen)
	r.seen.Order = append(r.seen.Order, word)
}

func (r *Recorder) refused() error {
	if r.Refuse == nil {
		return nil
	}
	return r.Refuse()
}

// Accepted records that the prompt was accepted.
func (r *Recorder) Accepted() error {
	r.note("accepted", func(s *Seen) { s.Accepted++ })
	return r.refused()
}

// Session records the agent's session.
func (r *Recorder) Session(id string) {
	r.note("session", func(s *Seen) { s.Sessions = append(s.Sessions, id) })
}

// Progress records how far the run came.
func (r *Recorder) Progress(level turns.Progress, text string) {
	r.note("progress", func(s *Seen) {
		s.Levels = append(s.Levels, level)
		if text != "" {
			s.Texts = append(s.Texts, text)
		}
	})
}

// Item records an item.
func (r *Recorder) Item(item turns.Item) error {
	r.note("item", func(s *Seen) { s.Items = append(s.Items, item) })
	return r.refused()
}

// Seen returns a copy of what was heard so far.
func (r *Recorder) Seen() Seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Seen{
		Accepted: r.seen.Accepted,
		Sessions: slices.Clone(r.seen.Sessions),
		Levels:   slices.Clone(r.seen.Levels),
		Texts:    slices.Clone(r.seen.Texts),
		Items:    slices.Clone(r.seen.Items),
		Order:    slices.Clone(r.seen.Order),
	}
}

// Wait waits until what was heard fulfils a condition.
func (r *Recorder) Wait(t *testing.T, what string, ok func(Seen) bool) {
	t.Helper()
	Until(t, what, func() bool { return ok(r.Seen()) })
}

// Until waits for a state. The bound is for broken builds only.
func Until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

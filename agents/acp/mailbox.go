package acp

import "sync"

// mailbox brings what the library's goroutines have to say to the run's own,
// in order and without ever making them wait.
type mailbox struct {
	mu    sync.Mutex
	mail  []func() error
	ready chan struct{}
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

func (m *mailbox) put(f func() error) {
	m.mu.Lock()
	m.mail = append(m.mail, f)
	m.mu.Unlock()
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// take returns the oldest letter, nil when there is none.
func (m *mailbox) take() func() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.mail) == 0 {
		return nil
	}
	f := m.mail[0]
	m.mail = m.mail[1:]
	return f
}

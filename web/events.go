package web

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"rota/commands"
	"rota/turns"
	"rota/turns/store"
)

// Bounds of the events.
const (
	maxListeners  = 200              // browsers at once
	maxBehind     = 256              // moves that a slow browser may be behind
	eventsPause   = 15 * time.Second // between signs of life
	eventsTimeout = 20 * time.Second // for one write
)

// moves tells listeners what moves in the shards' streams. It reads them only
// while somebody listens, once for all.
type moves struct {
	store *store.Store
	log   *slog.Logger

	mu        sync.Mutex
	listeners map[*listener]bool
	stop      context.CancelFunc
}

// listener is one browser. Its channel is closed when it is too far behind.
type listener struct{ moves chan turns.Entry }

func newMoves(s *store.Store, log *slog.Logger) *moves {
	return &moves{store: s, log: log, listeners: map[*listener]bool{}}
}

// listen adds a listener, nil when there are too many. The moves after its return
// reach it; the first listener starts the reading.
func (m *moves) listen(ctx context.Context) (*listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.listeners) >= maxListeners {
		return nil, nil
	}
	if len(m.listeners) == 0 {
		tail, err := m.store.Tail(ctx)
		if err != nil {
			return nil, err
		}
		reading, stop := context.WithCancel(context.WithoutCancel(ctx))
		m.stop = stop
		go m.read(reading, tail)
	}
	l := &listener{make(chan turns.Entry, maxBehind)}
	m.listeners[l] = true
	return l, nil
}

// leave takes a listener away; the last one ends the reading.
func (m *moves) leave(l *listener) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.drop(l)
}

// drop forgets a listener. The lock is held.
func (m *moves) drop(l *listener) {
	if !m.listeners[l] {
		return
	}
	delete(m.listeners, l)
	close(l.moves)
	if len(m.listeners) == 0 {
		m.stop()
	}
}

func (m *moves) read(ctx context.Context, tail *store.Tail) {
	const wait, pause = 5 * time.Second, time.Second
	for ctx.Err() == nil {
		list, err := tail.Next(ctx, wait)
		if err != nil && ctx.Err() == nil {
			m.log.Warn("the streams can't be read", "err", err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
		m.tell(ctx, list)
	}
}

func (m *moves) tell(ctx context.Context, list []turns.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ctx.Err() != nil {
		return // a later reader has taken over
	}
	for _, e := range list {
		for l := range m.listeners {
			select {
			case l.moves <- e:
			default:
				m.drop(l) // its browser connects again and reads its page anew
			}
		}
	}
}

// events streams moves to a browser: of one root thread and what is below it with
// ?thread=NAME, else all.
func (b *board) events(w http.ResponseWriter, r *http.Request) {
	root := turns.Root(r.URL.Query().Get("thread"))
	l, err := b.moves.listen(r.Context())
	if err != nil {
		b.fail(w, r, http.StatusServiceUnavailable, "the store can't be read")
		return
	}
	if l == nil {
		b.fail(w, r, http.StatusServiceUnavailable, "too many pages are open")
		return
	}
	defer b.moves.leave(l)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	s := stream{w, http.NewResponseController(w)}
	if s.send("retry: 2000\nevent: hello\ndata: {}\n\n") != nil {
		return
	}
	alive := time.NewTicker(eventsPause)
	defer alive.Stop()
	for err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-alive.C:
			err = s.send(": alive\n\n")
		case e, ok := <-l.moves:
			if !ok {
				return
			}
			if root == "" || turns.Root(turns.ThreadOf(e.Turn)) == root {
				err = s.move(e)
			}
		}
	}
}

// stream writes events; each write has its own limit of time.
type stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
}

func (s stream) send(text string) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(eventsTimeout))
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.control.Flush()
}

func (s stream) move(e turns.Entry) error {
	line, err := json.Marshal(commands.ViewMove(e))
	if err != nil {
		return err
	}
	return s.send(fmt.Sprintf("event: move\ndata: %s\n\n", line))
}

package process

import (
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// TailSize is how much of the end of the standard error is kept, in bytes.
const TailSize = 16 << 10

// tail keeps the end of the program's standard error.
type tail struct {
	pipe *os.File
	done chan struct{}
	last atomic.Int64 // unix ns of the last byte

	mu  sync.Mutex
	buf []byte
	cut bool
}

func newTail(pipe *os.File) *tail { return &tail{pipe: pipe, done: make(chan struct{})} }

func (t *tail) read() {
	defer close(t.done)
	chunk := make([]byte, 8<<10)
	for {
		n, err := t.pipe.Read(chunk)
		if n > 0 {
			t.last.Store(time.Now().UnixNano())
			t.add(chunk[:n])
		}
		if err != nil {
			return
		}
	}
}

func (t *tail) add(b []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - TailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
		t.cut = true
	}
}

// String returns what is kept as valid UTF-8. When the beginning was cut it
// starts with a whole line, where there is one.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := string(t.buf)
	if t.cut {
		if _, rest, ok := strings.Cut(s, "\n"); ok {
			s = rest
		}
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func (t *tail) close(bound time.Duration) {
	select {
	case <-t.done:
	case <-time.After(bound):
	}
	t.pipe.Close()
	<-t.done
}

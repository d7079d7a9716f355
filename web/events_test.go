package web

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
)

// stream reads a browser's events.
type reader struct {
	*story
	lines *bufio.Scanner
	stop  func()
}

func (y *story) listen(path string) *reader {
	y.Helper()
	ctx, cancel := context.WithTimeout(y.ctx, 90*time.Second)
	r, err := http.NewRequestWithContext(ctx, "GET", y.url+path, nil)
	y.must(err)
	reply, err := http.DefaultClient.Do(r)
	y.must(err)
	if reply.StatusCode != 200 || reply.Header.Get("Content-Type") != "text/event-stream" {
		y.Fatalf("%s: %s %s", path, reply.Status, reply.Header)
	}
	e := &reader{y, bufio.NewScanner(reply.Body), func() { cancel(); reply.Body.Close() }}
	y.Cleanup(e.stop)
	if name, _ := e.next(); name != "hello" {
		y.Fatalf("the first event is %q", name)
	}
	return e
}

// next returns the next event.
func (e *reader) next() (name, body string) {
	e.Helper()
	for e.lines.Scan() {
		line := e.lines.Text()
		if v, ok := strings.CutPrefix(line, "event: "); ok {
			name = v
		}
		if v, ok := strings.CutPrefix(line, "data: "); ok {
			body = v
		}
		if line == "" && name != "" {
			return name, body
		}
	}
	e.Fatalf("the stream ended: %v", e.lines.Err())
	return "", ""
}

func (e *reader) move() commands.Move {
	e.Helper()
	name, body := e.next()
	var m struct {
		Verb    turns.Verb `json:"verb"`
		Attempt string     `json:"attempt"`
	}
	if err := json.Unmarshal([]byte(body), &m); name != "move" || err != nil {
		e.Fatalf("event %q: %s, %v", name, body, err)
	}
	return commands.Move{Verb: m.Verb, Attempt: m.Attempt}
}

func (e *reader) wants(verb turns.Verb, attempt string) {
	e.Helper()
	if m := e.move(); m.Verb != verb || m.Attempt != attempt {
		e.Errorf("got %s %s, want %s %s", m.Verb, m.Attempt, verb, attempt)
	}
}

func TestEventsTellWhatMoves(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		y := tellOn(t, rdb)
		all, one := y.listen("/events"), y.listen("/events?thread=fix~2")
		y.claim(y.task("other", "not this"))
		r := y.claim(y.task("fix", "mend it"))
		y.start(r)
		all.wants(turns.VerbOpen, "other/1.1")
		all.wants(turns.VerbClaim, "other/1.1")
		for _, e := range []*reader{all, one} {
			e.wants(turns.VerbOpen, "fix/1.1")
			e.wants(turns.VerbClaim, "fix/1.1")
			e.wants(turns.VerbStart, "fix/1.1")
		}
	})
}

// One reader serves all browsers: more of them ask Redis for nothing more.
func TestManyBrowsersAreOneReader(t *testing.T) {
	server := redistest.Start(t)
	count := &redistest.Counter{}
	y := tellOn(t, redistest.WithHooks(t, server.Client(), count))
	first := y.listen("/events")
	count.Reset()
	var readers []*reader
	for range 20 {
		readers = append(readers, y.listen("/events"))
	}
	if n := count.ByName()["xrevrange"]; n != 0 {
		t.Errorf("20 more browsers asked for the streams' ends %d times", n)
	}
	e := y.task("fix", "mend it")
	for _, r := range append(readers, first) {
		r.wants(turns.VerbOpen, e.Attempt)
	}
	if n := count.ByName()["xread"]; n > 3 {
		t.Errorf("21 browsers cost %d reads of the streams for one move", n)
	}
}

func TestABrowserThatIsTooSlowIsLetGo(t *testing.T) {
	y := tell(t)
	m := newMoves(y.s, nil)
	m.stop = func() {}
	slow := &listener{make(chan turns.Entry, 2)}
	m.listeners[slow] = true
	m.tell(y.ctx, []turns.Entry{{Turn: "a/1"}, {Turn: "a/2"}, {Turn: "a/3"}, {Turn: "a/4"}})
	if len(m.listeners) != 0 {
		t.Error("it is still told")
	}
	n := 0
	for range slow.moves {
		n++
	}
	if n != 2 {
		t.Errorf("%d moves before the end", n)
	}
}

func TestThereIsABoundOfBrowsers(t *testing.T) {
	y := tell(t)
	m := newMoves(y.s, nil)
	var first *listener
	for i := range maxListeners {
		l, err := m.listen(y.ctx)
		y.must(err)
		if i == 0 {
			first = l
		}
	}
	if l, err := m.listen(y.ctx); l != nil || err != nil {
		t.Errorf("one more: %v, %v", l, err)
	}
	m.leave(first)
	m.leave(first)
	if l, err := m.listen(y.ctx); l == nil || err != nil {
		t.Errorf("after one has left: %v, %v", l, err)
	}
	for l := range m.listeners {
		m.leave(l)
	}
}

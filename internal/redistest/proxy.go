package redistest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Link is a network path between clients, also in other processes, and one
// server. See Proxy.
type Link struct {
	Addr string // where clients connect

	target   string
	listener net.Listener
	pumps    sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	cut     bool
	hole    bool
	closed  bool
	delay   time.Duration
	pairs   map[*pair]bool
}

// pair is one client's connection and its connection to the server.
type pair struct {
	client, server net.Conn
	dead           bool
}

// Proxy starts a TCP proxy in front of target (host:port). It ends with the test.
func Proxy(t testing.TB, target string) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{Addr: listener.Addr().String(), target: target, listener: listener, pairs: map[*pair]bool{}}
	l.changed = sync.NewCond(&l.mu)
	l.pumps.Go(l.accept)
	t.Cleanup(l.close)
	return l
}

// URL returns the link's address as the programs take it.
func (l *Link) URL() string { return "redis://" + l.Addr + "/0" }

// Cut resets all connections and every new one, until Mend.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	l.breakAll()
}

// BlackHole lets nothing through in either direction and closes nothing, until
// Mend. What was sent meanwhile arrives then, late, as on a real network, also
// when its sender has given up.
func (l *Link) BlackHole() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hole = true
}

// Delay holds every packet back for d; 0 ends that.
func (l *Link) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// Mend ends Cut and BlackHole.
func (l *Link) Mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut, l.hole = false, false
	l.changed.Broadcast()
}

// Connections returns how many clients are connected.
func (l *Link) Connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pairs)
}

func (l *Link) close() {
	_ = l.listener.Close()
	l.mu.Lock()
	l.closed = true
	l.breakAll()
	l.mu.Unlock()
	l.pumps.Wait()
}

// breakAll closes all connections; the caller holds the lock.
func (l *Link) breakAll() {
	for p := range l.pairs {
		p.dead = true
		reset(p.client)
		reset(p.server)
	}
	clear(l.pairs)
	l.changed.Broadcast()
}

func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func (l *Link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		l.pumps.Go(func() { l.join(client) })
	}
}

// join connects a client to the server and carries bytes until one side ends.
func (l *Link) join(client net.Conn) {
	server, err := net.Dial("tcp", l.target)
	if err != nil {
		reset(client)
		return
	}
	p := &pair{client: client, server: server}
	l.mu.Lock()
	if l.cut || l.closed {
		l.mu.Unlock()
		reset(client)
		reset(server)
		return
	}
	l.pairs[p] = true
	l.mu.Unlock()

	var both sync.WaitGroup
	both.Go(func() { l.pump(p, client, server) })
	both.Go(func() { l.pump(p, server, client) })
	both.Wait()
	l.mu.Lock()
	delete(l.pairs, p)
	l.mu.Unlock()
	_ = client.Close()
	_ = server.Close()
}

// pump carries one direction. The end of a side is passed on after what it sent.
func (l *Link) pump(p *pair, from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !l.pass(p) {
			return
		}
		if _, werr := to.Write(buf[:n]); werr != nil && err == nil {
			_ = from.(*net.TCPConn).CloseRead()
			return
		}
		if err != nil {
			_ = to.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

// pass waits as long as the link holds packets back. False: the pair is gone.
func (l *Link) pass(p *pair) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.delay > 0 && !p.dead {
		delay := l.delay
		l.mu.Unlock()
		time.Sleep(delay)
		l.mu.Lock()
	}
	for l.hole && !p.dead {
		l.changed.Wait()
	}
	return !p.dead
}

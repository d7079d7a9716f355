package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// startLimit bounds the wait for a server that was started. It is generous
// because the machine may be busy; reaching it fails the test.
const startLimit = 30 * time.Second

// Option changes how Start runs its server.
type Option func(*settings)

type settings struct {
	config [][2]string
}

// AppendOnly keeps an append-only file, so that a restart finds what was
// written. Without AppendFsync it is synced every second.
func AppendOnly() Option { return Config("appendonly", "yes") }

// AppendFsync says when the append-only file is synced: always, everysec or no.
func AppendFsync(mode string) Option { return Config("appendfsync", mode) }

// Config sets one directive of redis.conf; of two with one name the later wins.
func Config(name, value string) Option {
	return func(s *settings) { s.config = append(s.config, [2]string{name, value}) }
}

// Server is a real redis-server that belongs to one test. Its methods fail the
// test instead of returning errors, so they are for the test's own goroutine.
type Server struct {
	Addr string // host:port on the loopback, the same after every restart

	t       testing.TB
	program string
	dir     string
	config  [][2]string
	sentry  bool // started as redis-sentinel, which needs its configuration in a file
	proc    *process
}

// Start starts a redis-server without snapshots, and without an append-only
// file unless an option asks for it. It is empty and answers when Start returns.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	program := Require(t, "redis-server")
	var set settings
	for _, opt := range opts {
		opt(&set)
	}
	s := &Server{t: t, program: program, dir: t.TempDir(), config: set.config}
	s.startAnywhere()
	t.Cleanup(s.end)
	return s
}

// Require returns the path of a program that a test can't do without. When it
// is missing the test is skipped, or fails if ROTA_REQUIRE_REDIS is 1. With
// ROTA_MINIREDIS_ONLY=1 the test is skipped in any case.
func Require(t testing.TB, program string) string {
	t.Helper()
	if os.Getenv("ROTA_MINIREDIS_ONLY") == "1" {
		t.Skipf("%s is not wanted: ROTA_MINIREDIS_ONLY is 1", program)
	}
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	const hint = "%s is not on the PATH; install it (Debian: apt-get install redis-server redis-sentinel)"
	if os.Getenv("ROTA_REQUIRE_REDIS") == "1" {
		t.Fatalf(hint, program)
	}
	t.Skipf(hint, program)
	return ""
}

// startAnywhere starts the server on a port of its own choice. A free port can
// be taken by somebody else before the server binds it; then it takes another.
func (s *Server) startAnywhere() {
	s.t.Helper()
	var err error
	for range 10 {
		s.Addr = fmt.Sprintf("127.0.0.1:%d", freePort(s.t))
		if err = s.launch(); err == nil {
			return
		}
	}
	s.t.Fatalf("start %s: %v\n%s", s.program, err, s.logTail())
}

// launch starts the process and waits until this very process answers.
func (s *Server) launch() error {
	args, err := s.arguments()
	if err != nil {
		return err
	}
	s.proc, err = spawn(s.program, s.dir, args)
	if err != nil {
		return err
	}
	if err := s.waitAnswer(); err != nil {
		s.proc.kill()
		return err
	}
	return nil
}

// arguments writes the configuration file and returns the command line. The
// file is written once: Sentinel and CONFIG REWRITE keep their state in it.
func (s *Server) arguments() ([]string, error) {
	_, port, _ := strings.Cut(s.Addr, ":")
	path := filepath.Join(s.dir, "redis-"+port+".conf")
	if _, err := os.Stat(path); err != nil {
		var b strings.Builder
		fmt.Fprintf(&b, "bind 127.0.0.1\nport %s\ndir %q\nlogfile %q\nprotected-mode no\n",
			port, s.dir, filepath.Join(s.dir, "redis.log"))
		if !s.sentry {
			b.WriteString("save \"\"\n")
		}
		for _, line := range s.config {
			fmt.Fprintf(&b, "%s %s\n", line[0], line[1])
		}
		if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
			return nil, err
		}
	}
	if s.sentry {
		return []string{path, "--sentinel"}, nil
	}
	return []string{path}, nil
}

// waitAnswer waits until the server answers and proves to be our process, not
// another one that took the port first.
func (s *Server) waitAnswer() error {
	want := fmt.Sprintf("process_id:%d\r\n", s.proc.cmd.Process.Pid)
	deadline := time.Now().Add(startLimit)
	for {
		select {
		case <-s.proc.done:
			return fmt.Errorf("%s ended while starting: %v", s.program, s.proc.err)
		default:
		}
		text, err := ask(s.Addr)
		if err == nil && !strings.Contains(text, want) {
			return fmt.Errorf("another server answers on %s", s.Addr)
		}
		if err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no answer on %s after %s: %v", s.Addr, startLimit, err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// ask returns INFO server of whoever listens there, or an error when nobody
// does or it still reads its append-only file. The plain dial comes first,
// because a client that was refused once answers with that for a second.
func ask(addr string) (string, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return "", err
	}
	_ = conn.Close()
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, PoolSize: 1})
	defer rdb.Close()
	if err := rdb.Ping(context.Background()).Err(); err != nil {
		return "", err
	}
	return rdb.Info(context.Background(), "server").Result()
}

// URL returns the address as the programs take it, redis://host:port/0.
func (s *Server) URL() string { return "redis://" + s.Addr + "/0" }

// Client returns a new client, closed with the test. It has not connected yet,
// so hooks added to it see every connection.
func (s *Server) Client() *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr})
	s.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Stop ends the server as an administrator would (SIGTERM); an append-only file
// is complete afterwards.
func (s *Server) Stop() {
	s.t.Helper()
	s.proc.signal(syscall.SIGCONT)
	s.proc.signal(syscall.SIGTERM)
	select {
	case <-s.proc.done:
	case <-time.After(startLimit):
		s.proc.kill()
		s.t.Fatalf("redis-server on %s did not end after SIGTERM", s.Addr)
	}
}

// Kill9 ends the server with SIGKILL and waits until it is gone.
func (s *Server) Kill9() { s.proc.kill() }

// Restart stops the server if it still runs and starts it again on the same
// address and files. It holds what its append-only file holds.
func (s *Server) Restart() {
	s.t.Helper()
	if s.Running() {
		s.Stop()
	}
	var err error
	for range 10 {
		if err = s.launch(); err == nil {
			return
		}
	}
	s.t.Fatalf("restart redis-server on %s: %v\n%s", s.Addr, err, s.logTail())
}

// Running reports whether the process exists; a paused one does.
func (s *Server) Running() bool {
	select {
	case <-s.proc.done:
		return false
	default:
		return true
	}
}

// Pause freezes the process (SIGSTOP): connections stay open, nothing answers.
func (s *Server) Pause() { s.proc.signal(syscall.SIGSTOP) }

// Continue ends a Pause.
func (s *Server) Continue() { s.proc.signal(syscall.SIGCONT) }

// ConfigSet changes the running server's configuration, such as maxmemory.
func (s *Server) ConfigSet(name, value string) {
	s.t.Helper()
	s.do("config", "set", name, value)
}

// ScriptFlush makes the server forget all scripts, as a restart does.
func (s *Server) ScriptFlush() {
	s.t.Helper()
	s.do("script", "flush", "sync")
}

// do sends one command on a connection of its own.
func (s *Server) do(args ...any) any {
	s.t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, PoolSize: 1})
	defer rdb.Close()
	reply, err := rdb.Do(context.Background(), args...).Result()
	if err != nil {
		s.t.Fatalf("%v on %s: %v", args, s.Addr, err)
	}
	return reply
}

// end is the clean-up: nothing of the server needs to be kept.
func (s *Server) end() {
	if s.t.Failed() {
		s.t.Logf("redis-server on %s, end of its log:\n%s", s.Addr, s.logTail())
	}
	s.proc.kill()
}

// logTail returns the last lines of the server's log for a failed test.
func (s *Server) logTail() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "redis.log"))
	if len(text) > 2000 {
		text = text[len(text)-2000:]
	}
	return string(text)
}

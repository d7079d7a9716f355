package redistest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestEachGivesAnEmptyServerOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for range 2 {
		Each(t, func(t *testing.T, rdb redis.UniversalClient) {
			ctx := context.Background()
			seen[rdb.(*redis.Client).Options().Addr] = true
			if n := rdb.DBSize(ctx).Val(); n != 0 {
				t.Fatalf("a new server holds %d keys", n)
			}
			if err := rdb.Set(ctx, "k", "v", 0).Err(); err != nil {
				t.Fatal(err)
			}
		})
	}
	Require(t, "redis-server")
	if len(seen) != 4 {
		t.Fatalf("4 servers wanted, addresses were %v", seen)
	}
}

func TestRestartKeepsWhatTheAppendOnlyFileHolds(t *testing.T) {
	for _, kill := range []bool{false, true} {
		ctx := context.Background()
		s := Start(t, AppendOnly(), AppendFsync("always"))
		rdb, addr := s.Client(), s.Addr
		if err := rdb.Set(ctx, "k", "v", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if kill {
			s.Kill9()
			if s.Running() {
				t.Fatal("runs after Kill9")
			}
		}
		s.Restart()
		if got := rdb.Get(ctx, "k").Val(); got != "v" || s.Addr != addr {
			t.Fatalf("kill=%v: k = %q on %s, want v on %s", kill, got, s.Addr, addr)
		}
	}
}

func TestRestartWithoutAppendOnlyFileIsEmpty(t *testing.T) {
	ctx := context.Background()
	s := Start(t)
	rdb := s.Client()
	if err := rdb.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	if err := rdb.Get(ctx, "k").Err(); !errors.Is(err, redis.Nil) {
		t.Fatalf("get after restart: %v, want redis.Nil", err)
	}
}

func TestPausedServerAnswersAfterContinue(t *testing.T) {
	s := Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, ReadTimeout: 50 * time.Millisecond, ContextTimeoutEnabled: true})
	defer rdb.Close()
	ctx := context.Background()
	if err := rdb.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	s.Pause()
	if err := rdb.Ping(ctx).Err(); err == nil {
		t.Fatal("a paused server answered")
	}
	s.Continue()
	if err := s.Client().Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	s.Pause() // the clean-up must end a paused server too
}

func TestConfigSetAndScriptFlush(t *testing.T) {
	ctx := context.Background()
	s := Start(t)
	rdb := s.Client()
	sha := rdb.ScriptLoad(ctx, "return 1").Val()
	s.ScriptFlush()
	if err := rdb.EvalSha(ctx, sha, nil).Err(); !redis.HasErrorPrefix(err, "NOSCRIPT") {
		t.Fatalf("after the flush: %v", err)
	}
	s.ConfigSet("maxmemory-policy", "noeviction")
	s.ConfigSet("maxmemory", "1")
	if err := rdb.Set(ctx, "k", "v", 0).Err(); !redis.HasErrorPrefix(err, "OOM") {
		t.Fatalf("out of memory: %v", err)
	}
}

// TestServerDiesWithAKilledTest runs this test binary again, kills it, and
// looks whether its server is gone too.
func TestServerDiesWithAKilledTest(t *testing.T) {
	Require(t, "redis-server")
	if os.Getenv("REDISTEST_CHILD") == "1" {
		_, _ = os.Stdout.WriteString(Start(t).Addr + "\n")
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestServerDiesWithAKilledTest$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), "REDISTEST_CHILD=1", "TMPDIR="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimSpace(string(line[:n]))
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
	defer rdb.Close()
	if err := rdb.Ping(context.Background()).Err(); err != nil {
		t.Fatalf("the child's server on %s: %v", addr, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	deadline := time.Now().Add(startLimit)
	for rdb.Ping(context.Background()).Err() == nil {
		if time.Now().After(deadline) {
			t.Fatalf("the server on %s outlived its test", addr)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestMissingProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("ROTA_REQUIRE_REDIS", "")
	t.Setenv("ROTA_MINIREDIS_ONLY", "")
	t.Run("skips", func(t *testing.T) {
		t.Cleanup(func() {
			if !t.Skipped() {
				t.Error("not skipped")
			}
		})
		Require(t, "redis-server")
	})
	t.Setenv("ROTA_REQUIRE_REDIS", "1")
	fake := &recorder{TB: t}
	func() {
		defer func() { _ = recover() }()
		Require(fake, "redis-server")
	}()
	if !fake.fatal {
		t.Error("with ROTA_REQUIRE_REDIS=1 a missing program did not fail the test")
	}
}

// recorder is a testing.TB that notes a Fatalf instead of failing.
type recorder struct {
	testing.TB
	fatal bool
}

func (r *recorder) Fatalf(string, ...any) { r.fatal = true; panic("fatal") }

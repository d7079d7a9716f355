package credentials

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
)

func TestOneRefreshAtATime(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		var inside, done atomic.Int64
		var wg sync.WaitGroup
		for range 50 {
			f := newFleet(t, redistest.WithHooks(t, rdb)) // each a process of its own
			wg.Go(func() {
				err := f.Refresh(context.Background(), "work", func(ctx context.Context) error {
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d refresh at once", n)
					}
					defer inside.Add(-1)
					done.Add(1)
					return ctx.Err()
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if done.Load() != 50 {
			t.Errorf("%d refreshed", done.Load())
		}
	})
}

func TestARefreshIsBounded(t *testing.T) {
	server, rdb := redistest.MiniServer(t)
	f := newFleet(t, rdb)
	held, free := make(chan struct{}), make(chan struct{})
	over := make(chan error, 1)
	go func() {
		over <- f.Refresh(context.Background(), "work", func(ctx context.Context) error {
			deadline, ok := ctx.Deadline()
			if left := server.TTL(refreshKey("work")); !ok || time.Until(deadline) >= left {
				t.Errorf("may work until %v, the lock goes in %v", deadline, left)
			}
			close(held)
			<-free
			return nil
		})
	}()
	<-held
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	never := func(context.Context) error { t.Error("two at once"); return nil }
	if err := f.Refresh(ctx, "work", never); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if err := f.Refresh(context.Background(), "spare", func(context.Context) error { return fs.ErrInvalid }); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("another login's refresh: %v", err)
	}
	// The holder is stopped beyond its lock: another goes on, and the late one frees nothing of it.
	server.FastForward(refreshLock)
	must(t, f.Refresh(context.Background(), "work", func(context.Context) error {
		close(free)
		must(t, <-over)
		if !server.Exists(refreshKey("work")) {
			t.Error("the late one took the lock away")
		}
		return nil
	}))
	if server.Exists(refreshKey("work")) {
		t.Error("the lock stays")
	}
}

// A command may cost a person's touch or a refresh: it runs once for a while.
func TestACommandRunsSeldom(t *testing.T) {
	rdb := redistest.Mini(t)
	count := filepath.Join(t.TempDir(), "count")
	c, err := New(rdb, Config{
		Services:    map[string]Service{"codex": {Agent: "codex", Credentials: []string{"vault"}}},
		Credentials: map[string]Source{"vault": {Command: []string{"sh", "-c", "echo x >> " + count + "; echo " + secret}}},
	})
	must(t, err)
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			choice, err := c.Pick(context.Background(), "codex", fmt.Sprint(i))
			if err != nil {
				t.Error(err)
				return
			}
			if env, err := choice.Load(context.Background()); err != nil || env["CODEX_API_KEY"] != secret {
				t.Error("wrong login ", err)
			}
		})
	}
	wg.Wait()
	if text, _ := os.ReadFile(count); string(text) != "x\n" {
		t.Errorf("it ran %d times", len(text)/2)
	}
}

// go-redis sends a script again when its reply was lost: every script may run
// twice, and says the same.
func TestEveryScriptMayRunTwice(t *testing.T) {
	ctx := context.Background()
	play := func(t *testing.T, f *fleet) string {
		var story strings.Builder
		first := f.take("codex")
		v := f.fail(first, &turns.Failure{Class: turns.ClassRateLimited, RetryAfter: time.Millisecond})
		fmt.Fprintln(&story, v.State)
		waitUntil(t, func() bool {
			all, err := f.Usable(ctx, "codex")
			return err == nil && all[0].None == nil
		})
		probe := f.take("codex")
		fmt.Fprintln(&story, probe.Probe)
		f.fail(probe, crash)
		fmt.Fprintln(&story, f.state("codex", "credential").Failures)
		_, err := f.Clear(ctx, "codex")
		must(t, err)
		f.fail(f.take("codex"), dead)
		must(t, os.WriteFile(f.files["codex"], []byte(secret+"new"), 0o600))
		_, err = f.Changed(ctx)
		must(t, err)
		probe = f.take("codex")
		f.succeed(probe)
		must(t, f.Refresh(ctx, "codex", func(context.Context) error { return nil }))
		r := f.state("codex", "credential")
		fmt.Fprintln(&story, r.State, r.Failures, f.take("codex").Probe)
		return story.String()
	}
	want := play(t, newFleet(t, redistest.Mini(t)))
	for _, s := range []*script{saltScript, pickScript, failScript, succeedScript, clearScript, changedScript, readScript, lockScript, unlockScript} {
		t.Run(s.name, func(t *testing.T) {
			source := redistest.Start(t).Client()
			loss := redistest.LostReply(func(args []string) bool {
				return len(args) > 1 && strings.HasPrefix(strings.ToLower(args[0]), "eval") && strings.Contains(args[1], "-- "+s.name+":")
			}, 1)
			got := play(t, newFleet(t, redistest.WithHooks(t, source, loss)))
			if loss.Hits() == 0 {
				t.Fatal("no reply was lost")
			}
			if got != want {
				t.Errorf("with a lost reply:\n%swant:\n%s", got, want)
			}
		})
	}
}

// Redis, lists, errors and logs know ids and hashes, no login.
func TestNoSecretLeavesTheHouse(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		f := newFleet(t, rdb)
		var said bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&said, nil))
		say := func(v ...any) {
			fmt.Fprintf(&said, "%v %+v %#v\n", v, v, v)
			log.Info("said", "v", v)
		}
		for _, failure := range []*turns.Failure{quota, unauthorized, dead, perMinute, crash,
			{Class: turns.ClassAuth, Message: "bad key " + secret, Dead: true, Scope: "organisation"}} {
			for _, service := range []string{"claude", "opus", "codex", "own"} {
				choice, err := f.Pick(ctx, service, turns.NewToken())
				say(choice, err)
				if err == nil {
					v, err := f.Failed(ctx, choice, failure)
					say(v, err)
				}
			}
		}
		must(t, os.WriteFile(f.files["spare"], []byte(secret+" broken"), 0o600))
		_, err := f.Pick(ctx, "claude", "r")
		say(err)
		all, err := f.List(ctx)
		must(t, err)
		say(all)
		stored := dump(t, rdb)
		for where, text := range map[string]string{"redis": stored, "what was said": said.String()} {
			if strings.Contains(text, "sk-fake") || strings.Contains(text, "4711") {
				t.Errorf("%s holds a login:\n%s", where, text)
			}
		}
		if !strings.Contains(stored, "credential/work") {
			t.Errorf("the dump shows nothing:\n%s", stored)
		}
	})
}

// dump prints everything in a Redis.
func dump(t *testing.T, rdb redis.UniversalClient) string {
	t.Helper()
	ctx := context.Background()
	keys, err := rdb.Keys(ctx, "*").Result()
	must(t, err)
	var out strings.Builder
	for _, key := range keys {
		if !strings.HasPrefix(key, prefixKey) {
			t.Errorf("a key of another kind: %s", key)
		}
		kind := rdb.Type(ctx, key).Val()
		var value any
		switch kind {
		case "hash":
			value = rdb.HGetAll(ctx, key).Val()
		case "set":
			value = rdb.SMembers(ctx, key).Val()
		case "zset":
			value = rdb.ZRangeWithScores(ctx, key, 0, -1).Val()
		default:
			value = rdb.Get(ctx, key).Val()
		}
		fmt.Fprintln(&out, key, kind, value)
	}
	return out.String()
}

// A Redis that is away is no reason to say that a login is missing.
func TestRedisAway(t *testing.T) {
	server, rdb := redistest.MiniServer(t)
	f := newFleet(t, rdb)
	server.Close()
	_, err := f.Pick(context.Background(), "claude", "r")
	if _, isNone := errors.AsType[*None](err); err == nil || isNone {
		t.Errorf("got %v", err)
	}
	if _, err := f.Usable(context.Background(), "claude"); err == nil {
		t.Error("usable without Redis")
	}
}

func TestScriptHeaders(t *testing.T) {
	files, err := fs.Glob(scriptFiles, "scripts/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	argument := regexp.MustCompile(`\b(KEYS|ARGV)\[\d+\]`)
	for _, file := range files {
		text, err := fs.ReadFile(scriptFiles, file)
		must(t, err)
		name := strings.TrimSuffix(filepath.Base(file), ".lua")
		var header, body []string
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "--") && len(body) == 0 {
				header = append(header, line)
			} else {
				body = append(body, line)
			}
		}
		top := strings.Join(header, "")
		if !strings.HasPrefix(top, "-- "+name+": ") || !strings.Contains(top, "-- KEYS[") || !strings.Contains(top, "-- Answers: {") {
			t.Errorf("%s: the header wants purpose, keys and answers", file)
		}
		for _, used := range argument.FindAllString(strings.Join(body, ""), -1) {
			ranged := used[:5] + "1..]" // a list explains its members
			if !strings.Contains(top, used) && !strings.Contains(top, ranged) && !regexp.MustCompile(`\[\d+\.\.\d*\]|\[\d* ?\+`).MatchString(top) {
				t.Errorf("%s: the header does not explain %s", file, used)
			}
		}
	}
}

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"rota/internal/presence"
	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"enqueue": main})
}

var scriptCrew = turns.Crew{
	turns.Owner:    {Services: []string{"codex-main", "codex-spare"}},
	turns.Reviewer: {Services: []string{"claude", "codex-review"}},
	turns.Arbiter:  {Services: []string{"claude"}},
}

const scriptConfig = `services:
  codex-main:   {agent: codex}
  codex-spare:  {agent: codex}
  claude:       {agent: claude, credentials: [work]}
  codex-review: {agent: command, command: ["./review.sh"]}
roles:
  owner:    {services: [codex-main, codex-spare]}
  reviewer: {services: [claude, codex-review]}
  arbiter:  {services: [claude]}
credentials:
  work: {env: ROTA_TEST_LOGIN}
`

// TestStories plays testdata/*.txt, each with a Redis and a worker of its own.
// "exits N" runs a command and wants this exit code.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
				t.Parallel()
				url := "redis://" + rdb.(*redis.Client).Options().Addr + "/0"
				startWorker(t, rdb)
				testscript.Run(t, testscript.Params{
					Files: []string{file},
					Setup: func(env *testscript.Env) error {
						env.Setenv("ROTA_REDIS", url)
						env.Setenv("GORACE", "atexit_sleep_ms=0") // else each command ends a second later
						env.Setenv("ROTA_TEST_LOGIN", "sk-fake-not-a-secret")
						env.Setenv("XDG_CACHE_HOME", filepath.Join(env.WorkDir, "cache"))
						env.Setenv("REDIS_ADDR", rdb.(*redis.Client).Options().Addr)
						env.Setenv("PID", strconv.Itoa(os.Getpid()))
						return os.WriteFile(filepath.Join(env.WorkDir, "rota.yaml"), []byte(scriptConfig), 0o600)
					},
					Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "eventually": eventually},
				})
			})
		})
	}
}

// exits runs a command and compares its exit code: exits 5 enqueue …
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND …")
	}
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		code = e.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// eventually repeats a command until it succeeds.
func eventually(ts *testscript.TestScript, _ bool, args []string) {
	for deadline := time.Now().Add(60 * time.Second); ; {
		err := ts.Exec(args[0], args[1:]...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%v", err)
		}
	}
}

// startWorker plays the worker: a task whose text says "play: done approve done"
// gets these outcomes, turn by turn; fail lets the turn fail, dead lets it die as
// a dead letter, hold runs it for ever and wait lets it wait for a login. A turn
// without a word stays queued.
func startWorker(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan, Crew: scriptCrew})
	if err != nil {
		t.Fatal(err)
	}
	announce(t, ctx, rdb)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			announce(t, ctx, rdb)
			for shard := range s.Shards() {
				open, _ := s.OpenTurns(ctx, shard, 0)
				for _, id := range open {
					if err := playTurn(ctx, s, id); err != nil && ctx.Err() == nil {
						t.Errorf("worker: %v", err)
					}
				}
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// announce says that the worker serves two of the services.
func announce(t *testing.T, ctx context.Context, rdb redis.UniversalClient) {
	for _, service := range []string{"codex-main", "claude"} {
		if err := presence.Announce(ctx, rdb, service, "w1"); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}
}

func playTurn(ctx context.Context, s *store.Store, id string) error {
	r, err := s.Records(ctx, id, 0)
	if err != nil || r.Attempt.State != turns.Queued || r.Attempt.Cause == turns.CauseWait {
		return ignore(err)
	}
	word, err := wordOf(ctx, s, r)
	if err != nil || word == "" {
		return err
	}
	a, err := s.Claim(ctx, store.Claim{Attempt: r.Attempt.ID, Service: r.Attempt.Service, Role: r.Turn.Role, Intent: r.Turn.Intent,
		Stamp: r.Attempt.Stamp, Run: turns.NewToken(), Worker: "w1", Agent: "scripted"})
	if err != nil || a.Answer != store.Claimed {
		return err
	}
	failure := turns.Ending{State: turns.Failed, Class: turns.ClassCrash, Error: "the agent crashed", Reason: "it crashed"}
	switch word {
	case "dead":
		_, err = s.Compensate(ctx, a.Run, failure)
		return ignore(err)
	case "wait":
		_, err = s.Replace(ctx, a.Run, store.Successor{Service: r.Attempt.Service, Cause: turns.CauseWait, Reason: "needs_login", Delay: time.Hour,
			Class: turns.ClassAuth, Error: "401"})
		return ignore(err)
	}
	if err := s.Start(ctx, a.Run, "", "", "tree"); err != nil {
		return ignore(err)
	}
	if word == "hold" {
		_, err = s.Item(ctx, a.Run, turns.Item{ID: "q1", Kind: turns.ItemRequest, State: turns.ItemOpen, Turn: id, Title: "may I?"})
		return ignore(err)
	}
	if word != "fail" {
		failure = turns.Ending{State: turns.Completed, Outcome: turns.Outcome(word), Text: "said " + word, Tree: "tree"}
	}
	_, err = s.Settle(ctx, a.Run, failure)
	return ignore(err)
}

// ignore: a person's command came first.
func ignore(err error) error {
	if store.Refused(err) {
		return nil
	}
	return err
}

// wordOf returns what a turn is to play: the n-th word for the n-th turn of a
// paired task, of its own prompt for a lone or repeated turn.
func wordOf(ctx context.Context, s *store.Store, r store.Records) (string, error) {
	from, n := r.Turn.ID, 0
	if r.Turn.Paired != "" {
		_, first, err := turns.ParseTurn(r.Paired.First)
		if err != nil {
			return "", err
		}
		from, n = r.Paired.First, r.Turn.Number-first
	}
	text, err := s.Prompt(ctx, from)
	if err != nil {
		return "", err
	}
	_, play, ok := strings.Cut(text, "play: ")
	words := strings.Fields(play)
	if !ok || n >= len(words) {
		return "", nil
	}
	return words[n], nil
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

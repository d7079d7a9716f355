package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// Beside a turn that waits and a run whose lease runs out, chaos keeps every promise,
// leaves both as they were, and removes what it brought.
func TestChaosLeavesTheDeploymentAlone(t *testing.T) {
	if testing.Short() {
		t.Skip("a campaign takes some seconds")
	}
	server := redistest.Start(t)
	rdb := server.Client()
	neighbours(t, rdb)
	program := filepath.Join(t.TempDir(), "worker")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	before := contents(t, rdb)
	cmd := exec.CommandContext(t.Context(), program, "chaos", "--minutes", "0.1", "--seed", "3", "--redis", server.URL())
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range []string{`(?m)^ +[1-9]\d* tasks, `, `(?m)^ +[1-9]\d* runs$`, `(?m)^ +[1-9]\d* worker killed$`, `(?m)^violations: 0$`} {
		if !regexp.MustCompile(line).Match(out) {
			t.Errorf("the report has no line %s:\n%s", line, out)
		}
	}
	after := contents(t, rdb)
	for key, value := range before {
		if got, ok := after[key]; !shared.MatchString(key) && (!ok || got != value) {
			t.Errorf("%s was changed", key)
		}
	}
	for key := range after {
		if _, old := before[key]; !old && !shared.MatchString(key) && !left.MatchString(key) {
			t.Errorf("%s was left", key)
		}
	}
}

// shared are keys that every worker of a deployment writes to, left are those that
// a campaign leaves: counters of its threads, and command ids, which expire.
var (
	shared = regexp.MustCompile(`^rota:\{s\d\d\}:(clock|stream)$|^rota:\{credentials\}:used$|^asynq:(servers|workers)(:|$)`)
	left   = regexp.MustCompile(`^rota:\{s\d\d\}:(thread|command):chaos-[0-9a-f]{6}-\d+(:|$)`)
)

// neighbours are threads of the deployment that its own workers would mend at once.
func neighbours(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	ctx := context.Background()
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan})
	if err != nil {
		t.Fatal(err)
	}
	limits := turns.Limits{Lease: 2 * time.Second}
	for _, thread := range []string{"waits", "dead"} {
		o, err := s.OpenTurn(ctx, store.NewTurn{Command: "c", Thread: thread, Role: turns.Owner, Intent: turns.Work, Prompt: "do it",
			Seat: turns.Seat{Services: []string{"codex-main"}, Limits: limits}})
		if err != nil {
			t.Fatal(err)
		}
		if thread == "waits" {
			continue
		}
		e := o.Outbox
		a, err := s.Claim(ctx, store.Claim{Attempt: e.Attempt, Service: e.Service, Role: e.Role, Intent: e.Intent, Stamp: e.Stamp, Run: "run-1"})
		if err != nil || a.Answer != store.Claimed {
			t.Fatal(a, err)
		}
	}
}

// contents is every key with its serialized value.
func contents(t *testing.T, rdb redis.UniversalClient) map[string]string {
	t.Helper()
	all := map[string]string{}
	for scan := rdb.Scan(t.Context(), 0, "*", 1000).Iterator(); scan.Next(t.Context()); {
		value, err := rdb.Dump(t.Context(), scan.Val()).Result()
		if err != nil && err != redis.Nil {
			t.Fatal(err)
		}
		all[scan.Val()] = value
	}
	return all
}

// The judge of the moves sees two runs at once, a fence that does not grow and a
// run without an end, and nothing wrong in a loss.
func TestChaosJudgesRuns(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	move := func(verb turns.Verb, attempt string, to turns.State, fence int64) turns.Entry {
		return turns.Entry{At: at.Add(time.Duration(fence) * time.Second), Verb: verb, Attempt: attempt, To: to, Fence: fence}
	}
	claim := func(attempt string, fence int64) turns.Entry {
		return move(turns.VerbClaim, attempt, turns.Starting, fence)
	}
	lose, settle := turns.VerbLose, turns.VerbSettle
	for name, c := range map[string]struct {
		log  []turns.Entry
		want string
	}{
		"a loss":            {[]turns.Entry{claim("a/1.1", 1), move(lose, "a/1.1", turns.Lost, 1), claim("a/1.2", 2), move(settle, "a/1.2", turns.Completed, 2)}, ""},
		"two at once":       {[]turns.Entry{claim("a/1.1", 1), claim("a/1.2", 2), move(settle, "a/1.2", turns.Completed, 2)}, "while a/1.1 ran"},
		"an old fence":      {[]turns.Entry{claim("a/1.1", 2), move(lose, "a/1.1", turns.Lost, 2), claim("a/1.2", 2), move(settle, "a/1.2", turns.Completed, 2)}, "after 2"},
		"a run without end": {[]turns.Entry{claim("a/1.1", 1), move(turns.VerbStart, "a/1.1", turns.Running, 1)}, "has not ended"},
	} {
		r := report{}
		r.runs(c.log, map[string]time.Time{"a/1.1": at})
		if got := strings.Join(r.Violations, "; "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if c.want == "" && (r.Runs != 2 || r.Losses != 1 || r.Recovery != 2*time.Second) {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

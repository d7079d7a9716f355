package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
)

// program runs enqueue in this process, on the Redis of a test.
func program(t *testing.T, rdb redis.UniversalClient) func(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
	t.Helper()
	t.Setenv("ROTA_REDIS", "redis://"+rdb.(*redis.Client).Options().Addr+"/0")
	t.Setenv("ROTA_CONFIG", writeConfig(t))
	t.Setenv("ROTA_TEST_LOGIN", "sk-fake-not-a-secret")
	return func(ctx context.Context, stdout, stderr io.Writer, args ...string) int {
		return (&Main{}).Run(ctx, args, strings.NewReader(""), stdout, stderr)
	}
}

func TestWatchPrintsMovesAsTheyHappen(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		enqueue := program(t, rdb)
		var text bytes.Buffer
		if code := enqueue(t.Context(), &text, &text, "task", "one", "--thread", "seen"); code != 0 {
			t.Fatal(code, text.String())
		}
		for _, args := range [][]string{{"watch", "-o", "jsonl"}, {"watch", "seen", "-o", "json"}, {"watch", "seen/1", "-o", "jsonl"}} {
			ctx, stop := context.WithCancel(t.Context())
			out, stdout := io.Pipe()
			said, stderr := io.Pipe()
			code := make(chan int, 1)
			go func() { code <- enqueue(ctx, stdout, stderr, args...) }()
			if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || !strings.HasPrefix(line, "watching") {
				t.Fatal(line, err)
			}
			verb := "delegate"
			for _, to := range [][]string{{"handoff", "seen", "--to", "codex-spare"}, {"handoff", "seen", "--to", "codex-main"}} {
				enqueue(t.Context(), &text, &text, "task", "noise", "--thread", "other")
				if code := enqueue(t.Context(), &text, &text, to...); code != 0 {
					t.Fatal(code, text.String())
				}
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				var m commands.Move
				if err := json.Unmarshal(lines.Bytes(), &struct {
					*commands.Move
					At string `json:"at"`
				}{Move: &m}); err != nil {
					t.Fatal(lines.Text(), err)
				}
				if m.Turn == "seen/1" && string(m.Verb) == verb {
					break
				}
				if len(args) > 3 {
					t.Fatal("a move of another thread: ", lines.Text())
				}
			}
			stop()
			go func() { _, _ = io.Copy(io.Discard, out) }()
			if got := <-code; got != 0 {
				t.Fatal("watch ended with ", got)
			}
		}
	})
}

// Watching a turn or an attempt ends with it; what has ended before is said at once.
func TestWatchEndsWithItsTurn(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		enqueue := program(t, rdb)
		var text bytes.Buffer
		if code := enqueue(t.Context(), &text, &text, "task", "one", "--thread", "seen"); code != 0 {
			t.Fatal(code, text.String())
		}
		var moves bytes.Buffer
		said, stderr := io.Pipe()
		code := make(chan int, 1)
		go func() { code <- enqueue(t.Context(), &moves, stderr, "watch", "seen/1", "-o", "jsonl") }()
		lines := bufio.NewReader(said)
		if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "watching") {
			t.Fatal(line, err)
		}
		go func() { _, _ = io.Copy(io.Discard, lines) }()
		for _, command := range [][]string{{"handoff", "seen", "--to", "codex-spare"}, {"cancel", "seen"}} {
			if code := enqueue(t.Context(), &text, &text, command...); code != 0 {
				t.Fatal(code, text.String())
			}
		}
		if got := <-code; got != 0 || !strings.Contains(moves.String(), `"to":"cancelled"`) {
			t.Errorf("watch ended with %d after:\n%s", got, moves.String())
		}
		for _, id := range []string{"seen/1", "seen/1.1"} {
			text.Reset()
			if got := enqueue(t.Context(), &text, &text, "watch", id); got != 0 || !strings.Contains(text.String(), id+" has ended") {
				t.Errorf("watch %s ended with %d: %s", id, got, text.String())
			}
		}
	})
}

// What is shown with --watch is shown again when something moved, as lines of JSON
// only what is new.
func TestListsAreShownAgain(t *testing.T) {
	enqueue := program(t, redistest.Mini(t))
	var text bytes.Buffer
	for _, thread := range []string{"stays", "seen"} {
		if code := enqueue(t.Context(), &text, &text, "task", "one", "--thread", thread); code != 0 {
			t.Fatal(code, text.String())
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	out, stdout := io.Pipe()
	code := make(chan int, 1)
	go func() { code <- enqueue(ctx, stdout, io.Discard, "ls", "--watch", "-o", "jsonl") }()
	lines := bufio.NewScanner(out)
	next := func(want string) {
		t.Helper()
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Fatal(lines.Text(), " misses ", want)
		}
	}
	next(`"state":"queued"`)
	next(`"state":"queued"`)
	go enqueue(t.Context(), io.Discard, io.Discard, "cancel", "seen")
	next(`"id":"seen/1"`)
	go enqueue(t.Context(), io.Discard, io.Discard, "cancel", "stays")
	next(`"id":"stays/1"`)
	stop()
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if got := <-code; got != 0 {
		t.Fatal(got)
	}
}

func TestTablesFitTheTerminal(t *testing.T) {
	tab := &table{width: 40, colour: true, rows: [][]string{{"TURN", "STATE", "SAYS"}}}
	tab.add("fix-login/3", "failed", "a long\nreason that does not fit into what is left of the line")
	var b strings.Builder
	tab.print(&b)
	want := "\x1b[1mTURN\x1b[0m         \x1b[1mSTATE\x1b[0m   \x1b[1mSAYS\x1b[0m\nfix-login/3  \x1b[31mfailed\x1b[0m  a long reason that…\n"
	if b.String() != want {
		t.Fatalf("%q\n%q", b.String(), want)
	}
	tab.colour, tab.width = false, 0
	b.Reset()
	tab.print(&b)
	if strings.Contains(b.String(), "\x1b") || !strings.Contains(b.String(), "left of the line") {
		t.Fatal(b.String())
	}
}

func writeConfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rota.yaml")
	writeFile(t, file, scriptConfig)
	return file
}

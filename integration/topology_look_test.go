package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"rota/turns"
)

// buildEnqueue builds the command line once, where ROTA_BIN has none.
var buildEnqueue = sync.OnceValue(func() error {
	built := filepath.Join(cmp.Or(os.Getenv("ROTA_BIN"), "none"), "enqueue")
	if _, err := os.Stat(built); err == nil {
		return os.Symlink(built, program("enqueue"))
	}
	if _, err := os.Stat(program("enqueue")); err == nil {
		return nil
	}
	if out, err := exec.Command("go", "build", "-o", program("enqueue"), "rota/cmd/enqueue").CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
})

// enqueue runs the command line with the rig's configuration and returns its
// output and its exit code.
func (r *rig) enqueue(args ...string) (stdout, stderr string, code int) {
	r.t.Helper()
	if err := buildEnqueue(); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program("enqueue"), append([]string{"--config", r.file}, args...)...)
	cmd.Env = append(clean(), "HOME="+r.dir)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		r.t.Fatalf("enqueue %v: %v", args, err)
	}
	return out.String(), errs.String(), code
}

// says fails the test unless the command succeeds and prints all words.
func (r *rig) says(words []string, args ...string) {
	r.t.Helper()
	out, errs, code := r.enqueue(args...)
	if code != 0 {
		r.t.Errorf("enqueue %v: exit %d\n%s%s", args, code, out, errs)
	}
	for _, word := range words {
		if !strings.Contains(out, word) {
			r.t.Errorf("enqueue %v does not say %q:\n%s%s", args, word, out, errs)
		}
	}
}

// wholeCommandLine uses the command line from end to end: give, wait, look, doubt.
func (r *rig) wholeCommandLine() {
	r.t.Helper()
	r.says([]string{`"schema": 1`, `"state": "completed"`}, "turn", "do it", "--thread", "by-hand", "--role", "owner", "--wait", "-o", "json")
	r.says([]string{"by-hand/1"}, "ls", "-o", "jsonl")
	r.says([]string{`"verb":"settle"`}, "log", "by-hand/1", "-o", "jsonl")
	r.says([]string{"completed"}, "why", "by-hand/1")
	r.says(nil, "verify")
	r.says(nil, "verify", "by-hand")
	r.says(nil, "dead", "ls")
	r.says(nil, "credential", "ls")
	out, errs, _ := r.enqueue("doctor")
	if !strings.Contains(out, "builder") || strings.Contains(out+errs, "unreachable") {
		r.t.Errorf("doctor:\n%s%s", out, errs)
	}
}

// tail follows the moves of all shards, through every interruption.
type tail struct {
	stop context.CancelFunc
	done sync.WaitGroup
	mu   sync.Mutex
	seen map[string]bool // turns whose end was seen
}

func (r *rig) follow() *tail {
	r.t.Helper()
	ctx, stop := context.WithCancel(r.t.Context())
	moves, err := r.store.Tail(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	f := &tail{stop: stop, seen: map[string]bool{}}
	f.done.Go(func() {
		for ctx.Err() == nil {
			list, err := moves.Next(ctx, time.Second)
			if err != nil {
				time.Sleep(50 * time.Millisecond)
			}
			f.mu.Lock()
			for _, m := range list {
				if m.Verb == turns.VerbSettle {
					f.seen[m.Turn] = true
				}
			}
			f.mu.Unlock()
		}
	})
	return f
}

func (f *tail) saw(turn string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen[turn]
}

func (f *tail) end() {
	f.stop()
	f.done.Wait()
}

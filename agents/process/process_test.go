package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rota/agents"
	"rota/agents/guard"
	"rota/agents/process"
	"rota/turns"
)

// The test binary plays the guard, like a worker does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == guard.Command {
		os.Exit(guard.Main(nil))
	}
	os.Exit(m.Run())
}

// bothWays runs a story with a guard and without one.
func bothWays(t *testing.T, story func(t *testing.T, spec process.Spec)) {
	for _, lease := range []*agents.Lease{nil, freshLease()} {
		name := "group"
		if lease != nil {
			name = "guard"
		}
		t.Run(name, func(t *testing.T) {
			story(t, process.Spec{
				Dir: t.TempDir(), Lease: lease,
				Marks: map[string]string{"ROTA_FENCE": "7", "ROTA_ATTEMPT": "a/1.1"},
			})
		})
	}
}

func freshLease() *agents.Lease {
	return &agents.Lease{
		Until:   func() time.Time { return time.Now().Add(time.Minute) },
		Silence: 20 * time.Second,
		Store:   "test-" + turns.NewToken(),
	}
}

func shell(spec process.Spec, script string) process.Spec {
	spec.Argv = []string{"sh", "-c", script}
	return spec
}

func start(t *testing.T, ctx context.Context, spec process.Spec) *process.Process {
	t.Helper()
	p, err := process.Start(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func readAll(t *testing.T, p *process.Process) []string {
	t.Helper()
	var lines []string
	for {
		line, err := p.ReadLine()
		if err == io.EOF {
			return lines
		}
		if err != nil {
			t.Fatalf("after %q: %v", lines, err)
		}
		lines = append(lines, string(line))
	}
}

func TestLinesStdinAndStatus(t *testing.T) {
	bothWays(t, func(t *testing.T, spec process.Spec) {
		spec.Stdin = strings.Repeat("x", 300<<10) + "\nlast"
		p := start(t, t.Context(), shell(spec, `wc -c; printf 'a\r\n\nno end'; echo oops >&2; exit 3`))
		lines := readAll(t, p)
		if want := []string{"307205", "a", "", "no end"}; !slices.Equal(lines, want) {
			t.Errorf("lines %q, want %q", lines, want)
		}
		<-p.Written()
		exit := p.Wait()
		if exit.Code != 3 || exit.Signal != 0 || exit.Err != nil || exit.Stderr != "oops\n" || exit.OK() {
			t.Errorf("exit %+v", exit)
		}
	})
}

func TestOpenStdinSpeaksBothWays(t *testing.T) {
	bothWays(t, func(t *testing.T, spec process.Spec) {
		spec.KeepStdin = true
		p := start(t, t.Context(), shell(spec, `while read l; do echo "got $l"; done; echo end`))
		for _, word := range []string{"one", "two"} {
			if err := p.Write([]byte(word + "\n")); err != nil {
				t.Fatal(err)
			}
			if line, err := p.ReadLine(); err != nil || string(line) != "got "+word {
				t.Fatalf("%q, %v", line, err)
			}
		}
		p.CloseStdin()
		if lines := readAll(t, p); !slices.Equal(lines, []string{"end"}) {
			t.Errorf("lines %q", lines)
		}
		if exit := p.Wait(); !exit.OK() {
			t.Errorf("exit %+v", exit)
		}
	})
}

func TestEnvironmentIsBuiltFromNothing(t *testing.T) {
	t.Setenv("SECRET_OF_THE_WORKER", "sk-fake-not-a-secret")
	bothWays(t, func(t *testing.T, spec process.Spec) {
		spec.Env = map[string]string{"LOGIN": "sk-fake-login", "ROTA_FENCE": "999"}
		p := start(t, t.Context(), shell(spec, "env"))
		seen := map[string]string{}
		for _, line := range readAll(t, p) {
			k, v, _ := strings.Cut(line, "=")
			seen[k] = v
		}
		p.Wait()
		if seen["LOGIN"] != "sk-fake-login" || seen["ROTA_FENCE"] != "7" || seen["TERM"] != "dumb" {
			t.Errorf("environment %v", seen)
		}
		allowed := []string{"HOME", "PATH", "USER", "LOGNAME", "TMPDIR", "LANG", "TERM", "TZ", "LOGIN",
			"ROTA_FENCE", "ROTA_ATTEMPT", "ROTA_STORE", "ROTA_KEEPER", "PWD", "OLDPWD", "SHLVL", "_"}
		for k := range seen {
			if !slices.Contains(allowed, k) {
				t.Errorf("%s reached the agent", k)
			}
		}
	})
}

// What whoever started the worker had left open, such as a lock, stays with the worker.
func TestNoOpenFileOfTheWorkerReachesTheAgent(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/lock-of-the-worker")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	p := start(t, t.Context(), shell(process.Spec{Dir: t.TempDir(), Lease: freshLease()}, "ls -l /proc/self/fd"))
	if open := strings.Join(readAll(t, p), "\n"); !strings.Contains(open, " 0 -> ") || strings.Contains(open, "lock-of-the-worker") {
		t.Errorf("open in the agent:\n%s", open)
	}
	p.Wait()
}

func TestSignalsAndCrash(t *testing.T) {
	bothWays(t, func(t *testing.T, spec process.Spec) {
		p := start(t, t.Context(), shell(spec, "kill -9 $$"))
		if exit := p.Wait(); exit.Signal != 9 || exit.Code != -1 || exit.Err != nil {
			t.Errorf("exit %+v", exit)
		}
	})
}

func TestContextEndsTheProgramWithItsCause(t *testing.T) {
	bothWays(t, func(t *testing.T, spec process.Spec) {
		over := errors.New("fence lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		p := start(t, ctx, shell(spec, "trap '' TERM INT; echo up; sleep 600"))
		if line, err := p.ReadLine(); string(line) != "up" {
			t.Fatal(line, err)
		}
		cancel(over)
		<-p.Ended()
		if _, err := p.ReadLine(); err != over {
			t.Errorf("read: %v", err)
		}
		if exit := p.Wait(); exit.Err != over || exit.Signal != 9 {
			t.Errorf("exit %+v", exit)
		}
		if _, err := process.Start(ctx, shell(spec, "true")); err != over {
			t.Errorf("start under an ended context: %v", err)
		}
	})
}

func TestStopKeepsWhatIsPrintedOnTheWayOut(t *testing.T) {
	bothWays(t, func(t *testing.T, spec process.Spec) {
		p := start(t, t.Context(), shell(spec, "trap 'echo bye; exit 0' INT; echo up; while :; do sleep 0.1; done"))
		p.ReadLine()
		p.Stop(time.Minute)
		if lines := readAll(t, p); !slices.Equal(lines, []string{"bye"}) {
			t.Errorf("lines %q", lines)
		}
		if exit := p.Wait(); !exit.OK() {
			t.Errorf("exit %+v", exit)
		}
	})
}

func TestStopKillsWhoDoesNotListen(t *testing.T) {
	bothWays(t, func(t *testing.T, spec process.Spec) {
		p := start(t, t.Context(), shell(spec, "trap '' INT; echo up; while :; do sleep 1; done"))
		p.ReadLine()
		p.Stop(50 * time.Millisecond)
		if exit := p.Wait(); exit.Err != process.ErrKilled || exit.Signal != 9 {
			t.Errorf("exit %+v", exit)
		}
	})
}

func TestALineBeyondTheBoundIsBadOutput(t *testing.T) {
	bothWays(t, func(t *testing.T, spec process.Spec) {
		spec.MaxLine = 1 << 20
		p := start(t, t.Context(), shell(spec, `head -c 1048576 /dev/zero | tr '\0' x; echo; head -c 2000000 /dev/zero | tr '\0' x; sleep 600`))
		line, err := p.ReadLine()
		if err != nil || !bytes.Equal(line, bytes.Repeat([]byte("x"), 1<<20)) {
			t.Fatalf("a line of just the bound: %d bytes, %v", len(line), err)
		}
		_, err = p.ReadLine()
		if exit := p.Wait(); err != exit.Err || turns.FailureOf(exit.Err).Class != turns.ClassBadOutput {
			t.Errorf("read %v, exit %+v", err, exit)
		}
	})
}

func TestClocks(t *testing.T) {
	bothWays(t, func(t *testing.T, spec process.Spec) {
		t.Run("silence", func(t *testing.T) {
			spec.Silence = 100 * time.Millisecond
			p := start(t, t.Context(), shell(spec, "echo up; sleep 600"))
			p.ReadLine()
			p.Accepted()
			_, err := p.ReadLine()
			if turns.FailureOf(err).Class != turns.ClassStalled || p.Wait().Err != err {
				t.Errorf("read: %v", err)
			}
		})
		t.Run("a slow reader is no silent agent", func(t *testing.T) {
			spec.Silence = 50 * time.Millisecond
			p := start(t, t.Context(), shell(spec, "printf '1\\n2\\n3\\n4\\n'"))
			p.ReadLine()
			p.Accepted()
			time.Sleep(300 * time.Millisecond) // the situation itself: nobody reads
			if lines := readAll(t, p); len(lines) != 3 {
				t.Errorf("lines %q", lines)
			}
			p.Wait()
		})
		t.Run("standard error is a word too", func(t *testing.T) {
			spec.Silence = 2 * time.Second
			p := start(t, t.Context(), shell(spec, "for i in 1 2 3 4 5 6 7 8 9 10; do echo retry >&2; sleep 0.3; done; echo answer"))
			p.Accepted()
			if lines := readAll(t, p); !slices.Equal(lines, []string{"answer"}) {
				t.Errorf("lines %q", lines)
			}
			p.Wait()
		})
		t.Run("closed output", func(t *testing.T) {
			spec.Silence = 100 * time.Millisecond
			p := start(t, t.Context(), shell(spec, "echo up; exec >&- 2>&-; sleep 600"))
			p.ReadLine()
			p.Accepted()
			if exit := p.Wait(); exit.Err == nil || turns.FailureOf(exit.Err).Class != turns.ClassStalled {
				t.Errorf("exit %+v", exit)
			}
		})
		t.Run("start", func(t *testing.T) {
			spec.Silence, spec.Start = 0, 100*time.Millisecond
			p := start(t, t.Context(), shell(spec, "echo up; sleep 600"))
			if exit := p.Wait(); turns.FailureOf(exit.Err).Class != turns.ClassTimeout {
				t.Errorf("exit %+v", exit)
			}
		})
	})
}

func TestOnlyTheTailOfStandardErrorIsKept(t *testing.T) {
	bothWays(t, func(t *testing.T, spec process.Spec) {
		p := start(t, t.Context(), shell(spec, `i=0; while [ $i -lt 3000 ]; do echo "line number $i"; i=$((i+1)); done >&2`))
		exit := p.Wait()
		if n := len(exit.Stderr); n > process.TailSize || n < process.TailSize-100 {
			t.Errorf("%d bytes kept", n)
		}
		if !strings.HasPrefix(exit.Stderr, "line number ") || !strings.HasSuffix(exit.Stderr, "line number 2999\n") {
			t.Errorf("kept %.40q…", exit.Stderr)
		}
	})
}

func TestWhatCannotBeStartedIsConfig(t *testing.T) {
	bothWays(t, func(t *testing.T, spec process.Spec) {
		dir := spec.Dir
		for file, content := range map[string]string{"plain": "#!/bin/sh\n", "noshebang": "echo hi\n", "nointerpreter": "#!/no/such/shell\n"} {
			mode := os.FileMode(0o755)
			if file == "plain" {
				mode = 0o644
			}
			if err := os.WriteFile(dir+"/"+file, []byte(content), mode); err != nil {
				t.Fatal(err)
			}
		}
		for _, program := range []string{"no-such-program", "./no-such-program", "./plain", "./noshebang", "./nointerpreter", "."} {
			spec.Argv = []string{program}
			_, err := process.Start(t.Context(), spec)
			if turns.FailureOf(err).Class != turns.ClassConfig || strings.Contains(fmt.Sprint(err), "\n") {
				t.Errorf("%s: %v", program, err)
			}
		}
		spec = shell(spec, "true")
		spec.Dir = dir + "/gone"
		if _, err := process.Start(t.Context(), spec); turns.FailureOf(err).Class != turns.ClassConfig {
			t.Errorf("folder gone: %v", err)
		}
	})
}

func TestNothingIsHandedOverAfterTheLease(t *testing.T) {
	var over atomic.Bool
	lease := freshLease()
	end := time.Now().Add(time.Hour)
	lease.Until = func() time.Time {
		if over.Load() {
			return time.Now().Add(-time.Second)
		}
		return end
	}
	spec := shell(process.Spec{Dir: t.TempDir(), Lease: lease, KeepStdin: true}, "cat >got")
	p := start(t, t.Context(), spec)
	<-p.Written()
	over.Store(true)
	if err := p.Write([]byte("prompt")); err == nil || turns.FailureOf(err).Class != turns.ClassLost {
		t.Errorf("write: %v", err)
	}
	if exit := p.Wait(); exit.Err == nil || turns.FailureOf(exit.Err).Class != turns.ClassLost {
		t.Errorf("exit %+v", exit)
	}
	if b, _ := os.ReadFile(spec.Dir + "/got"); len(b) > 0 {
		t.Errorf("the program got %q", b)
	}
}

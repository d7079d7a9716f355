package workspaces

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test's own binary be a worker that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("ROTA_TEST_CRASH"); dir != "" {
		crashingWorker(dir, os.Getenv("ROTA_TEST_SOURCE"))
	}
	if path := os.Getenv("ROTA_TEST_HOLD"); path != "" {
		holdingWorker(path)
	}
	os.Exit(m.Run())
}

// holdingWorker takes the lock and runs git for as long as standard input lasts.
func holdingWorker(path string) {
	held, err := lock(context.Background(), path)
	if err == nil {
		_, err = call{dir: filepath.Dir(path), stdin: os.Stdin, locks: []*os.File{held}, args: []string{"hash-object", "--stdin"}}.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// crashingWorker prepares, works, checkpoints and cleans up until it is killed.
// It tells the content of the last file it wrote, once a checkpoint has it.
func crashingWorker(dir, source string) {
	ctx, w := context.Background(), &Workspaces{Dir: dir}
	for n := 0; ; n++ {
		ws, err := w.Prepare(ctx, "t", source)
		if err == nil {
			err = replaceFile(filepath.Join(ws.Path, "work.txt"), fmt.Append(nil, os.Getpid(), n), 0o600)
		}
		if err == nil {
			_, err = w.Checkpoint(ctx, ws, fmt.Sprint("t/", n+1))
		}
		if err == nil {
			fmt.Println(os.Getpid(), n)
			_, err = w.Cleanup(ctx, "t")
		}
		if err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
	}
}

// A worker is killed at any moment; the next one goes on with a whole worktree
// and with what was checkpointed last or later.
func TestKilledAtAnyMoment(t *testing.T) {
	r, w := newRepo(t), newWorkspaces(t)
	ws := prepare(t, w, "t", r.dir)
	want := files(t, ws.Root)
	write(t, ws.Path, "work.txt", "")
	for i := range 25 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "ROTA_TEST_CRASH="+w.Dir, "ROTA_TEST_SOURCE="+r.dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := make(chan string, 1000)
		go func() {
			defer close(lines)
			for scan := bufio.NewScanner(out); scan.Scan(); {
				lines <- scan.Text()
			}
		}()
		last := <-lines
		time.Sleep(time.Duration(i*17%200) * time.Millisecond) // any moment of the next round
		must(t, cmd.Process.Kill())
		for line := range lines {
			last = line
		}
		_ = cmd.Wait()
		var pid, told, have int
		if _, err := fmt.Sscan(last, &pid, &told); err != nil {
			t.Fatalf("the worker says %q", last)
		}
		ws = prepare(t, w, "t", r.dir)
		got := files(t, ws.Root)
		if _, err := fmt.Sscan(read(t, ws.Path, "work.txt"), &pid, &have); err != nil || have < told {
			t.Fatalf("kill %d: round %d was checkpointed, the next worker finds %d", i, told, have)
		}
		delete(got, "work.txt")
		for name := range got { // what the worker's own write left, and its checkpoint kept
			if strings.HasPrefix(name, ".new-") {
				must(t, os.Remove(filepath.Join(ws.Path, name)))
				delete(got, name)
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("kill %d: files %v, want %v", i, got, want)
		}
		if status := userGit(t, ws.Path, "status", "--porcelain", "--branch"); status != "## rota/t\n?? work.txt" {
			t.Fatalf("kill %d: status %q", i, status)
		}
	}
}

// Git goes on for a moment when its worker is killed; until it ends, nobody
// else works on the thread.
func TestGitHoldsTheLockOfAKilledWorker(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	out, in, err := os.Pipe()
	must(t, err)
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), "ROTA_TEST_HOLD="+path)
	worker.Stdin = out
	must(t, worker.Start())
	must(t, out.Close())
	// More than a pipe takes: git is running when this is written.
	_, err = in.Write(make([]byte, 1<<20))
	must(t, err)
	must(t, worker.Process.Kill())
	_ = worker.Wait()
	if f, err := tryLock(path); err != nil || f != nil {
		t.Errorf("the lock is free while git works: %v", err)
	}
	must(t, in.Close())
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	f, err := lock(ctx, path)
	if err != nil {
		t.Fatalf("the lock is not free afterwards: %v", err)
	}
	must(t, f.Close())
}

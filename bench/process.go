package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// event is what an executor says about a step it carries out.
type event struct {
	kind  byte // one of the kinds
	round int
	step  int
	at    time.Time
}

// The kinds of event.
const (
	began  = 'b' // the step has begun
	called = 'c' // the executor's own code is called
	ended  = 'e' // the step has ended and what follows it is stored
	failed = 'f' // the executor's own code has failed
	ready  = 'r' // the process takes steps
)

// executor is one process that carries out steps.
type executor struct {
	cmd   *exec.Cmd
	ready chan struct{}
	done  chan struct{}

	mu   sync.Mutex
	tail []string // its last lines, for a failure
}

// launch starts a process and passes its events on. parse reads a line.
func launch(cmd *exec.Cmd, fromStderr bool, parse func(line []byte) (event, bool), hear func(event)) (*executor, error) {
	e := &executor{cmd: cmd, ready: make(chan struct{}), done: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var pipe io.ReadCloser
	var err error
	if fromStderr {
		pipe, err = cmd.StderrPipe()
	} else {
		pipe, err = cmd.StdoutPipe()
		cmd.Stderr = (*tailWriter)(e)
	}
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(e.done)
		var once sync.Once
		in := bufio.NewScanner(pipe)
		in.Buffer(make([]byte, 1<<20), 1<<20)
		for in.Scan() {
			ev, ok := parse(in.Bytes())
			switch {
			case ok && ev.kind == ready:
				once.Do(func() { close(e.ready) })
			case ok:
				hear(ev)
			case fromStderr && strings.Contains(in.Text(), `"level":"INFO"`):
			default:
				e.keep(in.Text())
			}
		}
		_ = cmd.Wait()
	}()
	return e, nil
}

// tailWriter keeps the last lines of a process's standard error.
type tailWriter executor

func (w *tailWriter) Write(p []byte) (int, error) {
	(*executor)(w).keep(string(p))
	return len(p), nil
}

func (e *executor) keep(line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tail = append(e.tail, line); len(e.tail) > 20 {
		e.tail = e.tail[1:]
	}
}

func (e *executor) said() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.tail, "\n")
}

// waitReady waits until the process takes steps.
func (e *executor) waitReady() error {
	select {
	case <-e.ready:
		return nil
	case <-e.done:
		return fmt.Errorf("%s ended:\n%s", filepath.Base(e.cmd.Path), e.said())
	case <-time.After(time.Minute):
		return fmt.Errorf("%s is not ready:\n%s", filepath.Base(e.cmd.Path), e.said())
	}
}

func (e *executor) cpu() time.Duration { return treeCPU(e.cmd.Process.Pid) }

// kill ends the process and nothing else, at once.
func (e *executor) kill() {
	_ = e.cmd.Process.Kill()
	<-e.done
}

// stop ends the process as a supervisor does.
func (e *executor) stop() {
	_ = e.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-e.done:
	case <-time.After(20 * time.Second):
		e.kill()
	}
}

// clockTicks is the unit of /proc's times on Linux.
const clockTicks = 100

// treeCPU returns the CPU time of a process and its children, those that have
// ended included.
func treeCPU(pid int) time.Duration {
	sum := int64(0)
	for _, p := range tree(pid) {
		sum += ticks(p, true)
	}
	return time.Duration(sum) * time.Second / clockTicks
}

func selfCPU() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func ticks(pid int, ended bool) int64 {
	f := statFields(pid)
	if len(f) < 15 {
		return 0
	}
	last := 13
	if ended {
		last = 15
	}
	sum := int64(0)
	for _, v := range f[11:last] {
		n, _ := strconv.ParseInt(v, 10, 64)
		sum += n
	}
	return sum
}

// statFields returns the fields of /proc/PID/stat after the name.
func statFields(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, after, ok := strings.Cut(string(text), ") ")
	if !ok {
		return nil
	}
	return strings.Fields(after)
}

// tree returns a process and everything below it.
func tree(root int) []int {
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i]))
		for _, path := range threads {
			text, _ := os.ReadFile(path)
			for _, word := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(word); err == nil {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Main is the guard. A program calls it when its first argument is Command, and
// exits with what it returns. It blocks until the agent's tree is gone and the
// worker has said bye, or the run was given back.
func Main(giveBack GiveBack) int {
	// The agent's parent-death signal is tied to the thread that started it: this
	// goroutine keeps its thread to the end.
	runtime.LockOSThread()
	keepFiles()
	// A terminal or a service supervisor signals the guard together with its worker;
	// the worker decides. Caught and dropped, not ignored: the agent would inherit that.
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	g := &guard{
		orders:  make(chan order, 16),
		reports: os.NewFile(4, "reports"),
		exits:   make(chan unix.WaitStatus, 1),
		gone:    make(chan struct{}),
	}
	go g.listen(os.NewFile(3, "orders"))
	if !g.start() {
		return 1
	}
	reason := g.watch()
	g.end(reason)
	if !g.linger(reason) {
		return 0
	}
	return g.giveBack(giveBack)
}

// keepFiles keeps every open file from the agent but its three streams: the pipes
// to the worker, and what whoever started the worker had left open, such as a lock.
func keepFiles() {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		unix.CloseOnExec(3)
		unix.CloseOnExec(4)
		return
	}
	for _, entry := range open {
		if fd, err := strconv.Atoi(entry.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

type guard struct {
	orders  chan order // closed when the worker is dead
	reports *os.File

	launch launch
	agent  int // pid and process group
	until  time.Duration
	heard  time.Duration // when the worker was heard last

	exits chan unix.WaitStatus // the agent's end
	gone  chan struct{}        // closed when no process is left below the guard
}

func (g *guard) listen(pipe io.Reader) {
	defer close(g.orders)
	in := bufio.NewReader(pipe)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var o order
		if json.Unmarshal(line, &o) != nil {
			return
		}
		g.orders <- o
	}
}

func (g *guard) report(r report) {
	line, err := json.Marshal(r)
	if err == nil {
		g.reports.Write(append(line, '\n')) // a dead worker doesn't hear it
	}
}

// start hears the launch and starts the agent, unless the lease is over.
func (g *guard) start() bool {
	o, ok := <-g.orders
	if !ok || o.Launch == nil {
		return false
	}
	g.launch, g.until, g.heard = *o.Launch, time.Duration(o.Until), bootNow()
	if g.over() {
		g.report(report{Event: evRefused})
		return false
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		g.report(report{Event: evFailed, Errno: errno(err)})
		return false
	}
	pid, err := syscall.ForkExec(g.launch.Path, g.launch.Argv, &syscall.ProcAttr{
		Dir:   g.launch.Dir,
		Env:   append(g.launch.Env, KeeperVar+"="+Keeper(g.launch.Token)),
		Files: []uintptr{0, 1, 2},
		Sys:   &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		g.report(report{Event: evFailed, Errno: errno(err)})
		return false
	}
	g.agent = pid
	letGoOfStdio()
	go g.reap()
	g.report(report{Event: evStarted, PID: pid})
	return true
}

// letGoOfStdio leaves the agent's pipes to the agent, so that their ends are seen.
func letGoOfStdio() {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err != nil || unix.Dup3(null, fd, unix.O_CLOEXEC) != nil {
			unix.Close(fd)
		}
	}
}

// reap collects everything that ends below the guard. That there is no child
// left means that there is no descendant: orphans come to the guard.
func (g *guard) reap() {
	defer close(g.gone)
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return
		case pid == g.agent:
			g.exits <- status
		}
	}
}

// over reports whether the lease ends now, with a little time left to kill.
func (g *guard) over() bool { return bootNow() >= g.until-g.launch.Silence/4 }

func (g *guard) silent() bool { return bootNow() >= g.heard+g.launch.Silence }

// watch returns when the tree is to be ended, and why.
func (g *guard) watch() Reason {
	tick := time.NewTicker(max(g.launch.Silence/8, time.Millisecond))
	defer tick.Stop()
	doubts := 0
	for {
		select {
		case o, ok := <-g.orders:
			if !ok {
				return Orphaned
			}
			doubts = 0
			g.hear(o)
			if o.Kill {
				return Killed
			}
		case status := <-g.exits:
			g.exited(status)
			return Exited
		case <-tick.C:
			// After a stop of the guard itself a heartbeat may wait in the pipe: look twice.
			if !g.over() && !g.silent() {
				doubts = 0
			} else if doubts++; doubts < 2 {
				continue
			} else if g.silent() {
				return Silent
			} else {
				return LeaseOver
			}
		}
	}
}

func (g *guard) hear(o order) {
	g.heard = bootNow()
	if o.Until != 0 {
		g.until = time.Duration(o.Until)
	}
	if o.Signal != 0 {
		unix.Kill(-g.agent, unix.Signal(o.Signal))
	}
}

func (g *guard) exited(status unix.WaitStatus) {
	r := report{Event: evExited, Code: status.ExitStatus()}
	if status.Signaled() {
		r.Signal = int(status.Signal())
	}
	g.report(r)
}

// end kills everything below the guard until nothing is left.
func (g *guard) end(reason Reason) {
	left := 0
	bound := time.After(killBound)
	pause := time.Millisecond
kill:
	for {
		left, _ = KillBelow(os.Getpid())
		select {
		case <-g.gone:
			left = 0
			break kill
		case <-bound:
			break kill
		case <-time.After(pause):
			pause = min(2*pause, 100*time.Millisecond)
		}
	}
	if reason != Exited {
		select {
		case status := <-g.exits:
			g.exited(status)
		default:
		}
	}
	g.report(report{Event: evGone, Reason: reason, Left: left})
}

// linger waits until the worker has settled the run and reports whether the run
// has to be given back instead.
func (g *guard) linger(reason Reason) bool {
	if reason == Orphaned || reason == Silent {
		return true
	}
	g.heard = bootNow()
	tick := time.NewTicker(max(g.launch.Silence/8, time.Millisecond))
	defer tick.Stop()
	for doubts := 0; ; {
		select {
		case o, ok := <-g.orders:
			if !ok || o.Bye {
				return !ok
			}
			g.heard, doubts = bootNow(), 0
		case <-tick.C:
			if !g.silent() {
				doubts = 0
			} else if doubts++; doubts == 2 {
				return true
			}
		}
	}
}

func (g *guard) giveBack(give GiveBack) int {
	if give == nil || len(g.launch.GiveBack) == 0 {
		return 0
	}
	ctx, cancel := context.WithTimeout(context.Background(), giveBackBound)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		if give(ctx, g.launch.GiveBack) == nil {
			return 0
		}
		select {
		case <-ctx.Done():
			return 1
		case <-time.After(pause):
		}
	}
}

func errno(err error) int {
	if e, ok := err.(syscall.Errno); ok {
		return int(e)
	}
	return int(syscall.EIO)
}

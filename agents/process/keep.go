package process

import (
	"context"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"rota/agents/guard"
)

// keep starts the program under a guard when there is a lease to guard, else in
// a process group of its own.
func keep(l guard.Launch) (keeper, error) {
	if l.Lease != nil && runtime.GOOS == "linux" {
		return guard.Start(l)
	}
	return startGroup(l)
}

// group is a program in a session of its own, without a guard.
type group struct {
	cmd   *exec.Cmd
	token string
	end   guard.End
	gone  chan struct{}

	mu     sync.Mutex
	exited bool // the pid may belong to another process
}

func startGroup(l guard.Launch) (*group, error) {
	g := &group{token: l.Token, gone: make(chan struct{}), cmd: &exec.Cmd{
		Path: l.Path, Args: l.Argv, Dir: l.Dir, Env: append(l.Env, guard.KeeperVar+"="+guard.Keeper(l.Token)),
		Stdin: l.Stdin, Stdout: l.Stdout, Stderr: l.Stderr, SysProcAttr: ownSession(),
	}}
	started := make(chan error)
	go g.run(started)
	if err := <-started; err != nil {
		return nil, err
	}
	return g, nil
}

// run starts the program, waits for it and sweeps what it left. It keeps its
// thread, because the program dies with the thread that started it.
func (g *group) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := g.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	g.cmd.Wait()
	g.mu.Lock()
	g.exited = true
	g.mu.Unlock()
	pid := g.cmd.Process.Pid
	g.end = guard.End{Code: g.cmd.ProcessState.ExitCode(), Reason: guard.Exited}
	if ws, ok := g.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		g.end.Signal = int(ws.Signal())
	}
	// The group's id is not given out again while a member lives.
	syscall.Kill(-pid, syscall.SIGKILL)
	ctx, cancel := context.WithTimeout(context.Background(), sweepBound)
	defer cancel()
	if _, err := guard.KillMarked(ctx, g.token); err != nil {
		g.end.Left = 1
	}
	close(g.gone)
}

// sweepBound is how long what does not die is tried to be killed.
const sweepBound = 10 * time.Second

func (g *group) PID() int { return g.cmd.Process.Pid }

func (g *group) Interrupt() { g.signal(syscall.SIGINT) }

func (g *group) Kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.exited {
		guard.KillBelow(g.cmd.Process.Pid)
		syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL)
	}
}

func (g *group) signal(s syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.exited {
		syscall.Kill(-g.cmd.Process.Pid, s)
	}
}

func (g *group) Wait() guard.End {
	<-g.gone
	return g.end
}

package redistest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
)

// process is a running program. Done is closed when it was waited for; err says
// how it ended and may be read after that.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// spawn starts a program that dies with this process. Linux ties that to the
// thread that started it, so one thread stays with the program until it ends.
func spawn(program, dir string, args []string) (*process, error) {
	p := &process{cmd: exec.Command(program, args...), done: make(chan struct{})}
	var output bytes.Buffer
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = dir, &output, &output
	p.cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		if err := p.cmd.Wait(); err != nil {
			p.err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(output.Bytes()))
		}
		close(p.done)
	}()
	return p, <-started
}

// signal sends a signal; to a process that has ended it does nothing.
func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// kill ends the process with SIGKILL, which also ends a stopped one, and waits.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// freePort returns a port that is free now, and the port 10,000 above it too
// (the bus of a Cluster node). Both lie below the range from which the system
// takes ports for outgoing connections, so a port stays free over a restart.
func freePort(t testing.TB) int {
	t.Helper()
	for range 200 {
		port := 11000 + rand.IntN(10000)
		if canBind(port) && canBind(port+10000) {
			return port
		}
	}
	t.Fatal("no free port between 11000 and 21000")
	return 0
}

func canBind(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}

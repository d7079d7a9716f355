package guard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Client is the worker's side of a guard. Its methods may be called from any
// goroutine.
type Client struct {
	launch Launch
	guard  *exec.Cmd
	pid    int
	end    End
	gone   chan struct{} // closed when the tree is gone and end is set

	mu     sync.Mutex
	orders *os.File
	until  time.Time // the end of the lease as the guard knows it
	killed sync.Once
}

// Start starts a guard and, through it, the agent. It returns ErrLeaseOver when
// the guard refused, and a syscall.Errno in the chain when the agent could not
// be started. On success Wait must be called.
func Start(l Launch) (*Client, error) {
	if l.Lease.Silence <= 0 {
		return nil, errors.New("start the guard: the lease does not say how long its worker may be silent")
	}
	ordersIn, orders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ordersIn.Close()
	reports, reportsOut, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, err
	}
	defer reportsOut.Close()
	c := &Client{launch: l, orders: orders, gone: make(chan struct{})}
	// The running binary, also when its file was replaced meanwhile.
	c.guard = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{os.Args[0], Command}, Env: guardEnv(l.Lease.Store),
		Stdin: l.Stdin, Stdout: l.Stdout, Stderr: l.Stderr,
		ExtraFiles:  []*os.File{ordersIn, reportsOut},
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := c.guard.Start(); err != nil {
		orders.Close()
		reports.Close()
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	reportsOut.Close()
	if err := c.begin(reports); err != nil {
		orders.Close()
		reports.Close()
		c.sweep()
		c.guard.Wait()
		return nil, err
	}
	return c, nil
}

// guardEnv is the guard's environment: enough to reach a store, no login.
func guardEnv(store string) []string {
	env := []string{"ROTA_GUARD=" + store}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// startBound is how long a guard may take to say that the agent was started.
const startBound = 30 * time.Second

// begin sends the launch and hears whether the agent was started.
func (c *Client) begin(reports *os.File) error {
	lease := c.launch.Lease
	c.until = lease.Until()
	first := order{Until: int64(bootTime(c.until)), Launch: &launch{
		Path: c.launch.Path, Argv: c.launch.Argv, Dir: c.launch.Dir, Env: c.launch.Env,
		Token: c.launch.Token, Silence: lease.Silence, GiveBack: lease.GiveBack,
	}}
	if err := c.send(first); err != nil {
		return fmt.Errorf("tell the guard: %w", err)
	}
	in := bufio.NewReader(reports)
	reports.SetReadDeadline(time.Now().Add(startBound))
	r, err := hear(in)
	if err != nil {
		return fmt.Errorf("hear from the guard: %w", err)
	}
	reports.SetReadDeadline(time.Time{})
	switch r.Event {
	case evStarted:
		c.pid = r.PID
		go c.beat()
		go c.listen(reports, in)
		return nil
	case evRefused:
		return ErrLeaseOver
	case evFailed:
		return fmt.Errorf("start %s: %w", c.launch.Path, syscall.Errno(r.Errno))
	}
	return fmt.Errorf("hear from the guard: %q before the start", r.Event)
}

func hear(in *bufio.Reader) (report, error) {
	var r report
	line, err := in.ReadBytes('\n')
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(line, &r)
}

func (c *Client) send(o order) error {
	line, err := json.Marshal(o)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.orders.SetWriteDeadline(time.Now().Add(startBound))
	_, err = c.orders.Write(append(line, '\n'))
	return err
}

// beat is the worker's heartbeat, until the pipe is closed. A moved end of the
// lease goes with it.
func (c *Client) beat() {
	tick := time.NewTicker(max(c.launch.Lease.Silence/4, time.Millisecond))
	defer tick.Stop()
	for range tick.C {
		var o order
		if until := c.launch.Lease.Until(); !until.Equal(c.until) {
			c.until = until
			o.Until = int64(bootTime(until))
		}
		if c.send(o) != nil {
			return
		}
	}
}

// listen hears the guard to its end, then lets it go.
func (c *Client) listen(reports *os.File, in *bufio.Reader) {
	defer reports.Close()
	c.end = End{Code: -1, Reason: GuardDied}
	for {
		r, err := hear(in)
		if err != nil {
			c.sweep()
			break
		}
		if r.Event == evExited {
			c.end.Code, c.end.Signal = r.Code, r.Signal
		}
		if r.Event == evGone {
			c.end.Reason, c.end.Left = r.Reason, r.Left
			break
		}
	}
	close(c.gone)
	if settled := c.launch.Lease.Settled; settled != nil && c.end.Reason != GuardDied {
		<-settled
	}
	c.send(order{Bye: true})
	c.orders.Close()
	c.guard.Wait()
}

// sweep ends what a dead guard left.
func (c *Client) sweep() {
	c.guard.Process.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), killBound)
	defer cancel()
	if _, err := KillMarked(ctx, c.launch.Token); errors.Is(err, context.DeadlineExceeded) {
		c.end.Left = 1
	}
}

// PID returns the agent's process id.
func (c *Client) PID() int { return c.pid }

// Interrupt sends SIGINT to the agent's process group.
func (c *Client) Interrupt() { c.send(order{Signal: int(syscall.SIGINT)}) }

// Kill ends the whole tree. It returns at once; Wait says when the tree is gone.
// A guard that doesn't carry it out is killed itself.
func (c *Client) Kill() {
	c.killed.Do(func() {
		go func() {
			c.send(order{Kill: true})
			select {
			case <-c.gone:
			case <-time.After(killBound + killBound/2):
				c.guard.Process.Kill()
			}
		}()
	})
}

// Wait returns when the agent's whole tree is gone.
func (c *Client) Wait() End {
	<-c.gone
	return c.end
}

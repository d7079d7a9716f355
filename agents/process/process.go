package process

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"sync"
	"time"

	"rota/agents/guard"
	"rota/turns"
)

// Process is a running agent program. Wait must be called in the end. ReadLine
// and Wait belong to one goroutine; the other methods may be called from any.
type Process struct {
	spec   Spec
	keeper keeper

	stdin   *os.File
	wmu     sync.Mutex
	written chan struct{}

	out   *output
	errs  *tail
	ended chan struct{} // closed when rota ends the program; reason is set
	once  sync.Once
	err   error

	startClock *time.Timer
	release    func() bool // of the context
}

// keeper starts the program and ends its tree: a guard or a plain process group.
type keeper interface {
	PID() int
	Interrupt()      // SIGINT to the program's group
	Kill()           // end the tree; returns at once
	Wait() guard.End // the tree is gone
}

// Exit is how a program ended.
type Exit struct {
	Code   int    // exit status; -1 when a signal ended it
	Signal int    // the signal that ended it, or 0
	Stderr string // the last 16 KiB of its standard error
	// Err says why rota ended the program: the cause of the context, a
	// *turns.Failure of class timeout, stalled, bad_output or lost, or ErrKilled.
	// Nil when the program ended by itself.
	Err error
}

// OK reports whether the program ended by itself with exit status 0.
func (e Exit) OK() bool { return e.Err == nil && e.Code == 0 && e.Signal == 0 }

// ErrKilled is the reason of a program ended by Kill or by the end of Stop's time.
var ErrKilled = errors.New("killed")

// drainBound is how long output may still be read after the tree is gone.
const drainBound = 5 * time.Second

// Start starts the program. The error is the cause of ctx or a *turns.Failure:
// config when the program or the folder is not there, lost when the lease is over.
func Start(ctx context.Context, spec Spec) (*Process, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := checkDir(spec.Dir); err != nil {
		return nil, err
	}
	if len(spec.Argv) == 0 {
		return nil, turns.Fail(turns.ClassConfig, "no program to start: name one in the service's command")
	}
	marks := maps.Clone(spec.Marks)
	if spec.Lease != nil && marks != nil {
		marks[guard.StoreVar] = spec.Lease.Store
	}
	env := Environ(spec.Env, marks)
	path, err := Look(spec.Argv[0], spec.Dir, lookup(env, "PATH"))
	if err != nil {
		return nil, err
	}
	pipes, err := newPipes()
	if err != nil {
		return nil, startFailure(path, err)
	}
	k, err := keep(guard.Launch{
		Path: path, Argv: spec.Argv, Dir: spec.Dir, Env: env, Token: turns.NewToken(), Lease: spec.Lease,
		Stdin: pipes.in.r, Stdout: pipes.out.w, Stderr: pipes.err.w,
	})
	pipes.closeTheirs()
	if err != nil {
		pipes.closeOurs()
		return nil, startFailure(path, err)
	}
	p := &Process{
		spec: spec, keeper: k, stdin: pipes.in.w,
		written: make(chan struct{}), ended: make(chan struct{}),
	}
	p.errs = newTail(pipes.err.r)
	p.out = newOutput(pipes.out.r, p)
	if spec.Start > 0 {
		p.startClock = time.AfterFunc(spec.Start, func() {
			p.finish(turns.Fail(turns.ClassTimeout, "the agent did not accept the prompt within %v", spec.Start))
		})
	}
	p.release = context.AfterFunc(ctx, func() { p.finish(context.Cause(ctx)) })
	go p.errs.read()
	go p.out.read()
	go p.feed()
	return p, nil
}

// finish ends the program for a reason; the first one stays.
func (p *Process) finish(reason error) {
	p.once.Do(func() {
		p.err = reason
		close(p.ended)
		p.keeper.Kill()
	})
}

// PID returns the program's process id.
func (p *Process) PID() int { return p.keeper.PID() }

// feed hands the prompt over.
func (p *Process) feed() {
	err := p.Write([]byte(p.spec.Stdin))
	if !p.spec.KeepStdin {
		p.CloseStdin()
	}
	if err == nil {
		close(p.written)
	}
}

// Written is closed when Spec.Stdin was handed over whole, and closed unless it
// is kept open. It stays open when the program does not take it.
func (p *Process) Written() <-chan struct{} { return p.written }

// Write writes to the program's standard input. An error says that the program
// no longer reads, or that the lease is over and nothing may be handed over any
// more; Wait will say why.
func (p *Process) Write(b []byte) error {
	p.wmu.Lock()
	defer p.wmu.Unlock()
	if l := p.spec.Lease; l != nil && !time.Now().Before(l.Until()) {
		over := turns.Fail(turns.ClassLost, "the lease ended before the prompt was handed over")
		p.finish(over)
		return over
	}
	_, err := p.stdin.Write(b)
	return err
}

// CloseStdin closes the program's standard input. It may be called again.
func (p *Process) CloseStdin() { p.stdin.Close() }

// Accepted says that the program has accepted the prompt: the start clock stops
// and the silence clock runs.
func (p *Process) Accepted() {
	if p.startClock != nil {
		p.startClock.Stop()
	}
	p.out.setSilence(p.spec.Silence)
}

// SetSilence changes the bound between two bytes of output, counted from now; 0
// switches the clock off, for as long as a person is asked.
func (p *Process) SetSilence(d time.Duration) { p.out.setSilence(d) }

// ReadLine returns the next line of the standard output, without its end. It
// returns io.EOF after the last one, and the reason as in Exit.Err as soon as
// rota ends the program, also when lines are left.
func (p *Process) ReadLine() ([]byte, error) {
	select {
	case <-p.ended:
		return nil, p.err
	default:
	}
	select {
	case <-p.ended:
		return nil, p.err
	case line, ok := <-p.out.lines:
		if !ok {
			return nil, io.EOF
		}
		return line, nil
	}
}

// Lines returns the channel that ReadLine reads, for a select. It is closed
// after the last line; Ended says when to stop listening before that.
func (p *Process) Lines() <-chan []byte { return p.out.lines }

// Ended is closed when rota ends the program.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Interrupt sends SIGINT to the program's process group.
func (p *Process) Interrupt() { p.keeper.Interrupt() }

// Kill ends the tree at once. It does not wait.
func (p *Process) Kill() { p.finish(ErrKilled) }

// Fail ends the tree at once, for a reason that Wait will report.
func (p *Process) Fail(reason error) { p.finish(reason) }

// Stop sends SIGINT and, should the program still be there after the grace, ends
// the tree. It returns at once; lines can be read to the end.
func (p *Process) Stop(grace time.Duration) {
	p.keeper.Interrupt()
	time.AfterFunc(grace, p.Kill)
}

// Wait returns when the program and everything it started is gone. Lines that
// were not read are dropped.
func (p *Process) Wait() Exit {
	p.out.discard()
	end := p.keeper.Wait()
	p.release()
	if p.startClock != nil {
		p.startClock.Stop()
	}
	// Only a process outside the tree can hold the pipes now.
	p.out.close(drainBound)
	p.errs.close(drainBound)
	p.CloseStdin()
	return p.exit(end)
}

func (p *Process) exit(end guard.End) Exit {
	e := Exit{Code: end.Code, Signal: end.Signal, Stderr: p.errs.String()}
	select {
	case <-p.ended:
		e.Err = p.err
		return e
	default:
	}
	switch end.Reason {
	case guard.LeaseOver:
		e.Err = turns.Fail(turns.ClassLost, "the guard ended the agent: the lease was not renewed in time")
	case guard.Silent, guard.Orphaned:
		e.Err = turns.Fail(turns.ClassLost, "the guard ended the agent: the worker was not heard for %v", p.spec.Lease.Silence)
	case guard.GuardDied:
		e.Err = turns.Fail(turns.ClassCrash, "the agent's guard died")
	}
	if e.Err == nil && end.Left > 0 {
		e.Err = turns.Fail(turns.ClassCrash, "%d processes of the agent could not be killed; end them by hand", end.Left)
	}
	return e
}

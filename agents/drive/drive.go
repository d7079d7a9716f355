// Package drive carries out one run of a program that takes its prompt on
// standard input and prints one JSON event a line: it starts the process, feeds
// its lines to a reader, and ends it when the run is over for whatever reason.
// What the lines mean is the reader's business.
package drive

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rota/agents"
	"rota/agents/process"
	"rota/agents/transcript"
	"rota/turns"
)

// Reader understands the output of one run.
type Reader interface {
	// Line takes a line. An error ends the run and is its end.
	Line([]byte) error
	// Accepted reports whether the program has accepted the prompt.
	Accepted() bool
	// Finished reports whether the program said how its turn ended.
	Finished() bool
	// End judges the run.
	End(transcript.Exit) (agents.Result, error)
	// Interrupted returns what there was when a person stopped the run.
	Interrupted() agents.Result
}

// Talker is a Reader that also speaks with its program while it runs. The spec
// keeps the program's input open, the Talker closes it when the turn is over.
type Talker interface {
	Reader
	// Begin hands over the running program, before its first line.
	Begin(*process.Process)
	// Control carries out a person's request. An Interrupt that it can't carry out
	// is done by SIGINT, and the program is ended in any case after StopGrace.
	Control(agents.Control) error
}

const (
	// Linger is how long a program may stay after it said how its turn ended; its
	// result stands when it is ended then.
	Linger = 15 * time.Second
	// StopGrace is how long a program may take to write its end after SIGINT.
	StopGrace = 5 * time.Second
)

// run is the state of one run.
type run struct {
	p      *process.Process
	reader Reader
	talker Talker // the reader, when it is one
	linger time.Duration

	accepted    bool
	interrupted bool
	kept        bool
}

// Run carries out one run; see agents.Agent.Run for what it returns.
func Run(ctx context.Context, spec process.Spec, controls <-chan agents.Control, reader Reader) (agents.Result, error) {
	return runFor(ctx, spec, controls, reader, Linger)
}

func runFor(ctx context.Context, spec process.Spec, controls <-chan agents.Control, reader Reader, linger time.Duration) (agents.Result, error) {
	p, err := process.Start(ctx, spec)
	if err != nil {
		return agents.Result{}, err
	}
	r := &run{p: p, reader: reader, linger: linger}
	if t, ok := reader.(Talker); ok {
		r.talker = t
		t.Begin(p)
	}
	if err := r.listen(controls); err != nil {
		p.Fail(err)
		p.Wait()
		return agents.Result{}, err
	}
	return r.judge(p.Wait())
}

// listen reads to the end of the output, or until rota ends the program. Its
// error is a line's.
func (r *run) listen(controls <-chan agents.Control) error {
	var patience <-chan time.Time // runs once the program should go by itself
	for {
		select {
		case line, ok := <-r.p.Lines():
			if !ok {
				return nil
			}
			if err := r.line(line); err != nil {
				return err
			}
			if patience == nil && r.reader.Finished() {
				patience = time.After(r.linger)
			}
		case <-patience:
			r.kept = true
			r.p.Kill()
		case c, ok := <-controls:
			if !ok {
				controls = nil
				continue
			}
			r.control(c)
		case <-r.p.Ended():
			return nil
		}
	}
}

func (r *run) line(line []byte) error {
	if err := r.reader.Line(line); err != nil {
		return err
	}
	if !r.accepted && r.reader.Accepted() {
		r.accepted = true
		r.p.Accepted()
	}
	return nil
}

func (r *run) control(c agents.Control) {
	var err error
	switch c.Kind {
	case agents.Interrupt:
		if !r.interrupted {
			r.interrupted = true
			r.stop(c)
		}
	default:
		if r.talker != nil {
			err = r.talker.Control(c)
			break
		}
		err = fmt.Errorf("this agent can't take a %s while it runs", c.Kind)
	}
	if c.Done != nil {
		c.Done(err)
	}
}

// stop ends the program for a person, politely first.
func (r *run) stop(c agents.Control) {
	if r.talker != nil && r.talker.Control(c) == nil {
		time.AfterFunc(StopGrace, r.p.Kill)
		return
	}
	r.p.Stop(StopGrace)
}

// judge says what the run came to, now that its tree is gone.
func (r *run) judge(exit process.Exit) (agents.Result, error) {
	end := transcript.Exit{Code: exit.Code, Stderr: exit.Stderr, Kept: r.kept}
	if exit.Signal != 0 {
		end.Signal = unix.SignalName(syscall.Signal(exit.Signal))
	}
	var f *turns.Failure
	switch {
	case exit.Err == nil || errors.Is(exit.Err, process.ErrKilled):
	case errors.As(exit.Err, &f) && (f.Class == turns.ClassStalled || f.Class == turns.ClassTimeout):
		if end.Kept = r.reader.Finished(); !end.Kept {
			end.Stopped = f.Class
		}
	default:
		return agents.Result{}, exit.Err // the cause of the context, a lost lease, too long a line
	}
	result, err := r.reader.End(end)
	if r.interrupted {
		if err != nil {
			result = r.reader.Interrupted()
		}
		result.Interrupted, result.Outcome = true, ""
		return result, nil
	}
	return result, err
}

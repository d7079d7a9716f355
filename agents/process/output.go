package process

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"rota/turns"
)

// DefaultMaxLine is the longest line of output in bytes, unless a spec says otherwise.
const DefaultMaxLine = 16 << 20

// output reads the program's standard output: lines into a channel, and the
// silence clock. The clock runs only while output is waited for, so a slow
// reader of the lines never makes an agent look silent.
type output struct {
	pipe  *os.File
	owner *Process
	max   int
	lines chan []byte
	done  chan struct{} // closed when the pipe is read to its end

	dropped  chan struct{} // closed when nobody wants lines any more
	dropOnce sync.Once

	arming  sync.Mutex   // guards the deadline, ended and mute
	ended   bool         // the output is read to its end
	mute    *time.Timer  // the silence clock from then on
	silence atomic.Int64 // ns; 0 for none
	since   atomic.Int64 // unix ns from which silence counts
}

func newOutput(pipe *os.File, owner *Process) *output {
	o := &output{
		pipe: pipe, owner: owner, max: owner.spec.MaxLine,
		lines: make(chan []byte), done: make(chan struct{}), dropped: make(chan struct{}),
	}
	if o.max == 0 {
		o.max = DefaultMaxLine
	}
	return o
}

func (o *output) setSilence(d time.Duration) {
	o.since.Store(time.Now().UnixNano())
	o.silence.Store(int64(d))
	o.arm()
}

// arm sets the deadline of a read that is under way or begins. After the end of
// the output a timer takes over, for a program that closed it and lives on.
func (o *output) arm() {
	o.arming.Lock()
	defer o.arming.Unlock()
	d := time.Duration(o.silence.Load())
	if o.mute != nil {
		o.mute.Stop()
	}
	switch {
	case d == 0:
		o.pipe.SetReadDeadline(time.Time{})
	case o.ended:
		o.mute = time.AfterFunc(d, func() {
			o.owner.finish(turns.Fail(turns.ClassStalled, "the agent closed its output and did not end for %v", d))
		})
	default:
		o.pipe.SetReadDeadline(time.Unix(0, o.since.Load()).Add(d))
	}
}

// read runs until the end of the output.
func (o *output) read() {
	defer close(o.done)
	defer close(o.lines)
	defer o.afterEnd()
	var line []byte
	chunk := make([]byte, 64<<10)
	for {
		n, err := o.next(chunk)
		rest := chunk[:n]
		for {
			i := bytes.IndexByte(rest, '\n')
			if len(line)+len(rest) > o.max && (i < 0 || len(line)+i > o.max) {
				o.owner.finish(turns.Fail(turns.ClassBadOutput, "the agent printed a line of more than %d bytes", o.max))
				o.discard()
				line, rest = nil, nil
				break
			}
			if i < 0 {
				break
			}
			o.emit(append(line, rest[:i]...))
			line, rest = nil, rest[i+1:]
		}
		line = append(line, rest...)
		if err != nil {
			if len(line) > 0 {
				o.emit(line)
			}
			return
		}
	}
}

// next reads once. It fails only at the end of the output; a silence that lasts
// too long ends the program, and reading goes on to the end.
func (o *output) next(chunk []byte) (int, error) {
	o.since.Store(time.Now().UnixNano())
	o.arm()
	for looked := false; ; {
		n, err := o.pipe.Read(chunk)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		d := time.Duration(o.silence.Load())
		if heard := o.owner.errs.last.Load(); heard > o.since.Load() {
			o.since.Store(heard)
		}
		switch quiet := time.Since(time.Unix(0, o.since.Load())); {
		case d == 0 || quiet < d:
			looked = false
			o.arm()
		case !looked:
			// The worker itself may have been stopped while output came: look once more.
			looked = true
			o.pipe.SetReadDeadline(time.Now().Add(min(d, time.Second)))
		default:
			o.owner.finish(turns.Fail(turns.ClassStalled, "no word from the agent for %v", d))
			o.silence.Store(0)
			o.arm()
		}
	}
}

func (o *output) afterEnd() {
	o.arming.Lock()
	o.ended = true
	o.arming.Unlock()
	o.arm()
}

func (o *output) emit(line []byte) {
	select {
	case o.lines <- bytes.TrimSuffix(line, []byte{'\r'}):
	case <-o.dropped:
	}
}

// discard lets the reader go on without anybody taking lines.
func (o *output) discard() { o.dropOnce.Do(func() { close(o.dropped) }) }

// close waits for the end of the output, at most for the bound.
func (o *output) close(bound time.Duration) {
	select {
	case <-o.done:
	case <-time.After(bound):
	}
	o.pipe.Close()
	<-o.done
	o.setSilence(0)
}

package main

import (
	"errors"
	"io"
	"io/fs"
	"syscall"
)

// output is standard output. It keeps the first error of a write, so that what
// could not be printed is not taken for done.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// judge returns the end of a command that printed here. A command that failed for
// another reason says that one. A reader that has seen enough is no error.
func (o *output) judge(err error) error {
	if o.err == nil || err == nil && errors.Is(o.err, syscall.EPIPE) || err != nil && !errors.Is(err, o.err) {
		return err
	}
	why := o.err
	if file, ok := errors.AsType[*fs.PathError](why); ok {
		why = file.Err
	}
	return &exit{code: exitError, text: "the output could not be written: " + oneLine(why.Error()), err: o.err}
}

package process

import (
	"os"
	"strings"
)

type pipe struct{ r, w *os.File }

// pipes are the three streams of a program.
type pipes struct{ in, out, err pipe }

func newPipes() (*pipes, error) {
	var p pipes
	for _, one := range []*pipe{&p.in, &p.out, &p.err} {
		r, w, err := os.Pipe()
		if err != nil {
			p.closeOurs()
			p.closeTheirs()
			return nil, err
		}
		one.r, one.w = r, w
	}
	return &p, nil
}

func (p *pipes) closeTheirs() { closeAll(p.in.r, p.out.w, p.err.w) }
func (p *pipes) closeOurs()   { closeAll(p.in.w, p.out.r, p.err.r) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

func lookup(env []string, name string) string {
	for _, e := range env {
		if k, v, _ := strings.Cut(e, "="); k == name {
			return v
		}
	}
	return ""
}

package main

import (
	"fmt"
	"time"

	"rota/commands"
	"rota/turns"
	"rota/turns/store"
)

// progress shows on stderr what happens while somebody waits: with follow every
// move as a line, and on a terminal one line that is kept up to date.
type progress struct {
	m        *Main
	lines    bool
	terminal bool
	width    int
	begun    time.Time
	shown    bool
}

func (m *Main) progress(follow bool) *progress {
	width, terminal := tty(m.err)
	return &progress{m: m, lines: follow, terminal: terminal, width: width, begun: time.Now()}
}

func (p *progress) follow() commands.Follow {
	var f commands.Follow
	if p.lines {
		f.Move = p.move
	}
	if p.terminal {
		f.Tick = p.tick
	}
	return f
}

func (p *progress) move(e turns.Entry) {
	p.clear()
	fmt.Fprintln(p.m.err, sentence(e))
}

func (p *progress) tick(r store.Records) {
	p.clear()
	text := fmt.Sprintf("%s  %s %s on %s  %s", r.Attempt.ID, r.Turn.Role, r.Attempt.State, r.Attempt.Service, span(time.Since(p.begun)))
	fmt.Fprint(p.m.err, shorten(text, p.width-1))
	p.shown = true
}

func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.m.err, "\r\x1b[K")
		p.shown = false
	}
}

// sentence is a move as people read it.
func sentence(e turns.Entry) string {
	text := fmt.Sprintf("%s  %s  %s: %s", e.At.Local().Format("15:04:05.000"), e.Attempt, e.Verb, e.To)
	if e.From != "" {
		text = fmt.Sprintf("%s  %s  %s: %s -> %s", e.At.Local().Format("15:04:05.000"), e.Attempt, e.Verb, e.From, e.To)
	}
	text += fmt.Sprintf(" (%s on %s)", e.Role, e.Service)
	if e.Reason != "" {
		text += "  " + shorten(e.Reason, 200)
	}
	return text
}

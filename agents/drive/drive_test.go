package drive

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"rota/agents"
	"rota/agents/process"
	"rota/agents/transcript"
	"rota/turns"
)

// plain is a reader of a made-up program: "accepted", "end" and "bad" are its
// events, everything else is its answer.
type plain struct {
	text            []string
	accepted, ended bool
	heard           func(string)
	exit            transcript.Exit
}

var errBad = errors.New("bad line")

func (r *plain) Line(b []byte) error {
	switch s := string(b); s {
	case "accepted":
		r.accepted = true
	case "end":
		r.ended = true
	case "bad":
		return errBad
	default:
		r.text = append(r.text, s)
	}
	if r.heard != nil {
		r.heard(string(b))
	}
	return nil
}

func (r *plain) Accepted() bool { return r.accepted }
func (r *plain) Finished() bool { return r.ended }

func (r *plain) End(e transcript.Exit) (agents.Result, error) {
	r.exit = e
	if e.Stopped != "" {
		return agents.Result{}, turns.Fail(e.Stopped, "stopped")
	}
	if !r.ended || !e.Kept && (e.Code != 0 || e.Signal != "") {
		return agents.Result{}, turns.Fail(turns.ClassCrash, "%+v", e)
	}
	return agents.Result{Text: strings.Join(r.text, " "), Outcome: turns.Done}, nil
}

func (r *plain) Interrupted() agents.Result {
	return agents.Result{Text: strings.Join(r.text, " "), Interrupted: true}
}

func specOf(t *testing.T, script string) process.Spec {
	return process.Spec{Argv: []string{"/bin/sh", "-c", script}, Dir: t.TempDir(), Stdin: "the prompt\n", Start: 20 * time.Second, Silence: 20 * time.Second}
}

func TestRun(t *testing.T) {
	tests := []struct {
		name   string
		script string
		edit   func(*process.Spec)
		want   turns.Class
		text   string
	}{
		{"prompt by standard input", `read p; echo accepted; echo "$p"; echo end`, nil, "", "the prompt"},
		{"stays after its end", `echo accepted; echo x; echo end; exec sleep 300`, nil, "", "x"},
		{"silent", `echo accepted; exec sleep 300`, func(s *process.Spec) { s.Silence = 200 * time.Millisecond }, turns.ClassStalled, ""},
		{"silent after its end", `echo accepted; echo x; echo end; exec sleep 300`, func(s *process.Spec) { s.Silence = 100 * time.Millisecond }, "", "x"},
		{"does not start", `exec sleep 300`, func(s *process.Spec) { s.Start = 200 * time.Millisecond }, turns.ClassTimeout, ""},
		{"ends with a status", `echo accepted; echo end; exit 3`, nil, turns.ClassCrash, ""},
		{"killed by another", `echo accepted; echo end; kill -9 $$`, nil, turns.ClassCrash, ""},
		{"no such program", ``, func(s *process.Spec) { s.Argv = []string{"/no/such/program"} }, turns.ClassConfig, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec := specOf(t, tt.script)
			if tt.edit != nil {
				tt.edit(&spec)
			}
			res, err := runFor(t.Context(), spec, nil, &plain{}, 300*time.Millisecond)
			if tt.want == "" {
				if err != nil || res.Text != tt.text {
					t.Errorf("got %+v, %v", res, err)
				}
				return
			}
			if f, ok := errors.AsType[*turns.Failure](err); !ok || f.Class != tt.want {
				t.Errorf("want %s, got %+v, %v", tt.want, res, err)
			}
		})
	}
}

func TestSignalsHaveNames(t *testing.T) {
	r := &plain{}
	if _, err := Run(t.Context(), specOf(t, `kill -9 $$`), nil, r); err == nil || r.exit.Signal != "SIGKILL" {
		t.Errorf("exit %+v, %v", r.exit, err)
	}
}

func TestLineErrorAndContextEndTheRun(t *testing.T) {
	if _, err := Run(t.Context(), specOf(t, `echo bad; exec sleep 300`), nil, &plain{}); !errors.Is(err, errBad) {
		t.Errorf("got %v", err)
	}
	lost := errors.New("fence lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := &plain{heard: func(s string) {
		if s == "end" {
			cancel(lost)
		}
	}}
	if res, err := Run(ctx, specOf(t, `echo accepted; echo x; echo end; exec sleep 300`), nil, r); !errors.Is(err, lost) || res.Text != "" {
		t.Errorf("got %+v, %v", res, err)
	}
}

func TestControls(t *testing.T) {
	controls, answers := make(chan agents.Control), make(chan error, 2)
	said := make(chan struct{}, 1)
	r := &plain{heard: func(s string) {
		if s == "half" {
			said <- struct{}{}
		}
	}}
	go func() {
		<-said
		for _, kind := range []agents.ControlKind{agents.Steer, agents.Interrupt} {
			controls <- agents.Control{Kind: kind, Done: func(err error) { answers <- err }}
		}
	}()
	res, err := Run(t.Context(), specOf(t, `trap 'exit 1' INT; echo accepted; echo half; while :; do sleep 0.1; done`), controls, r)
	if err != nil || !res.Interrupted || res.Text != "half" || res.Outcome != "" {
		t.Errorf("got %+v, %v", res, err)
	}
	if steer, interrupt := <-answers, <-answers; steer == nil || interrupt != nil {
		t.Errorf("steer answered %v, interrupt %v", steer, interrupt)
	}
}

// talking is a plain reader that takes a person's requests, unless it refuses.
type talking struct {
	plain
	p       *process.Process
	refuses bool
}

func (r *talking) Begin(p *process.Process) { r.p = p }

func (r *talking) Control(c agents.Control) error {
	if r.refuses {
		return errors.New("not now")
	}
	return r.p.Write([]byte(string(c.Kind) + "\n"))
}

// TestTalkerTakesControls: what a Talker refuses is refused, but an interrupt is
// then one by signal.
func TestTalkerTakesControls(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		controls, answers := make(chan agents.Control), make(chan error, 2)
		said := make(chan struct{}, 1)
		r := &talking{refuses: refuses}
		r.heard = func(s string) {
			if s == "half" {
				said <- struct{}{}
			}
		}
		go func() {
			<-said
			for _, kind := range []agents.ControlKind{agents.Steer, agents.Interrupt} {
				controls <- agents.Control{Kind: kind, Done: func(err error) { answers <- err }}
			}
		}()
		spec := specOf(t, `trap 'echo signal; exit 1' INT; read p; echo accepted; echo half; while read line; do echo "$line"; [ "$line" = interrupt ] && exit 1; done`)
		spec.KeepStdin = true
		res, err := Run(t.Context(), spec, controls, r)
		want := map[bool]string{false: "half steer interrupt", true: "half signal"}[refuses]
		if err != nil || !res.Interrupted || res.Text != want {
			t.Errorf("refuses %v: got %+v, %v", refuses, res, err)
		}
		if steer, interrupt := <-answers, <-answers; (steer != nil) != refuses || interrupt != nil {
			t.Errorf("refuses %v: steer answered %v, interrupt %v", refuses, steer, interrupt)
		}
	}
}

func TestCheckSwitches(t *testing.T) {
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script} }
	if err := CheckSwitches(t.Context(), nil, []string{"--safe"}, sh("echo usage: --safe")...); err != nil {
		t.Error(err)
	}
	for _, script := range []string{"echo usage: --other", "exit 1"} {
		if err := CheckSwitches(t.Context(), nil, []string{"--safe"}, sh(script)...); err == nil {
			t.Errorf("%s: nothing wrong found", script)
		}
	}
}

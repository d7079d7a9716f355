package agenttest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/agents/guard"
)

// The first arguments of the test binary in its other parts.
const (
	playFake = "play-the-fake-agent"
	playTool = "play-a-tool"
)

// Main is the TestMain of an adapter's tests: the test binary is also the fake
// program, its tools, and the guard.
func Main(m *testing.M, fake func(*Stage) int) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case guard.Command:
			os.Exit(guard.Main(func(context.Context, json.RawMessage) error { return nil }))
		case playTool:
			signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
			fmt.Print("!")
			time.Sleep(time.Hour)
		case playFake:
			os.Exit(fake(openStage(os.Args[2:])))
		}
	}
	os.Exit(m.Run())
}

// Program writes an executable that plays the script and returns its path.
func Program(t *testing.T, s Script) string {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "script.json")
	program := filepath.Join(dir, "fake")
	line := fmt.Sprintf("#!/bin/sh\nexec '%s' %s '%s' \"$@\"\n", self, playFake, file)
	for name, content := range map[string]string{file: string(text), program: line} {
		if err := os.WriteFile(name, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return program
}

// Stage is where a fake program plays: it is the program's process, in the
// workspace.
type Stage struct {
	Script Script
	Args   []string // without the program itself
}

// Call is how the adapter called the program.
type Call struct {
	Args  []string
	Env   []string
	Stdin string
}

// The files that a fake leaves in the workspace, and the one it waits for.
const (
	callFile = ".call.json"
	toolFile = ".tools"
	goFile   = ".go"
)

func openStage(args []string) *Stage {
	s := &Stage{Args: args[1:]}
	b, err := os.ReadFile(args[0])
	if err == nil {
		err = json.Unmarshal(b, &s.Script)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(70)
	}
	return s
}

// Prompt reads the standard input to its end and records the call.
func (s *Stage) Prompt() string {
	in, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(70)
	}
	s.Record(string(in))
	return string(in)
}

// Record records the call with what was read from standard input so far, for
// programs whose input stays open.
func (s *Stage) Record(stdin string) {
	write(callFile, Call{Args: s.Args, Env: os.Environ(), Stdin: stdin})
}

func write(file string, v any) {
	b, err := json.Marshal(v)
	if err == nil {
		err = os.WriteFile(file+".new", b, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(70)
	}
}

// WaitForGo waits until the test lets the program go on.
func (s *Stage) WaitForGo() {
	for {
		if _, err := os.Stat(goFile); err == nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// StartTool starts a tool in a session of its own that ignores polite signals.
func (s *Stage) StartTool() {
	cmd := exec.Command(os.Args[0], playTool)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	up, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(70)
	}
	up.Read(make([]byte, 1))
	write(toolFile, []int{os.Getpid(), cmd.Process.Pid})
}

// Hang is silent for ever.
func (s *Stage) Hang() int {
	time.Sleep(time.Hour)
	return 0
}

// ReadCall returns how the program in a workspace was called last.
func ReadCall(t *testing.T, workspace string) Call {
	t.Helper()
	var c Call
	read(t, filepath.Join(workspace, callFile), &c)
	return c
}

func read(t *testing.T, file string, v any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Getenv returns a variable of the call.
func (c Call) Getenv(name string) string {
	for _, e := range c.Env {
		if k, v, _ := strings.Cut(e, "="); k == name {
			return v
		}
	}
	return ""
}

package guard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rota/agents"
	"rota/agents/guard"
	"rota/agents/process"
	"rota/turns"
)

// The test binary plays every part: the guard, the worker that is killed, the
// agent with a tree that does not want to die, and the tools in it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case guard.Command:
			os.Exit(guard.Main(giveBack))
		case "worker":
			playWorker(os.Args[2])
		case "agent":
			playAgent(os.Args[2], os.Args[3])
		case "fork":
			startTool(os.Args[2], true, nil)
			os.Exit(0)
		case "tool":
			playTool()
		}
	}
	os.Exit(m.Run())
}

// A stage is one story: its folder, its lease, the token all its processes show
// in their arguments.
type stage struct {
	Dir     string
	Token   string
	Store   string
	Lease   time.Duration // how far the lease reaches; moved on unless Stuck
	Stuck   bool          // renewals don't come through
	Silence time.Duration
	End     string // what the agent does once its tree is up: wait or exit
	Held    bool   // the worker does not settle after the agent's end
	Refuse  int    // give-backs that fail before one succeeds
}

// run is what the give-back function gets.
type run struct {
	Dir    string `json:"dir"`
	Token  string `json:"token"`
	Refuse int    `json:"refuse"`
}

// giveBack records that it was called, and how many processes of the tree it saw.
func giveBack(_ context.Context, raw json.RawMessage) error {
	var r run
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(r.Dir, "tries"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintln(f, "try")
	if tries, _ := os.ReadFile(f.Name()); bytes.Count(tries, []byte("\n")) <= r.Refuse {
		return errors.New("the store is away")
	}
	return os.WriteFile(filepath.Join(r.Dir, "given-back"), []byte(strconv.Itoa(count(r.Token))), 0o600)
}

func (s stage) lease() *agents.Lease {
	raw, err := json.Marshal(run{s.Dir, s.Token, s.Refuse})
	if err != nil {
		panic(err)
	}
	end := time.Now().Add(s.Lease)
	l := &agents.Lease{Silence: s.Silence, Store: s.Store, GiveBack: raw, Until: func() time.Time {
		if s.Stuck {
			return end
		}
		return time.Now().Add(s.Lease)
	}}
	if s.Held {
		l.Settled = make(chan struct{})
	}
	return l
}

func (s stage) spec() process.Spec {
	return process.Spec{
		Argv: []string{self(), "agent", s.Token, s.End}, Dir: s.Dir, Lease: s.lease(),
		Marks: map[string]string{"ROTA_FENCE": "7"}, Stdin: "prompt",
	}
}

// playWorker runs the stage's agent and writes down what came of it.
func playWorker(text string) {
	var s stage
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		panic(err)
	}
	p, err := process.Start(context.Background(), s.spec())
	if err == nil {
		for err == nil {
			_, err = p.ReadLine()
		}
		err = p.Wait().Err
	}
	word := "ended by itself"
	if err != nil {
		word = string(turns.FailureOf(err).Class)
	}
	os.WriteFile(filepath.Join(s.Dir, "worker"), []byte(word), 0o600)
	if s.Held {
		time.Sleep(time.Hour)
	}
	os.Exit(0)
}

// tree is the number of processes below an agent: one in each tricky position.
const tree = 5

func playAgent(token, end string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	startTool(token, false, nil)                      // in the agent's group
	startTool(token, true, nil)                       // in a session of its own
	startTool(token, true, []string{"NOTHING=here"})  // and without the marks
	doubleFork(token, os.Environ())                   // an orphan in a session of its own
	doubleFork(token, []string{"PATH=/bin:/usr/bin"}) // and without the marks
	fmt.Println("up")
	if end == "exit" {
		os.Exit(0)
	}
	io.Copy(io.Discard, os.Stdin)
	time.Sleep(time.Hour)
}

func startTool(token string, session bool, env []string) {
	cmd := exec.Command(self(), "tool", token)
	cmd.Env, cmd.SysProcAttr = env, &syscall.SysProcAttr{Setsid: session}
	ready, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	ready.Read(make([]byte, 1))
}

func doubleFork(token string, env []string) {
	cmd := exec.Command(self(), "fork", token)
	cmd.Env = env
	if err := cmd.Run(); err != nil {
		panic(err)
	}
}

func playTool() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE)
	fmt.Print("!")
	for {
		time.Sleep(time.Hour)
	}
}

func self() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// count returns how many live agents and tools show the token.
func count(token string) int { return len(alive(token)) }

func alive(token string) []int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var pids []int
	for _, file := range files {
		b, err := os.ReadFile(file)
		args := strings.Split(string(b), "\x00")
		if err == nil && len(args) > 2 && (args[1] == "agent" || args[1] == "tool") && args[2] == token {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// Command puppet is an agent for tests: it does what the rules of a test say for
// the run that it carries out, and writes every run into a ledger.
//
// It is started as "puppet FOLDER SERVICE". FOLDER holds rules.json, a list of
// Rule, and ledger.jsonl, one Line for each start and each end of a run. The first
// rule that fits the run is played step by step. A rule that is used up fits no
// more; without a fitting rule the run answers done, approve or proceed, by role.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Rule says what runs do. Empty fields fit every run.
type Rule struct {
	Service string   `json:"service"`
	Role    string   `json:"role"`
	Thread  string   `json:"thread"`
	Attempt int      `json:"attempt"` // number of the attempt
	Times   int      `json:"times"`   // fits this many runs, counted by the ledger; 0 for all
	Steps   []string `json:"steps"`
}

// Line is a line of the ledger.
type Line struct {
	Event   string    `json:"event"` // start or end
	Thread  string    `json:"thread"`
	Turn    string    `json:"turn"`
	Attempt string    `json:"attempt"`
	Role    string    `json:"role"`
	Intent  string    `json:"intent"`
	Service string    `json:"service"`
	Fence   string    `json:"fence"`
	PID     int       `json:"pid"`
	Rule    int       `json:"rule"` // -1 for none
	Prompt  string    `json:"prompt,omitempty"`
	Session string    `json:"session,omitempty"`
	At      time.Time `json:"at"`
}

type puppet struct {
	dir  string
	line Line
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: puppet FOLDER SERVICE")
		os.Exit(2)
	}
	p := &puppet{dir: os.Args[1]}
	p.line = Line{
		Thread: os.Getenv("ROTA_THREAD"), Turn: os.Getenv("ROTA_TURN"), Attempt: os.Getenv("ROTA_ATTEMPT"), Role: os.Getenv("ROTA_ROLE"),
		Intent: os.Getenv("ROTA_INTENT"), Fence: os.Getenv("ROTA_FENCE"), Service: os.Args[2], PID: os.Getpid(),
	}
	steps, err := p.choose()
	if err != nil {
		fmt.Fprintln(os.Stderr, "puppet:", err)
		os.Exit(70)
	}
	if steps[0] == "broken" {
		// The first exchange fails: neither end of the conversation is there.
		_ = os.Stdin.Close()
		_ = os.Stdout.Close()
		os.Exit(1)
	}
	code := 0
	for _, step := range steps {
		word, rest, _ := strings.Cut(step, " ")
		if word == "exit" {
			code, _ = strconv.Atoi(rest)
			break
		}
		if err := p.play(word, rest); err != nil {
			fmt.Fprintln(os.Stderr, "puppet:", err)
			code = 70
			break
		}
	}
	p.line.Event, p.line.At, p.line.Prompt = "end", time.Now(), ""
	_ = p.note()
	os.Exit(code)
}

// choose finds the rule of this run and notes its start, under a lock, so that a
// rule is used as often as it says.
func (p *puppet) choose() ([]string, error) {
	lock, err := os.OpenFile(filepath.Join(p.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return nil, err
	}
	rules, used, err := p.read()
	if err != nil {
		return nil, err
	}
	p.line.Event, p.line.At, p.line.Rule = "start", time.Now(), -1
	steps := []string{"result " + map[string]string{"owner": "done", "reviewer": "approve", "arbiter": "proceed"}[p.line.Role]}
	for i, r := range rules {
		if r.fits(p.line) && (r.Times == 0 || used[i] < r.Times) {
			p.line.Rule, steps = i, r.Steps
			break
		}
	}
	if steps[0] != "broken" {
		text, err := io.ReadAll(os.Stdin)
		if err != nil {
			return nil, err
		}
		var in struct{ Prompt, Session string }
		if err := json.Unmarshal(text, &in); err != nil {
			return nil, err
		}
		p.line.Prompt, p.line.Session = in.Prompt, in.Session
	}
	return steps, p.note()
}

// read returns the rules and how often each was used.
func (p *puppet) read() ([]Rule, map[int]int, error) {
	var rules []Rule
	text, err := os.ReadFile(filepath.Join(p.dir, "rules.json"))
	if err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(text, &rules); err != nil {
		return nil, nil, err
	}
	used := map[int]int{}
	ledger, err := os.Open(filepath.Join(p.dir, "ledger.jsonl"))
	if os.IsNotExist(err) {
		return rules, used, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer ledger.Close()
	lines := bufio.NewScanner(ledger)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var l Line
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Event == "start" {
			used[l.Rule]++
		}
	}
	return rules, used, lines.Err()
}

func (r Rule) fits(l Line) bool {
	return (r.Service == "" || r.Service == l.Service) && (r.Role == "" || r.Role == l.Role) && (r.Thread == "" || r.Thread == l.Thread) &&
		(r.Attempt == 0 || strings.HasSuffix(l.Attempt, "."+strconv.Itoa(r.Attempt)))
}

// note appends a line to the ledger in one write.
func (p *puppet) note() error {
	b, err := json.Marshal(p.line)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(p.dir, "ledger.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(append(b, '\n'))
	return err
}

// say prints one JSON line.
func say(fields map[string]any) {
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(b))
}

// play carries out one step.
func (p *puppet) play(word, rest string) error {
	switch word {
	case "print": // plain text
		fmt.Println(rest)
	case "json": // a line as it stands
		fmt.Println(rest)
	case "accepted":
		say(map[string]any{"type": "accepted"})
	case "tools":
		say(map[string]any{"type": "progress", "progress": "tools", "text": "at work"})
	case "result": // OUTCOME [TEXT]
		outcome, text, _ := strings.Cut(rest, " ")
		if text == "" {
			text = p.line.Role + " says " + outcome
		}
		say(map[string]any{"type": "result", "outcome": outcome, "text": text})
	case "error": // CLASS [MESSAGE]
		class, message, _ := strings.Cut(rest, " ")
		say(map[string]any{"type": "error", "class": class, "message": message})
	case "item": // ID KIND STATE [CHILD]
		f := append(strings.Fields(rest), "", "", "", "")
		say(map[string]any{"type": "item", "id": f[0], "kind": f[1], "state": f[2], "child": f[3], "title": "item " + f[0]})
	case "write": // FILE TEXT, in the workspace
		name, text, _ := strings.Cut(rest, " ")
		return os.WriteFile(name, []byte(text+"\n"), 0o644)
	case "mark": // FILE, in the rig's folder
		return os.WriteFile(filepath.Join(p.dir, rest), nil, 0o600)
	case "wait": // until FILE is in the rig's folder
		return p.await(rest)
	case "deaf": // no signal that can be ignored ends it
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	case "spawn": // a process in a session of its own, as tools leave them
		child := exec.Command("sleep", "600")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return child.Start()
	case "orphan": // SECONDS: a process without parent, session and environment of ours
		return exec.Command("sh", "-c", "setsid env -i sleep "+rest+" </dev/null >/dev/null 2>&1 &").Run()
	case "hang":
		time.Sleep(10 * time.Minute)
	case "kill": // dies without a word
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	default:
		return fmt.Errorf("unknown step %q", word)
	}
	return nil
}

func (p *puppet) await(name string) error {
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(p.dir, name)); err == nil {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited in vain for %s", name)
		}
	}
}

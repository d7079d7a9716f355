// Command actor is an agent for the campaign: what it does follows from the seed
// and its attempt, and it writes everything it does into the ledger.
//
// It is started as "actor FOLDER SEED".
package main

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// Line is a line of the ledger.
type Line struct {
	Event   string `json:"event"` // start, act or end
	Thread  string `json:"thread"`
	Turn    string `json:"turn"`
	Attempt string `json:"attempt"`
	Role    string `json:"role"`
	Fence   string `json:"fence"`
	PID     int    `json:"pid"`
}

type actor struct {
	ledger *os.File
	line   Line
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: actor FOLDER SEED")
		os.Exit(2)
	}
	ledger, err := os.OpenFile(filepath.Join(os.Args[1], "ledger.jsonl"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, "actor:", err)
		os.Exit(70)
	}
	a := &actor{ledger: ledger, line: Line{Thread: os.Getenv("ROTA_THREAD"), Turn: os.Getenv("ROTA_TURN"), Attempt: os.Getenv("ROTA_ATTEMPT"),
		Role: os.Getenv("ROTA_ROLE"), Fence: os.Getenv("ROTA_FENCE"), PID: os.Getpid()}}
	a.note("start")
	_, _ = io.Copy(io.Discard, os.Stdin)
	h := fnv.New64a()
	fmt.Fprint(h, os.Args[2], a.line.Attempt, a.line.Fence)
	os.Exit(a.play(rand.New(rand.NewPCG(h.Sum64(), 1))))
}

func (a *actor) note(event string) {
	a.line.Event = event
	b, err := json.Marshal(a.line)
	if err == nil {
		_, err = a.ledger.Write(append(b, '\n'))
	}
	if err != nil {
		os.Exit(71) // what it can't write down it must not do
	}
}

func say(fields map[string]string) {
	b, _ := json.Marshal(fields)
	fmt.Println(string(b))
}

// work acts every few milliseconds, so that a life after death is seen.
func (a *actor) work(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(15 * time.Millisecond) {
		a.note("act")
	}
}

// play is the whole run; it returns the exit status.
func (a *actor) play(r *rand.Rand) int {
	if r.IntN(20) == 0 {
		return 3 // dies before it has accepted
	}
	say(map[string]string{"type": "accepted"})
	if r.IntN(6) == 0 {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	}
	if r.IntN(6) == 0 {
		child := exec.Command("sleep", "600")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = child.Start()
	}
	if r.IntN(3) == 0 {
		say(map[string]string{"type": "progress", "progress": "tools", "text": "at work"})
	}
	life := time.Duration(20+r.IntN(200)) * time.Millisecond
	if r.IntN(12) == 0 {
		life = time.Duration(2+r.IntN(4)) * time.Second
	}
	a.work(life)
	switch r.IntN(24) {
	case 0:
		return 4
	case 1:
		say(map[string]string{"type": "error", "class": "server", "message": "out of order"})
		return 0
	case 2:
		say(map[string]string{"type": "error", "class": "refusal", "message": "not this"})
		return 0
	}
	outcome := map[string]string{"owner": "done", "reviewer": "approve", "arbiter": "proceed"}[a.line.Role]
	if a.line.Role == "reviewer" && r.IntN(4) == 0 {
		outcome = "changes"
	}
	a.note("end")
	say(map[string]string{"type": "result", "outcome": outcome, "text": a.line.Role + " says " + outcome})
	return 0
}

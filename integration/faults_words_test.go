package integration

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"rota/commands"
	"rota/integration/wrongclock"
	"rota/internal/redistest"
	"rota/turns"
)

// stage is what one story plays on. Its services are those of the default setup:
// codex-main is the owner's, claude and then codex-review are the reviewer's.
type stage struct {
	t        *testing.T
	rig      *rig
	rules    []rule
	links    map[string]*redistest.Link // a worker's way to Redis, by the worker's name here
	workers  map[string]*workerProcess
	delay    time.Duration
	verified bool
}

// words are the commands of the stories. A worker is called by its service, or by
// what follows "as".
func (s *stage) words() map[string]func([]string) {
	return map[string]func([]string){
		"redis":       s.redis,
		"worker":      s.worker,
		"cut":         func(a []string) { s.links[s.arg(a, 0)].Cut() },
		"mend":        func(a []string) { s.links[s.arg(a, 0)].Mend() },
		"disk":        s.disk,
		"agent":       s.agent,
		"mark":        func(a []string) { s.rig.mark(s.arg(a, 0)) },
		"marked":      s.marked,
		"task":        func(a []string) { s.rig.task(s.arg(a, 0)) },
		"lone":        func(a []string) { s.rig.lone(s.arg(a, 0), turns.Owner) },
		"unanswered":  s.unanswered,
		"cancel":      s.cancel,
		"later":       s.later,
		"unscaled":    s.unscaled,
		"spaced":      s.spaced,
		"until":       s.until,
		"turn":        s.turn,
		"attempts":    func(a []string) { s.rig.story(s.arg(a, 0), a[1:]...) },
		"runs":        s.runs,
		"agents-gone": func([]string) { s.rig.await("the agents to be gone", func() bool { return len(s.rig.agents()) == 0 }) },
		"logged":      s.logged,
		"noticed":     s.noticed,
		"failed-with": s.failedWith,
		"refused":     s.refused,
		"lease-entry": s.leaseEntry,
		"asynq":       s.asynq,
		"verify":      s.verify,
	}
}

// arg is the n-th argument.
func (s *stage) arg(args []string, n int) string {
	s.t.Helper()
	if n >= len(args) {
		s.t.Fatalf("an argument is missing after %q", args)
	}
	return args[n]
}

// unscaled: the story lasts as long as it says, minutes, and is played only when all
// is.
func (s *stage) unscaled([]string) {
	if os.Getenv("ROTA_SCALE") != "full" {
		s.t.Skip("minutes long: ROTA_SCALE=full plays it")
	}
}

// worker: start SERVICE [as WORKER] [named NAME] [clock ahead|behind] | kill | kill-with-guards |
// stop [DURATION] | continue | end, of WORKER
func (s *stage) worker(args []string) {
	name := s.arg(args, 1)
	if args[0] == "start" {
		s.startWorker(name, args[2:])
		return
	}
	w := s.workers[name]
	if w == nil {
		s.t.Fatalf("no worker %s", name)
	}
	switch args[0] {
	case "kill":
		w.kill9()
	case "kill-with-guards":
		w.killWithGuards()
	case "stop":
		w.signal(syscall.SIGSTOP)
		if len(args) > 2 { // how long it lasts is the fault itself
			d, err := time.ParseDuration(args[2])
			s.rig.ok(err)
			time.Sleep(d)
			w.signal(syscall.SIGCONT)
		}
	case "continue":
		w.signal(syscall.SIGCONT)
	case "end":
		w.stop()
	default:
		s.t.Fatalf("a worker can't %s", args[0])
	}
}

func (s *stage) startWorker(service string, more []string) {
	name, binary, args := service, "worker", []string{}
	for pair := range slices.Chunk(more, 2) {
		switch pair[0] {
		case "as":
			name = s.arg(pair, 1)
		case "named":
			args = append(args, "--name", s.arg(pair, 1))
		case "clock":
			binary = s.clock(s.arg(pair, 1))
		default:
			s.t.Fatalf("a worker is not started %q", pair)
		}
	}
	link := redistest.Proxy(s.t, s.rig.redis.Addr)
	link.Delay(s.delay)
	s.links[name] = link
	s.t.Cleanup(s.rig.stopAll) // before the link is gone
	s.workers[name] = s.rig.run(binary, service, append(args, "--redis", link.URL())...)
}

// wrongClocks are the worker programs of the stories with wrong clocks; built once.
var wrongClocks = map[string]func() error{
	"ahead":  sync.OnceValue(func() error { return wrongclock.Build(program("worker-ahead"), "rota/cmd/worker", wrong) }),
	"behind": sync.OnceValue(func() error { return wrongclock.Build(program("worker-behind"), "rota/cmd/worker", -wrong) }),
}

// wrong is how far the clocks of these stories are off.
const wrong = 5 * time.Minute

// clock is the name of a worker program whose clock is wrong.
func (s *stage) clock(way string) string {
	build := wrongClocks[way]
	if build == nil {
		s.t.Fatalf("a clock is ahead or behind, not %s", way)
	}
	if testing.Short() {
		s.t.Skip("a worker with a wrong clock takes a minute to build")
	}
	s.rig.ok(build())
	return "worker-" + way
}

// later: THREAD DURATION, a stored command for an owner's turn, by Redis' clock
func (s *stage) later(args []string) {
	in, err := time.ParseDuration(s.arg(args, 1))
	s.rig.ok(err)
	now, err := s.rig.store.Now(s.t.Context(), args[0])
	s.rig.ok(err)
	_, err = s.rig.commands.Later(s.t.Context(), commands.Order{Thread: args[0], Workdir: s.rig.repo, Text: "do it", Role: turns.Owner}, now.Add(in))
	s.rig.ok(err)
}

// spaced: TURN DURATION, the least time between two starts of its agents
func (s *stage) spaced(args []string) {
	least, err := time.ParseDuration(s.arg(args, 1))
	s.rig.ok(err)
	list := s.rig.runs(of(args[0]))
	if len(list) < 2 {
		s.t.Fatalf("%s has had %d runs", args[0], len(list))
	}
	for i, e := range list[1:] {
		if after := e.At.Sub(list[i].At); after < least {
			s.t.Errorf("%s: run %d began %s after the one before it", args[0], i+2, after)
		}
	}
}

// agent: [service=…] [role=…] [thread=…] [attempt=…] [times=…] STEP …
func (s *stage) agent(args []string) {
	var r rule
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		s.rig.ok(err)
		return n
	}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		switch name {
		case "service":
			r.Service = value
		case "role":
			r.Role = value
		case "thread":
			r.Thread = value
		case "attempt":
			r.Attempt = number(value)
		case "times":
			r.Times = number(value)
		default:
			r.Steps = append(r.Steps, a)
		}
	}
	s.rules = append(s.rules, r)
	s.rig.rules(s.rules...)
}

func (s *stage) marked(args []string) {
	s.rig.await("the mark "+s.arg(args, 0), func() bool { return s.rig.marked(args[0]) })
}

func (s *stage) cancel(args []string) {
	_, err := s.rig.commands.Cancel(s.t.Context(), "", s.arg(args, 0))
	s.rig.ok(err)
}

// until: THREAD STATUS | TURN STATE | ATTEMPT STATE
func (s *stage) until(args []string) {
	id, want := s.arg(args, 0), s.arg(args, 1)
	s.rig.await(id+" to be "+want, func() bool { return s.stateOf(id) == want })
}

func (s *stage) stateOf(id string) string {
	_, number, ok := strings.Cut(id, "/")
	switch {
	case !ok:
		return string(s.rig.paired(id).Status)
	case strings.Contains(number, "."):
		return string(s.rig.attempt(id).State)
	}
	return string(s.rig.turn(id).State)
}

// turn: TURN is STATE by ROLE on SERVICE. It waits for the turn's end.
func (s *stage) turn(args []string) {
	if len(args) != 7 || args[1] != "is" || args[3] != "by" || args[5] != "on" {
		s.t.Fatal("usage: turn TURN is STATE by ROLE on SERVICE")
	}
	u := s.rig.ends(args[0])
	last := s.rig.attempt(turns.AttemptID(u.ID, u.Attempt))
	if string(u.State) != args[2] || string(u.Role) != args[4] || last.Service != args[6] {
		s.t.Errorf("%s is %s by %s on %s (%s)", u.ID, u.State, u.Role, last.Service, u.Error)
	}
}

// runs: TURN|ATTEMPT|THREAD NUMBER of starts of an agent
func (s *stage) runs(args []string) {
	if n := len(s.rig.runs(of(s.arg(args, 0)))); strconv.Itoa(n) != s.arg(args, 1) {
		s.t.Errorf("%d runs of %s, want %s", n, args[0], args[1])
	}
}

// logged: WORKER WORD … in one line
func (s *stage) logged(args []string) {
	w := s.workers[s.arg(args, 0)]
	s.rig.await("a line of "+args[0]+" with "+strings.Join(args[1:], " "), func() bool { return w.logged(args[1:]...) })
}

// noticed: WORKER has seen that its run is over, whoever ended it.
func (s *stage) noticed(args []string) {
	w := s.workers[s.arg(args, 0)]
	s.rig.await("worker "+args[0]+" to see it", func() bool {
		return w.logged("run failed", `"class":"lost"`) || w.logged("write came too late") || w.logged("run ended from outside")
	})
}

// refused: THREAD ERROR, when a turn is opened in it
func (s *stage) refused(args []string) {
	_, err := s.rig.commands.Turn(s.t.Context(), turnAsk(s.arg(args, 0)))
	if err == nil || !strings.Contains(err.Error(), s.arg(args, 1)) {
		s.t.Errorf("a turn of %s was opened: %v", args[0], err)
	}
}

// failed-with: TURN TEXT
func (s *stage) failedWith(args []string) {
	u := s.rig.ends(s.arg(args, 0))
	if u.State != turns.Failed || !strings.Contains(u.Error, s.arg(args, 1)) {
		s.t.Errorf("%s is %s: %q", u.ID, u.State, u.Error)
	}
}

// verify checks the invariants now; the rig does it again when the workers ended.
func (s *stage) verify([]string) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	found, err := s.rig.store.Verify(ctx, "")
	s.rig.ok(err)
	for _, v := range found {
		s.t.Error(v)
	}
	s.verified = true
}

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/integration/processes"
	"rota/integration/wrongclock"
	"rota/internal/config"
	"rota/internal/redistest"
	"rota/pairs"
	"rota/scheduler"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// patience bounds the time in which everything must have ended, once the faults
// have stopped.
const patience = 3 * time.Minute

// field is where a campaign takes place: one Redis, several workers.
type field struct {
	t         *testing.T
	ctx       context.Context
	dir       string
	seed      uint64
	redis     *redistest.Server
	rdb       *redis.Client
	store     *store.Store
	client    *asynq.Client
	inspector *asynq.Inspector
	commands  *commands.Commands
	hand      func(context.Context, turns.OutboxEntry) error
	workers   []*worker
	counts    map[string]int
}

const configuration = `redis: %s
shards: 4
data: %s
limits: {lease: 3s, start: 8s, silence: 10s, run: 30s, grace: 1s, deliveries: 8, attempts: 20, losses: 30}
services:
  main:   {agent: command, concurrency: 4, command: [%[3]s, %[4]s, "%[5]d"]}
  spare:  {agent: command, concurrency: 4, command: [%[3]s, %[4]s, "%[5]d"]}
  review: {agent: command, concurrency: 4, command: [%[3]s, %[4]s, "%[5]d"]}
roles:
  owner:    {services: [main, spare]}
  reviewer: {services: [review, spare]}
  arbiter:  {services: [spare]}
`

// newField builds the programs and starts a Redis. With wrong, some workers have
// a wrong clock.
func newField(t *testing.T, seed uint64, wrong bool) *field {
	t.Helper()
	f := &field{t: t, ctx: t.Context(), dir: t.TempDir(), seed: seed, counts: map[string]int{},
		redis: redistest.Start(t, redistest.AppendOnly(), redistest.AppendFsync("always"))}
	out, err := exec.Command("go", "build", "-o", f.dir+"/", "rota/cmd/worker", "rota/integration/chaos/actor").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	file := filepath.Join(f.dir, "rota.yaml")
	text := fmt.Sprintf(configuration, f.redis.URL(), filepath.Join(f.dir, "places"), filepath.Join(f.dir, "actor"), f.dir, seed)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	f.rdb = f.redis.Client()
	if f.store, err = store.Open(f.ctx, f.rdb, store.Options{Shards: cfg.Shards, Plan: pairs.Plan, Crew: cfg.Crew(), Rules: cfg.Rules()}); err != nil {
		t.Fatal(err)
	}
	relay := scheduler.NewRelay(f.store, slog.New(slog.DiscardHandler), nil)
	f.client, f.inspector = asynq.NewClientFromRedisClient(f.rdb), asynq.NewInspectorFromRedisClient(f.rdb)
	f.hand = relay.Hand
	f.commands = &commands.Commands{Store: f.store, Hand: relay.Hand, Hurry: func(ctx context.Context, a turns.Attempt, _ store.Ask) error {
		return tasks.Hurry(ctx, f.rdb, a.ID)
	}}
	for _, service := range []string{"main", "main", "spare", "review", "review"} {
		f.workers = append(f.workers, &worker{f: f, service: service, program: "worker", link: redistest.Proxy(t, f.redis.Addr)})
	}
	if wrong {
		f.wrongClocks()
	}
	t.Cleanup(f.clean)
	return f
}

// wrongClocks gives a worker of two services a clock that is five minutes off, with
// a sibling whose clock is right.
func (f *field) wrongClocks() {
	f.t.Helper()
	for i, off := range map[int]time.Duration{1: 5 * time.Minute, 4: -5 * time.Minute} {
		w := f.workers[i]
		w.program = fmt.Sprintf("worker%+.0fm", off.Minutes())
		if err := wrongclock.Build(filepath.Join(f.dir, w.program), "rota/cmd/worker", off); err != nil {
			f.t.Fatal(err)
		}
	}
}

// clean leaves no process behind, whatever happened.
func (f *field) clean() {
	for _, w := range f.workers {
		if w.cmd != nil && !w.gone() {
			w.kill()
		}
		if f.t.Failed() {
			f.t.Logf("end of the log of a worker for %s:\n%s", w.service, w.tail())
		}
	}
	for _, p := range f.agents() {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
}

// count counts what was done.
func (f *field) count(what string) { f.counts[what]++ }

func (f *field) tell(accepted []string) {
	f.t.Logf("seed %d: %d tasks, %d moves; what was done:", f.seed, len(accepted), f.moves(accepted))
	for _, what := range slices.Sorted(maps.Keys(f.counts)) {
		f.t.Logf("  %4d %s", f.counts[what], what)
	}
}

// moves counts the moves of all turns, by verb.
func (f *field) moves(accepted []string) int {
	n := 0
	for _, name := range accepted {
		t, err := f.store.Thread(f.ctx, name)
		if err != nil {
			continue
		}
		for i := range t.Turns {
			log, _ := f.store.Log(f.ctx, turns.TurnID(name, i+1))
			for _, e := range log {
				f.count("move " + string(e.Verb))
				n++
			}
		}
	}
	return n
}

// until repeats what may fail while Redis is away.
func (f *field) until(d time.Duration, do func(context.Context) error) bool {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(f.ctx, 2*time.Second)
		err := do(ctx)
		cancel()
		if err == nil {
			return true
		}
	}
	return false
}

func (f *field) await(what string, reached func() bool) {
	f.t.Helper()
	for end := time.Now().Add(patience); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("seed %d: waited %s for %s\n%s", f.seed, patience, what, f.picture())
		}
	}
}

// picture is the story of what is still open.
func (f *field) picture() string {
	var b strings.Builder
	names, _ := f.store.Threads(f.ctx, 0)
	for _, name := range names {
		t, err := f.store.Thread(f.ctx, name)
		if err != nil || t.OpenTurn == "" {
			continue
		}
		fmt.Fprintf(&b, "%s: open %s, hold %d until %s\n", name, t.OpenTurn, t.Hold, t.HoldUntil.Format(time.TimeOnly))
		log, _ := f.store.Log(f.ctx, t.OpenTurn)
		for _, e := range log {
			fmt.Fprintf(&b, "  %s %s %s: %s -> %s by %s, fence %d, %s\n", e.At.Format("15:04:05.000"), e.Attempt, e.Verb, e.From, e.To, e.Service, e.Fence, e.Reason)
		}
	}
	return b.String()
}

// entry is a line of the ledger.
type entry struct {
	Event, Thread, Turn, Attempt, Role, Fence string
	PID                                       int
}

// ledger is the judge: in a thread, nothing of a run follows on the start of a run
// with a higher fence, and no fence starts twice.
func (f *field) ledger() {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, "ledger.jsonl"))
	if err != nil {
		f.t.Fatal(err)
	}
	type mark struct {
		fence int64
		by    entry
	}
	last := map[string]mark{}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			f.t.Errorf("ledger, line %d: %v", n, err)
			continue
		}
		fence, _ := strconv.ParseInt(e.Fence, 10, 64)
		before := last[e.Thread]
		switch {
		case e.Event == "start" && fence <= before.fence:
			f.t.Errorf("line %d: %s started with fence %d after %d (%s)", n, e.Attempt, fence, before.fence, before.by.Attempt)
		case e.Event == "start":
			f.count("runs")
			last[e.Thread] = mark{fence, e}
		case fence < before.fence:
			f.t.Errorf("line %d: %s of %s (fence %d, pid %d) after the start of %s (fence %d, pid %d)", n, e.Event, e.Attempt, fence, e.PID,
				before.by.Attempt, before.fence, before.by.PID)
		}
	}
	f.t.Logf("%d lines in the ledger", n)
}

// agents are the living processes that an agent of this field is or has started.
func (f *field) agents() []processes.Process {
	return slices.DeleteFunc(processes.All(), func(p processes.Process) bool {
		fence := slices.ContainsFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, "ROTA_FENCE=") })
		ours := slices.ContainsFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, "ROTA_WORKSPACE="+f.dir) })
		return !fence || !ours || !p.Living()
	})
}

func (f *field) agentsGone() {
	f.t.Helper()
	for _, p := range f.agents() {
		f.t.Errorf("agent left: %d %s", p.PID, p.Args)
	}
}

// worker is one worker process, started again each time it dies.
type worker struct {
	f       *field
	service string
	program string
	cmd     *exec.Cmd
	done    chan struct{}
	link    *redistest.Link // its way to Redis, also its guards'
	resume  time.Time       // when a stopped one goes on
	mend    time.Time       // when a cut way is mended

	mu  sync.Mutex
	log bytes.Buffer
}

func (w *worker) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *worker) tail() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := w.log.String()
	return text[max(0, len(text)-5000):]
}

func (w *worker) start() {
	w.cmd = exec.Command(filepath.Join(w.f.dir, w.program), "--service", w.service, "--config", filepath.Join(w.f.dir, "rota.yaml"), "--redis", w.link.URL(), "--http", "127.0.0.1:0", "--log", "json")
	w.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ROTA_") || strings.HasPrefix(v, "HOME=") }), "HOME="+w.f.dir)
	w.cmd.Stdout, w.cmd.Stderr = w, w
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := w.cmd.Start(); err != nil {
		w.f.t.Fatal(err)
	}
	cmd, done := w.cmd, make(chan struct{})
	w.done = done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
}

func (w *worker) signal(s syscall.Signal) { _ = w.cmd.Process.Signal(s) }

func (w *worker) gone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

func (w *worker) kill() {
	w.signal(syscall.SIGKILL)
	<-w.done
	w.resume = time.Time{}
}

func (w *worker) guards() []int {
	return processes.Guards(w.cmd.Process.Pid)
}

func (f *field) startAll() {
	for _, w := range f.workers {
		w.start()
	}
}

// stopAll ends the workers as a service supervisor does.
func (f *field) stopAll() {
	for _, w := range f.workers {
		w.signal(syscall.SIGTERM)
	}
	for _, w := range f.workers {
		select {
		case <-w.done:
		case <-time.After(time.Minute):
			f.t.Errorf("a worker for %s did not end after SIGTERM", w.service)
			w.kill()
		}
	}
}

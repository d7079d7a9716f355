package integration

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"rota/agents"
	"rota/commands"
	"rota/credentials"
	"rota/handlers"
	"rota/internal/metrics"
	"rota/internal/redistest"
	"rota/pairs"
	"rota/scheduler"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
	"rota/workspaces"
)

// What the promises cost, counted: round trips, commands and bytes are exact and
// are asserted; times are printed, and asserted as ratios with much room only.

// till is a handler with all that it needs, in this process, on a Redis of its own.
type till struct {
	*testing.T
	rdb      *redis.Client
	counter  *redistest.Counter
	store    *store.Store
	commands *commands.Commands
	handler  *handlers.Handler
	handed   []turns.OutboxEntry
}

// speech is an agent that says a text at once.
type speech struct{ text string }

func (speech) Kind() string                { return "scripted" }
func (speech) Check(context.Context) error { return nil }

func (s speech) Run(_ context.Context, t agents.Task, report agents.Reporter) (agents.Result, error) {
	if err := report.Accepted(); err != nil {
		return agents.Result{}, err
	}
	o := turns.Done
	if t.Role == turns.Reviewer {
		o = turns.Approve
	}
	return agents.Result{Text: s.text, Outcome: o, Session: "session-of-" + t.Thread}, nil
}

func newTill(t *testing.T, text string) *till {
	t.Helper()
	o := &till{T: t, rdb: redistest.Start(t).Client(), counter: &redistest.Counter{}}
	const service = "claude"
	seat := turns.Seat{Services: []string{service}}
	var err error
	o.store, err = store.Open(t.Context(), o.rdb, store.Options{Plan: pairs.Plan, Crew: turns.Crew{turns.Owner: seat, turns.Reviewer: seat}})
	if err != nil {
		t.Fatal(err)
	}
	logins, err := credentials.New(o.rdb, credentials.Config{Services: map[string]credentials.Service{service: {Agent: "scripted"}}})
	if err != nil {
		t.Fatal(err)
	}
	relay := scheduler.NewRelay(o.store, discard, nil)
	hand := func(ctx context.Context, e turns.OutboxEntry) error {
		if e.Attempt != "" {
			o.handed = append(o.handed, e)
		}
		return relay.Hand(ctx, e)
	}
	o.commands = &commands.Commands{Store: o.store, Hand: hand}
	o.handler = &handlers.Handler{Service: service, Worker: "w1", Agent: speech{text}, ReadOnly: true, Structured: true, Store: o.store, Hand: hand,
		Runs: handlers.NewRuns(o.store, discard), Workspaces: &workspaces.Workspaces{Dir: t.TempDir()}, Credentials: logins, Log: discard,
		Metrics: metrics.New(prometheus.NewRegistry())}
	return o
}

// opens opens a paired task.
func (o *till) opens(thread, text string) {
	o.Helper()
	if _, err := o.commands.Task(o.Context(), commands.TaskAsk{Thread: thread, Text: text}); err != nil {
		o.Fatal(err)
	}
}

// carries delivers the attempt that was handed on to the handler.
func (o *till) carries() turns.OutboxEntry {
	o.Helper()
	if len(o.handed) == 0 {
		o.Fatal("nothing was handed on")
	}
	e := o.handed[0]
	o.handed = o.handed[1:]
	if err := o.handler.ProcessTask(o.Context(), tasks.NewTurnTask(e, nil)); err != nil {
		o.Fatal(err)
	}
	return e
}

// A healthy turn of a paired task, from its message to the enqueue of the next
// one: claim it, read it, read what is asked and choose a login in one; start;
// settle and open the next; hand it on with its wake-up.
func TestPriceOfATurn(t *testing.T) {
	o := newTill(t, "looks good")
	for _, thread := range []string{"warm", "up"} {
		o.opens(thread, "do it")
		for range 3 {
			o.carries()
		}
	}
	o.rdb.AddHook(o.counter)
	o.opens("fix", "do it")
	for n, most := range []struct{ trips, scripts, commands int }{{4, 5, 14}, {4, 5, 17}, {3, 4, 17}} {
		o.counter.Reset()
		e := o.carries()
		names := o.counter.ByName()
		t.Logf("%s: %d round trips, %d commands: %v", e.Turn, o.counter.RoundTrips(), o.counter.Commands(), names)
		if o.counter.RoundTrips() > most.trips || names["evalsha"] > most.scripts || o.counter.Commands() > most.commands {
			t.Errorf("turn %d costs %d round trips, %d scripts, %d commands; at most %+v", n+1, o.counter.RoundTrips(), names["evalsha"], o.counter.Commands(), most)
		}
	}
	if p, err := o.store.Paired(t.Context(), "fix#1"); err != nil || p.Status != turns.PairCompleted {
		t.Fatal(p, err)
	}
}

// bytesSent adds up what is sent, by command and queue.
type bytesSent struct {
	mu   sync.Mutex
	sent map[string]int
}

func (b *bytesSent) DialHook(next redis.DialHook) redis.DialHook { return next }

func (b *bytesSent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		b.add(cmd)
		return next(ctx, cmd)
	}
}

func (b *bytesSent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		b.add(cmds...)
		return next(ctx, cmds)
	}
}

func (b *bytesSent) add(cmds ...redis.Cmder) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.sent == nil {
		b.sent = map[string]int{}
	}
	for _, cmd := range cmds {
		who := cmd.Name()
		for _, arg := range cmd.Args() {
			if s, ok := arg.(string); ok && strings.HasPrefix(s, "asynq:") {
				who = "asynq"
			}
		}
		for _, arg := range cmd.Args() {
			switch v := arg.(type) {
			case string:
				b.sent[who] += len(v)
			case []byte:
				b.sent[who] += len(v)
			}
		}
	}
}

// A long prompt is sent to Lua once, when its turn is opened, and a long answer
// once, when its turn is settled; asynq sees neither.
func TestLongTextsGoThroughLuaOnce(t *testing.T) {
	const size = 200 << 10
	prompt, answer := strings.Repeat("p", size), strings.Repeat("a", size)
	o := newTill(t, answer)
	o.opens("warm", "do it")
	for range 3 {
		o.carries()
	}
	sent := &bytesSent{}
	o.rdb.AddHook(sent)
	o.opens("fix", prompt)
	for range 3 {
		o.carries()
	}
	t.Logf("bytes sent: %v", sent.sent)
	// One prompt and three answers of three turns, with room for everything else.
	if got := sent.sent["evalsha"]; got < 4*size || got > 4*size+40<<10 {
		t.Errorf("%d bytes went to scripts: four long texts are %d", got, 4*size)
	}
	if got := sent.sent["asynq"]; got == 0 || got > 8<<10 {
		t.Errorf("%d bytes went to asynq in three turns", got)
	}
	for name, n := range sent.sent {
		if name != "evalsha" && n > 8<<10 {
			t.Errorf("%d bytes went out by %s", n, name)
		}
	}
	text, err := o.store.Text(t.Context(), "fix/2")
	if err != nil || text != answer {
		t.Errorf("the answer is kept whole: %d bytes, %v", len(text), err)
	}
}

// mostPerPass bounds the commands of a pass that finds nothing: one look a shard, one
// look at the server and at each queue, and a bounded comparison of some open turns.
var mostPerPass = map[string]int{"evalsha": store.DefaultShards, "info": 1, "config": 1, "llen": 1, "zrange": 1, "hmget": 50, "zscore": 50}

// A pass costs the same whatever is stored: its commands are bounded, and its time
// is much less than twenty times more with twenty times the open turns.
func TestPassCostsWhatIsDue(t *testing.T) {
	rdb := redistest.Start(t).Client()
	var counter redistest.Counter
	seat := turns.Seat{Services: []string{"claude"}}
	// Nothing becomes due while it is measured.
	s, err := store.Open(t.Context(), rdb, store.Options{Plan: pairs.Plan, Crew: turns.Crew{turns.Owner: seat}, Grace: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	open := func(from, to int) {
		t.Helper()
		var all sync.WaitGroup
		for w := range 8 {
			all.Go(func() {
				for n := from + w; n < to; n += 8 {
					if _, err := s.OpenTurn(t.Context(), store.NewTurn{Command: "c", Thread: fmt.Sprintf("t%d", n), Role: turns.Owner,
						Intent: turns.Work, Seat: seat, Prompt: "do it"}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	pass := scheduler.NewReconciler(scheduler.Config{Store: s, Relay: scheduler.NewRelay(s, discard, nil), Log: discard, Services: []string{"claude"}})
	const passes = 2 * store.DefaultShards
	const mostTrips = 4 // its server, all looks with the comparison and the queues, and two for what is compared
	cost := func() (commands map[string]int, micros int64) {
		t.Helper()
		if _, err := pass.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		before, err := redistest.CommandTimes(t.Context(), rdb)
		if err != nil {
			t.Fatal(err)
		}
		counter.Reset()
		for range passes {
			report, err := pass.Pass(t.Context())
			if err != nil || len(report.Found) > 0 || len(report.Problems) > 0 {
				t.Fatal(report, err)
			}
		}
		commands = counter.ByName()
		if trips := counter.RoundTrips(); trips > passes*mostTrips {
			t.Errorf("%d passes take %d round trips, at most %d each", passes, trips, mostTrips)
		}
		after, err := redistest.CommandTimes(t.Context(), rdb)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Collect(maps.Keys(commands)) {
			micros += after[name].Micros - before[name].Micros
		}
		return commands, micros
	}
	rdb.AddHook(&counter)
	open(0, 1000)
	few, fewMicros := cost()
	open(1000, 20_000)
	many, manyMicros := cost()
	t.Logf("a pass over 1,000 open turns: %d µs of Redis' time; over 20,000: %d µs; commands of %d passes: %v", fewMicros/passes, manyMicros/passes, passes, many)
	for name, n := range many {
		if n > passes*mostPerPass[name] {
			t.Errorf("%d passes over 20,000 open turns: %d × %s, at most %d; over 1,000: %d", passes, n, name, passes*mostPerPass[name], few[name])
		}
	}
	if manyMicros > 10*fewMicros {
		t.Errorf("20 times the open turns cost %d times the time", manyMicros/max(fewMicros, 1))
	}
}

// An idle worker asks Redis so and so often, whatever happens elsewhere.
func TestIdleWorkerIsQuiet(t *testing.T) {
	r := newRig(t, setup{limits: "{lease: 30s, grace: 1s}"})
	w := r.start("claude")
	r.await("the worker to wait for its queue", func() bool { return w.logged("service served") })
	const window = 5 * time.Second
	// A window, not a wait for something: what is counted is what happens in it.
	read := func() (map[string]redistest.CommandTime, time.Time) {
		times, err := redistest.CommandTimes(t.Context(), r.rdb)
		if err != nil {
			t.Fatal(err)
		}
		return times, time.Now()
	}
	time.Sleep(time.Second)
	before, began := read()
	time.Sleep(window)
	after, end := read()
	calls := map[string]int64{}
	var asked int64
	for name, now := range after {
		if n := now.Calls - before[name].Calls; n > 0 {
			calls[name] = n
			// What scripts call is asked by nobody.
			if slices.Contains([]string{"evalsha", "hgetall", "publish", "subscribe", "ping", "info", "llen", "zrange", "smembers", "get", "zscore"}, name) {
				asked += n
			}
		}
	}
	rate := float64(asked) / end.Sub(began).Seconds()
	t.Logf("an idle worker asks %.0f commands a second: %v in %s", rate, calls, end.Sub(began).Round(time.Millisecond))
	if rate > 60 {
		t.Errorf("an idle worker asks %.0f commands a second", rate)
	}
}

// One call of one script ends a dead letter with 2,000 open items in 50 child
// threads below it.
func TestCompensationOfManyItemsIsOneCall(t *testing.T) {
	rdb := redistest.Start(t).Client()
	var counter redistest.Counter
	seat := turns.Seat{Services: []string{"claude"}}
	s, err := store.Open(t.Context(), rdb, store.Options{Plan: pairs.Plan, Crew: turns.Crew{turns.Owner: seat}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	fill := func(thread string, children, each int) store.Run {
		t.Helper()
		o, err := s.OpenTurn(ctx, store.NewTurn{Command: "c", Thread: thread, Role: turns.Owner, Intent: turns.Work, Seat: seat, Prompt: "do it"})
		if err != nil {
			t.Fatal(err)
		}
		e := o.Outbox
		a, err := s.Claim(ctx, store.Claim{Attempt: e.Attempt, Service: e.Service, Role: e.Role, Intent: e.Intent, Stamp: e.Stamp, Run: turns.NewToken(), Worker: "w1", Agent: "scripted"})
		if err != nil || a.Answer != store.Claimed {
			t.Fatal(a, err)
		}
		for c := range children {
			child, err := s.Item(ctx, a.Run, turns.Item{ID: fmt.Sprintf("child-%d", c), Kind: turns.ItemSubAgent, State: turns.ItemOpen, Turn: e.Turn, Child: fmt.Sprintf("c%d", c)})
			if err != nil {
				t.Fatal(err)
			}
			for i := range each - 1 {
				if _, err := s.Item(ctx, a.Run, turns.Item{ID: fmt.Sprintf("tool-%d-%d", c, i), Kind: turns.ItemTool, State: turns.ItemOpen, Thread: child}); err != nil {
					t.Fatal(err)
				}
			}
		}
		return a.Run
	}
	rdb.AddHook(&counter)
	micros := func(thread string, children, each int) int64 {
		t.Helper()
		run := fill(thread, children, each)
		before, err := redistest.CommandTimes(ctx, rdb)
		if err != nil {
			t.Fatal(err)
		}
		counter.Reset()
		if _, err := s.Compensate(ctx, run, turns.Ending{Class: turns.ClassCrash, Error: "it never started"}); err != nil {
			t.Fatal(err)
		}
		if n := counter.ByName()["evalsha"] + counter.ByName()["eval"]; n > 2 { // the second when the script was not loaded
			t.Errorf("%d items were closed in %d calls", children*each, n)
		}
		after, err := redistest.CommandTimes(ctx, rdb)
		if err != nil {
			t.Fatal(err)
		}
		left, err := s.OpenItems(ctx, thread)
		if err != nil || len(left) != 0 {
			t.Fatalf("%d items are left open, %v", len(left), err)
		}
		return after["evalsha"].Micros + after["eval"].Micros - before["evalsha"].Micros - before["eval"].Micros
	}
	micros("warm", 1, 2)
	small := micros("small", 5, 40)
	large := micros("large", 50, 40)
	t.Logf("200 items in 5 child threads: %d µs of Redis' time; 2,000 in 50: %d µs", small, large)
	if large > 40*max(small, 200) {
		t.Errorf("ten times the items cost %d times the time", large/max(small, 1))
	}
}

package handlers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"rota/agents"
	"rota/internal/metrics"
	"rota/internal/redact"
	"rota/internal/redistest"
	"rota/pairs"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
	"rota/workspaces"
)

// shop is one worker's inside over a store, with an agent that a test speaks for.
type shop struct {
	*testing.T
	ctx     context.Context
	s       *store.Store
	runs    *Runs
	h       *Handler
	control *Control
}

// played is an agent that is one function.
type played func(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error)

func (played) Kind() string                { return "scripted" }
func (played) Check(context.Context) error { return nil }
func (p played) Run(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
	return p(ctx, task, report)
}

func newShop(t *testing.T, rdb redis.UniversalClient, limits turns.Limits, agent played) *shop {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	seat := turns.Seat{Services: []string{"codex-main"}, Limits: limits.WithDefaults()}
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan, Crew: turns.Crew{turns.Owner: seat, turns.Reviewer: seat, turns.Arbiter: seat}})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	set := metrics.New(prometheus.NewRegistry())
	places := &workspaces.Workspaces{Dir: t.TempDir()}
	runs := NewRuns(s, log)
	o := &shop{T: t, ctx: ctx, s: s, runs: runs, h: &Handler{
		Service: "codex-main", Worker: "w1", Agent: agent, ReadOnly: true, Structured: true, Store: s, Runs: runs, Workspaces: places,
		Hand:   func(context.Context, turns.OutboxEntry) error { return nil },
		Served: func(context.Context, string) (bool, error) { return true, nil },
		Log:    log, Metrics: set,
	}, control: &Control{Service: "codex-main", Store: s, Runs: runs, Workspaces: places, Log: log, Metrics: set}}
	done := make(chan struct{})
	go func() { defer close(done); _ = runs.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return o
}

// open opens a paired task with the owner's first turn, ready to be carried out.
func (o *shop) open(thread, workdir string) turns.OutboxEntry {
	o.Helper()
	plan, err := pairs.Begin(thread, 1, o.s.Crew())
	if err != nil {
		o.Fatal(err)
	}
	opened, err := o.s.OpenTurn(o.ctx, store.NewTurn{
		Command: "open:" + thread, Thread: thread, Workspace: workdir, Role: plan.Next.Role, Intent: plan.Next.Intent,
		Seat:   turns.Seat{Services: plan.Next.Services, Limits: plan.Next.Limits},
		Prompt: "do it", Reason: "task", Paired: &plan.Paired, New: true,
	})
	if err != nil {
		o.Fatal(err)
	}
	return opened.Outbox
}

// carry delivers an attempt to the handler, as asynq does.
func (o *shop) carry(e turns.OutboxEntry) error {
	task := tasks.NewTurnTask(e, nil)
	err := o.h.ProcessTask(o.ctx, task)
	if err != nil {
		o.h.HandleError(o.ctx, task, err)
	}
	return err
}

// await waits for a state.
func (o *shop) await(what string, reached func() bool) {
	o.Helper()
	for deadline := time.Now().Add(90 * time.Second); !reached(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			o.Fatalf("waited in vain for %s", what)
		}
	}
}

func (o *shop) messages(turn string) []turns.Message {
	o.Helper()
	t, err := o.s.Turn(o.ctx, turn)
	if err != nil {
		o.Fatal(err)
	}
	list, err := o.s.Waiting(o.ctx, t.Thread)
	if err != nil {
		o.Fatal(err)
	}
	th, err := o.s.Thread(o.ctx, t.Thread)
	if err != nil {
		o.Fatal(err)
	}
	for n := t.Number + 1; n <= th.Turns; n++ {
		said, err := o.s.Said(o.ctx, turns.TurnID(t.Thread, n))
		if err != nil {
			o.Fatal(err)
		}
		list = append(list, said...)
	}
	return list
}

// A thousand steers race the end of their turns: each one that was accepted is
// taken by exactly one run, or is the next human message, once.
func TestSteersRaceTheEnd(t *testing.T) {
	const steers = 20
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		threads := 50
		if strings.HasSuffix(t.Name(), "miniredis") {
			threads = 10 // it is slow
		}
		var mu sync.Mutex
		took := map[string]int{}
		o := newShop(t, rdb, turns.Limits{}, func(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
			if err := report.Accepted(); err != nil {
				return agents.Result{}, err
			}
			end := time.After(rand.N(60 * time.Millisecond))
			for {
				select {
				case c := <-task.Controls:
					mu.Lock()
					took[c.Text]++
					mu.Unlock()
					c.Done(nil)
				case <-end:
					return agents.Result{Text: "done", Outcome: turns.Done}, nil
				}
			}
		})
		var mine sync.Mutex
		accepted := map[string]string{} // text -> turn
		refused := 0
		var all sync.WaitGroup
		few := make(chan struct{}, 5) // at once
		for n := range threads {
			few <- struct{}{}
			e := o.open(fmt.Sprintf("race-%d", n), "")
			ended := make(chan struct{})
			all.Go(func() {
				defer func() { close(ended); <-few }()
				if err := o.carry(e); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() {
				o.await("the claim", func() bool { a, err := o.s.Attempt(o.ctx, e.Attempt); return err == nil && a.State != turns.Queued })
				for k := range steers {
					text := fmt.Sprintf("%s say %d", e.Turn, k)
					err := o.s.Ask(o.ctx, e.Attempt, store.Ask{ID: fmt.Sprint("k", k), Kind: "steer", Text: text, At: time.Now()})
					o.runs.Hurry(e.Attempt)
					mine.Lock()
					switch {
					case err == nil:
						accepted[text] = e.Turn
					case errors.Is(err, store.ErrMoved):
						refused++
					default:
						t.Error(err)
					}
					mine.Unlock()
					time.Sleep(rand.N(2 * time.Millisecond))
				}
				<-ended
			})
		}
		all.Wait()
		runs, next := 0, 0
		waiting := map[string]int{}
		for n := range threads {
			for _, m := range o.messages(fmt.Sprintf("race-%d/1", n)) {
				waiting[m.Text]++
			}
		}
		for text := range accepted {
			if took[text]+waiting[text] != 1 {
				t.Errorf("%q reached %d runs and %d messages, want one of them", text, took[text], waiting[text])
			}
			runs, next = runs+took[text], next+waiting[text]
		}
		t.Logf("%d steers: %d taken by the run, %d became the next message, %d refused after the end", threads*steers, runs, next, refused)
		if runs+next+refused != threads*steers {
			t.Error("a steer was neither taken, nor kept, nor refused")
		}
		if runs == 0 || next == 0 {
			t.Log("on this machine the race had one side only")
		}
	})
}

// A run that dies between hand-over and mark: its successor gets the text again,
// marked so, and nobody after it.
func TestSteerAgainAfterALoss(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		var mu sync.Mutex
		var heard []string
		first := make(chan struct{})
		o := newShop(t, rdb, turns.Limits{}, func(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
			if err := report.Accepted(); err != nil {
				return agents.Result{}, err
			}
			c := <-task.Controls
			mu.Lock()
			heard = append(heard, c.Text)
			n := len(heard)
			mu.Unlock()
			if n == 1 { // handed over, never marked
				close(first)
				<-ctx.Done()
				return agents.Result{}, context.Cause(ctx)
			}
			c.Done(nil)
			return agents.Result{Text: "done", Outcome: turns.Done}, nil
		})
		e := o.open("lost", "")
		var run sync.WaitGroup
		run.Go(func() { _ = o.carry(e) })
		o.await("the run", func() bool { a, _ := o.s.Attempt(o.ctx, e.Attempt); return a.State == turns.Running })
		if err := o.s.Ask(o.ctx, e.Attempt, store.Ask{ID: "k", Kind: "steer", Text: "use the new API"}); err != nil {
			t.Fatal(err)
		}
		o.runs.Hurry(e.Attempt)
		<-first
		a, err := o.s.Attempt(o.ctx, e.Attempt)
		if err != nil {
			t.Fatal(err)
		}
		next, _, err := o.s.LoseOrEnd(o.ctx, a, true, "given back by its guard")
		if err != nil {
			t.Fatal(err)
		}
		o.runs.Kick()
		run.Wait()
		if err := o.carry(next); err != nil {
			t.Fatal(err)
		}
		if len(heard) != 2 || heard[0] != "use the new API" || heard[1] != again+"use the new API" {
			t.Errorf("heard %q", heard)
		}
		if left := o.messages(e.Turn); len(left) != 0 {
			t.Errorf("it is said a third time: %v", left)
		}
	})
}

// An agent that can't be steered answers so, and the text is the next message.
func TestSteerNotTaken(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		o := newShop(t, rdb, turns.Limits{}, func(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
			if err := report.Accepted(); err != nil {
				return agents.Result{}, err
			}
			(<-task.Controls).Done(errors.New("this agent can't take a steer"))
			return agents.Result{Text: "done", Outcome: turns.Done}, nil
		})
		e := o.open("deaf", "")
		var run sync.WaitGroup
		run.Go(func() { _ = o.carry(e) })
		o.await("the run", func() bool { a, _ := o.s.Attempt(o.ctx, e.Attempt); return a.State == turns.Running })
		if err := o.s.Ask(o.ctx, e.Attempt, store.Ask{ID: "k", Kind: "steer", Text: "listen"}); err != nil {
			t.Fatal(err)
		}
		request := asynq.NewTask(string(tasks.TurnSteer), []byte(`{"v":1,"thread":"deaf","turn":"deaf/1","attempt":"deaf/1.1","id":"k"}`))
		if err := o.control.ProcessTask(o.ctx, request); err != nil {
			t.Fatal(err)
		}
		run.Wait()
		asks, err := o.s.Asks(o.ctx, e.Turn, 0)
		if err != nil || len(asks) != 1 || asks[0].Answer != "not taken: this agent can't take a steer" {
			t.Errorf("answered %+v, %v", asks, err)
		}
		if left := o.messages(e.Turn); len(left) != 1 || left[0].Text != "listen" {
			t.Errorf("messages %+v", left)
		}
	})
}

// A question that nobody answers ends in time: its item says so, and the agent is
// told no.
func TestQuestionTimesOut(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		told := agents.Control{}
		o := newShop(t, rdb, turns.Limits{Silence: 300 * time.Millisecond}, func(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
			if err := report.Accepted(); err != nil {
				return agents.Result{}, err
			}
			ask := turns.Item{ID: "ask-1", Kind: turns.ItemRequest, State: turns.ItemOpen, Title: "may I?", Thread: task.Thread, Turn: task.Turn, Attempt: task.Attempt}
			if err := report.Item(ask); err != nil {
				return agents.Result{}, err
			}
			told = <-task.Controls
			told.Done(nil)
			return agents.Result{Text: "done", Outcome: turns.Done}, nil
		})
		e := o.open("asks", "")
		if err := o.carry(e); err != nil {
			t.Fatal(err)
		}
		if told.Kind != agents.Respond || told.Item != "ask-1" || told.Text != "no" {
			t.Errorf("told %+v", told)
		}
		items, err := o.s.DoneItems(o.ctx, e.Turn)
		if err != nil || len(items) != 1 || items[0].State != turns.ItemCancelled || !strings.Contains(items[0].Title, "nobody answered within") {
			t.Errorf("items %+v, %v", items, err)
		}
	})
}

// A question that was answered in time is not timed out.
func TestAnsweredQuestionKeepsItsAnswer(t *testing.T) {
	l := &live{turn: turns.Turn{Limits: turns.Limits{Silence: time.Hour}}}
	ask := turns.Item{ID: "q", Kind: turns.ItemRequest, State: turns.ItemOpen}
	l.question(ask, func(turns.Item) { t.Error("it timed out") })
	timer := l.questions["q"].timer
	ask.State = turns.ItemCompleted
	l.question(ask, nil)
	if len(l.questions) != 0 || timer.Stop() {
		t.Error("its clock still runs")
	}
}

// What a draining worker, or an older one, is delivered goes to another worker and
// counts nowhere: not in asynq, not in the turn.
func TestLeftToAnotherWorker(t *testing.T) {
	o := newShop(t, redistest.Mini(t), turns.Limits{}, nil)
	e := o.open("other", "")
	newer := tasks.PayloadOf(e)
	newer.Version = tasks.PayloadVersion + 1
	for name, deliver := range map[string]func() error{
		"newer payload": func() error {
			return o.h.ProcessTask(o.ctx, asynq.NewTask(string(tasks.TurnStart), newer.Encode()))
		},
		"newer request": func() error {
			return o.control.ProcessTask(o.ctx, asynq.NewTask(string(tasks.TurnSteer), []byte(`{"v":99,"who":"knows"}`)))
		},
		"draining": func() error { o.runs.Drain(); return o.carry(e) },
	} {
		err := deliver()
		if err == nil || errors.Is(err, asynq.SkipRetry) {
			t.Errorf("%s: %v, want a retry", name, err)
		}
		if name != "newer request" && IsFailure(err) || name == "newer request" && IsControlFailure(err) {
			t.Errorf("%s: it counts: %v", name, err)
		}
		if after := min(RetryDelay(0, err, nil), ControlRetryDelay(0, err, nil)); errors.Is(err, tasks.ErrVersion) && after < versionDelay {
			t.Errorf("%s: it comes again after %v: a load for whoever can't read it", name, after)
		}
		if name == "draining" && RetryDelay(0, err, nil) != 0 {
			t.Error("another worker waits for a drained one's task")
		}
	}
	if a, err := o.s.Attempt(o.ctx, e.Attempt); err != nil || a.State != turns.Queued || a.Deliveries != 0 {
		t.Errorf("the attempt was touched: %+v, %v", a, err)
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=T", "-c", "user.email=t@example.com"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// What is done to a thread beside its turns waits for no run and disturbs none,
// however wrong the worker's clock is.
func TestUpkeep(t *testing.T) {
	for name, off := range map[string]time.Duration{"clock right": 0, "clock behind": 5 * time.Minute, "clock ahead": -5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			server, rdb := redistest.MiniServer(t)
			server.SetTime(time.Now().Add(off)) // Redis' time, by the worker's clock
			upkeep(t, rdb)
		})
	}
}

func upkeep(t *testing.T, rdb redis.UniversalClient) {
	repo := t.TempDir()
	git(t, repo, "init", "-q", "-b", "main")
	git(t, repo, "commit", "-q", "--allow-empty", "-m", "begin")
	release := make(chan struct{})
	o := newShop(t, rdb, turns.Limits{}, func(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
		if err := report.Accepted(); err != nil {
			return agents.Result{}, err
		}
		name := map[turns.Role]string{turns.Owner: "one.txt", turns.Reviewer: ""}[task.Role]
		if name != "" {
			if out, err := exec.Command("touch", filepath.Join(task.Workspace, name)).CombinedOutput(); err != nil {
				return agents.Result{}, fmt.Errorf("%w: %s", err, out)
			}
		}
		<-release
		return agents.Result{Text: "done", Outcome: map[turns.Role]turns.Outcome{turns.Owner: turns.Done, turns.Reviewer: turns.Approve}[task.Role], Session: "s1"}, nil
	})
	do := func(typ tasks.Type, more string) error {
		return o.control.ProcessTask(o.ctx, asynq.NewTask(string(typ), []byte(`{"v":1,"thread":"keep","service":"codex-main","id":"k"`+more+`}`)))
	}
	if err := do(tasks.WorkspaceCleanup, ""); err == nil {
		t.Error("a thread that does not exist is cleaned up")
	}
	e := o.open("keep", repo)
	var run sync.WaitGroup
	run.Go(func() {
		if err := o.carry(e); err != nil {
			t.Error(err)
		}
	})
	o.await("the run", func() bool { a, _ := o.s.Attempt(o.ctx, e.Attempt); return a.State == turns.Running })
	for _, row := range []struct {
		t    tasks.Type
		more string
	}{{tasks.SessionDetach, ""}, {tasks.WorkspaceCleanup, ""}, {tasks.CheckpointRollback, `,"ref":"refs/rota/keep/1"`}} {
		if err := do(row.t, row.more); !errors.Is(err, asynq.SkipRetry) {
			t.Errorf("%s beside a running agent: %v", row.t, err)
		}
	}
	if err := do(tasks.CheckpointCapture, ""); err != nil {
		t.Errorf("a capture disturbs nobody: %v", err)
	}
	close(release)
	run.Wait() // the owner's end is the second checkpoint, with one.txt

	place, ok, err := o.h.Workspaces.Find("keep")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	all, err := o.h.Workspaces.Checkpoints(o.ctx, "keep")
	if err != nil || len(all) != 2 {
		t.Fatalf("checkpoints %+v, %v", all, err)
	}
	git(t, place.Path, "rm", "-q", "--cached", "--ignore-unmatch", "one.txt")
	if out, err := exec.Command("rm", filepath.Join(place.Path, "one.txt")).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	if err := do(tasks.CheckpointRollback, `,"ref":"`+all[1].Ref+`"`); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ls", place.Path).CombinedOutput(); err != nil || !strings.Contains(string(out), "one.txt") {
		t.Errorf("after the rollback: %s, %v", out, err)
	}
	if err := do(tasks.CheckpointRollback, `,"ref":"refs/heads/main"`); err == nil {
		t.Error("rolled back to what is no checkpoint")
	}
	if th, _ := o.s.Thread(o.ctx, "keep"); len(th.Sessions) != 1 {
		t.Fatalf("sessions %v", th.Sessions)
	}
	if err := do(tasks.SessionDetach, ""); err != nil {
		t.Fatal(err)
	}
	if th, _ := o.s.Thread(o.ctx, "keep"); len(th.Sessions) != 0 {
		t.Errorf("sessions after the detach %v", th.Sessions)
	}
	if err := do(tasks.WorkspaceCleanup, ""); !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("cleaned up under the reviewer's open turn: %v", err)
	}
	if _, err := o.s.Cancel(o.ctx, "keep/2", "c", "enough"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it may be repeated
		if err := do(tasks.WorkspaceCleanup, ""); err != nil && !errors.Is(err, workspaces.ErrNoWorkspace) {
			t.Fatal(err)
		}
	}
	if _, ok, _ := o.h.Workspaces.Find("keep"); ok {
		t.Error("the workspace is still there")
	}
}

// What a stranger put into a control queue is logged without its secrets, and cut.
func TestControlDeadLetterIsLoggedInBounds(t *testing.T) {
	var log strings.Builder
	o := newShop(t, redistest.Mini(t), turns.Limits{}, nil)
	o.control.Log = slog.New(slog.NewTextHandler(&log, nil))
	payload := `{"token":"sk-fake-not-a-secret"} ` + strings.Repeat("x\xff", 1<<20)
	bad := asynq.NewTask(string(tasks.RequestRespond), []byte(payload))
	err := o.control.ProcessTask(o.ctx, bad)
	o.control.HandleError(o.ctx, bad, err)
	text := log.String()
	if len(text) > 3*redact.Max || strings.Contains(text, "sk-fake") || !strings.Contains(text, "request:respond") {
		t.Errorf("logged %d bytes: %.300s", len(text), text)
	}
}

// A dead letter of the control queue is seen in the metric, and nowhere else.
func TestControlDeadLetterWarns(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := newShop(t, redistest.Mini(t), turns.Limits{}, nil)
	o.control.Metrics = metrics.New(registry)
	e := o.open("calm", "")
	bad := asynq.NewTask(string(tasks.CheckpointRollback), []byte("{"))
	err := o.control.ProcessTask(o.ctx, bad)
	if !errors.Is(err, asynq.SkipRetry) {
		t.Fatal(err)
	}
	o.control.HandleError(o.ctx, bad, err)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := ""
	for _, f := range families {
		if f.GetName() == "rota_dead_letters_total" {
			counted = f.GetMetric()[0].String()
		}
	}
	for _, want := range []string{"checkpoint:rollback", "warn", "codex-main"} {
		if !strings.Contains(counted, want) {
			t.Errorf("the metric %q lacks %s", counted, want)
		}
	}
	if a, err := o.s.Attempt(o.ctx, e.Attempt); err != nil || a.State != turns.Queued {
		t.Errorf("a turn was touched: %+v, %v", a, err)
	}
}

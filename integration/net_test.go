package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// denial fails, or panics at, the compensation of an attempt while it is on.
type denial struct {
	attempt string
	panics  bool
	mu      sync.Mutex
	off     bool
	hits    int
}

func (d *denial) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *denial) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook stands in the way of the compensation.
func (d *denial) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !d.denies(cmd) {
			return next(ctx, cmd)
		}
		if d.panics {
			panic("no compensation today")
		}
		cmd.SetErr(redistest.ErrCut)
		return redistest.ErrCut
	}
}

func (d *denial) denies(cmd redis.Cmder) bool {
	args := fmt.Sprint(cmd.Args()...)
	if call, _ := point(cmd); !strings.Contains(call, ":attempt:"+d.attempt) || !strings.Contains(args, "dead letter after") {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hits++
	return !d.off
}

func (d *denial) end() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	return d.hits
}

// A compensation that fails or panics does not disturb asynq, which archives the
// task; the net finishes its work, and the turn ends visibly.
func TestNetFinishesAFailedCompensation(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		t.Run(fmt.Sprintf("panics=%v", panics), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			p := failing(`{"do":[{"error":"config","text":"no such model"}]}`)
			p.dir = scratchDir(t)
			rdb := redistest.Start(t).Client()
			d := &denial{attempt: "one/1.1", panics: panics}
			rdb.AddHook(d)
			h := newHost(t, rdb, p)
			h.work(t)
			defer h.end()
			h.reconcile()
			turn := h.lone(t, "one")
			wait(t, "the net", func() bool {
				a, err := h.store.Attempt(ctx, turn+".1")
				return err == nil && a.State == turns.Lost
			})
			if d.end() == 0 {
				t.Fatal("no compensation was tried")
			}
			inspect := asynq.NewInspectorFromRedisClient(rdb)
			wait(t, "asynq's archive", func() bool {
				at, err := inspect.GetTaskInfo("main", turn+".1")
				return err == nil && at.State == asynq.TaskStateArchived
			})
			wait(t, "the end", func() bool { u, err := h.store.Turn(ctx, turn); return err == nil && u.State == turns.Failed })
			if found, err := h.store.Verify(ctx, ""); err != nil || len(found) > 0 {
				t.Errorf("verify: %v %v", found, err)
			}
		})
	}
}

func wait(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// Only start and restart are compensated. Every other effect's dead letter is a
// warning that touches no turn, also of a run that is starting; and nothing at all
// happens for asynq's own lost lease.
func TestOnlyStartAndRestartAreCompensated(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := failing(`{"service":"main","thread":"dead","do":[{"error":"config","text":"no such model"}]}
		{"do":[{"wait":"20s"}]}`)
	p.dir = scratchDir(t)
	h := newHost(t, redistest.Start(t).Client(), p)
	handler := h.byQueue["main"]
	starting := h.claimed(t, h.lone(t, "starting"))
	for _, e := range tasks.Effects {
		for _, cause := range []error{errors.New("a failure"), fmt.Errorf("%w: for good", asynq.SkipRetry), asynq.ErrLeaseExpired} {
			handler.HandleError(ctx, asynq.NewTask(string(e.Type), []byte(`{}`)), cause)
		}
	}
	if a, err := h.store.Attempt(ctx, starting); err != nil || a.State != turns.Starting {
		t.Errorf("the run that is starting became %s (%v)", a.State, err)
	}
	dead := h.lone(t, "dead")
	task, failure := h.delivery(ctx, dead+".1")
	handler.HandleError(ctx, task, fmt.Errorf("%w (%w)", asynq.ErrLeaseExpired, failure))
	if a, err := h.store.Attempt(ctx, dead+".1"); err != nil || a.State != turns.Starting {
		t.Errorf("a lost lease of asynq made the run %s (%v)", a.State, err)
	}
	handler.HandleError(ctx, task, failure)
	handler.HandleError(ctx, task, failure) // a hook that is called twice
	if u, err := h.store.Turn(ctx, dead); err != nil || u.State != turns.Failed || u.Class != turns.ClassConfig {
		t.Errorf("the dead letter's turn is %s %s (%v)", u.State, u.Class, err)
	}
	if n := h.counted(t, "rota_hook_failures_total"); n != 0 {
		t.Errorf("%g failures of the hook", n)
	}
}

// A panic in the middle of a run is a crash like any other: counted as a delivery,
// and the turn ends visibly.
func TestPanicIsACrash(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := failing(`{"times":1,"do":[{"panic":"index out of range"}]}`)
	p.dir = scratchDir(t)
	h := newHost(t, redistest.Start(t).Client(), p)
	h.commands.Hand = nil
	turn := h.lone(t, "one")
	task, failure := h.delivery(ctx, turn+".1")
	h.byQueue["main"].HandleError(ctx, task, failure)
	a, err := h.store.Attempt(ctx, turn+".1")
	if err != nil || a.Class != turns.ClassCrash || a.State != turns.Delegated || !strings.Contains(a.Error, "index out of range") {
		t.Errorf("%s %s %q (%v)", a.State, a.Class, a.Error, err)
	}
	if _, err := h.delivery(ctx, turn+".2"); err != nil {
		t.Error(err)
	}
	if u, err := h.store.Turn(ctx, turn); err != nil || u.State != turns.Completed {
		t.Errorf("%s (%v)", u.State, err)
	}
	if found, err := h.store.Verify(ctx, ""); err != nil || len(found) > 0 {
		t.Errorf("verify: %v %v", found, err)
	}
}

// claimed takes the first attempt of a turn for a run that goes no further.
func (h *host) claimed(t *testing.T, turn string) string {
	t.Helper()
	w, err := h.store.Waiter(t.Context(), turn+".1")
	if err != nil {
		t.Fatal(err)
	}
	answer, err := h.store.Claim(t.Context(), store.Claim{Attempt: turn + ".1", Service: "main", Role: w.Entry.Role, Intent: w.Entry.Intent,
		Stamp: w.Entry.Stamp, Run: turns.NewToken(), Worker: "nobody"})
	if err != nil || answer.Answer != store.Claimed {
		t.Fatal(answer, err)
	}
	return turn + ".1"
}

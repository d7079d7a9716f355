package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"rota/commands"
	"rota/internal/redistest"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// tries is how often a race is run: ROTA_TRIES, or a number that fits a normal test.
func tries(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("ROTA_TRIES")); err == nil && n > 0 {
		return n
	}
	if testing.Short() {
		return 60
	}
	return 300
}

// failing are limits and crew of turns whose only delivery fails.
func failing(script string) plan {
	limits := crashLimits
	limits.Deliveries = 1
	return plan{crew: turns.Crew{turns.Owner: {Services: []string{"main", "spare"}, Limits: limits}}, script: script}
}

// delivery carries a queued attempt by hand, as asynq would, and returns the task
// and the handler's answer.
func (h *host) delivery(ctx context.Context, attempt string) (*asynq.Task, error) {
	w, err := h.store.Waiter(ctx, attempt)
	if err != nil {
		return nil, err
	}
	task := asynq.NewTask(string(tasks.TypeFor(w.Entry.Cause)), tasks.PayloadOf(w.Entry).Encode())
	return task, h.byQueue[w.Entry.Service].ProcessTask(ctx, task)
}

// The last delivery fails while an operator cancels, restarts or hands off the same
// turn: one wins, the other is a no-op, and the next attempt need not wait for a
// hold that nobody clears.
func TestLastFailureAgainstAnOperator(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := failing(`{"service":"main","do":[{"error":"config","text":"no such model"}]}`)
	p.dir = scratchDir(t)
	h := newHost(t, redistest.Start(t).Client(), p)
	h.commands.Hand = nil // nothing is delivered but by hand
	operators := []struct {
		name string
		do   func(turn string) error
		won  turns.State // of the first attempt
	}{
		{"cancel", func(turn string) error { _, err := h.commands.Cancel(ctx, "", turn); return err }, turns.Cancelled},
		{"restart", func(turn string) error { _, err := h.commands.Restart(ctx, "", turn); return err }, turns.Failed},
		{"handoff", func(turn string) error { _, err := h.commands.Handoff(ctx, "", turn, "spare"); return err }, turns.Delegated},
	}
	won := map[string]int{}
	for i := range tries(t) {
		o := operators[i%len(operators)]
		turn := h.lone(t, fmt.Sprintf("race-%d", i))
		task, failure := h.delivery(ctx, turn+".1")
		if !errors.Is(failure, asynq.SkipRetry) {
			t.Fatalf("the last delivery answered %v", failure)
		}
		var err error
		var both sync.WaitGroup
		both.Go(func() {
			<-time.After(time.Duration(i/3%20) * 100 * time.Microsecond) // a person's command reads before it writes
			h.byQueue["main"].HandleError(ctx, task, failure)
		})
		both.Go(func() { err = o.do(turn) })
		both.Wait()
		h.oneWon(t, o.name, turn, o.won, err, won)
	}
	t.Log(won)
	if found, err := h.store.Verify(ctx, ""); err != nil || len(found) > 0 {
		t.Errorf("verify: %v %v", found, err)
	}
}

// A run completes while an operator cancels, restarts or hands off the same turn:
// one wins, and no hold is left to wait for.
func TestEndOfARunAgainstAnOperator(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := failing(`{"do":[{"accept":true},{"wait":"2ms"},{"result":"","text":"done"}]}`)
	p.dir = scratchDir(t)
	h := newHost(t, redistest.Start(t).Client(), p)
	h.commands.Hand = nil
	won := map[string]int{}
	for i := range tries(t) {
		turn := h.lone(t, fmt.Sprintf("race-%d", i))
		var both sync.WaitGroup
		var delivered, asked error
		name := []string{"cancel", "restart", "handoff"}[i%3]
		both.Go(func() { _, delivered = h.delivery(ctx, turn+".1") })
		both.Go(func() {
			<-time.After(time.Duration(i%50) * 200 * time.Microsecond) // spreads the race over the run
			switch name {
			case "cancel":
				_, asked = h.commands.Cancel(ctx, "", turn)
			case "restart":
				_, asked = h.commands.Restart(ctx, "", turn)
			case "handoff":
				_, asked = h.commands.Handoff(ctx, "", turn, "spare")
			}
		})
		both.Wait()
		u, err := h.store.Turn(ctx, turn)
		if err != nil || delivered != nil && !errors.Is(delivered, asynq.SkipRetry) && !store.Refused(delivered) {
			t.Fatal(err, delivered)
		}
		if (asked == nil) == (u.State == turns.Completed) || asked != nil && commands.KindOf(asked) != commands.Conflict {
			t.Fatalf("%s answered %v, the turn is %s", name, asked, u.State)
		}
		won[name+" "+string(u.State)]++
		if th, err := h.store.Thread(ctx, u.Thread); err != nil || th.Hold != 0 {
			t.Fatalf("%s: the hold %d is left until %s (%v)", name, th.Hold, th.HoldUntil, err)
		}
	}
	t.Log(won)
	if found, err := h.store.Verify(ctx, ""); err != nil || len(found) > 0 {
		t.Errorf("verify: %v %v", found, err)
	}
}

func (h *host) lone(t *testing.T, thread string) string {
	t.Helper()
	res, err := h.commands.Turn(t.Context(), commands.TurnAsk{Thread: thread, Text: "do it", Role: turns.Owner})
	if err != nil {
		t.Fatal(err)
	}
	return res.Turn
}

// oneWon checks a race between a dead letter's compensation and an operator.
func (h *host) oneWon(t *testing.T, name, turn string, state turns.State, err error, won map[string]int) {
	t.Helper()
	u, e := h.store.Turn(t.Context(), turn)
	if e != nil {
		t.Fatal(e)
	}
	attempts, e := h.store.Attempts(t.Context(), u)
	if e != nil {
		t.Fatal(e)
	}
	first := attempts[0]
	switch {
	case err == nil && first.State == state && first.Ended != turns.VerbCompensate:
		won[name]++
		if name == "cancel" && (u.State != turns.Cancelled || len(attempts) != 1) || name != "cancel" && (u.State != turns.Queued || len(attempts) != 2) {
			t.Fatalf("%s won, the turn is %s at %d attempts", name, u.State, len(attempts))
		}
	case commands.KindOf(err) == commands.Conflict && first.Ended == turns.VerbCompensate && u.State == turns.Failed && len(attempts) == 1:
		won["compensate against "+name]++
	default:
		t.Fatalf("%s answered %v, the attempt %s by %s, the turn is %s at %d attempts", name, err, first.State, first.Ended, u.State, len(attempts))
	}
	th, e := h.store.Thread(t.Context(), u.Thread)
	if e != nil {
		t.Fatal(e)
	}
	if th.Hold != 0 {
		t.Fatalf("%s: the agent is gone, and the hold %d is left until %s (attempt ended by %s)", name, th.Hold, th.HoldUntil, first.Ended)
	}
}

// restart works end to end: the next attempt waits until the old agent is gone and
// inherits what is open; its dead letter is compensated like any other.
func TestRestart(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("{lease: 6s, start: 20s, silence: 50s, run: 90s, grace: 1s, deliveries: 2}", ""))
	r.rules(
		rule{Attempt: 1, Steps: []string{"deaf", "spawn", "accepted", "item t tool open", "mark first", "hang"}},
		rule{Attempt: 2, Steps: []string{"exit 4"}})
	w := r.start("builder")
	turn := r.lone("one", turns.Owner)
	r.await("the run", func() bool { return r.marked("first") })
	r.await("its open item", func() bool {
		open, err := r.store.OpenItems(t.Context(), "one")
		return err == nil && slices.ContainsFunc(open, func(i turns.Item) bool { return i.ID == "t" })
	})
	if _, err := r.commands.Restart(t.Context(), "", turn); err != nil {
		t.Fatal(err)
	}
	r.await("the second run", func() bool { return len(r.runs(of(turn+".2"))) > 0 })
	if living := r.agentsOf(turn + ".1"); len(living) > 0 {
		t.Errorf("agents of the first run beside the second: %v", living)
	}
	u := r.ends(turn)
	r.story(turn, "builder initial failed", "builder restart failed")
	if u.State != turns.Failed || u.Opened != 0 {
		t.Errorf("%s, %d opened", u.State, u.Opened)
	}
	r.oneError(turn, turn+".2")
	r.archived("builder", turn+".2")
	info, err := r.inspect.GetTaskInfo("builder", turn+".2")
	if err != nil || info.Type != string(tasks.TurnRestart) {
		t.Errorf("carried by %v, %v", info, err)
	}
	if !w.tells("dead letter compensated", turn+".2") {
		t.Errorf("not compensated:\n%s", w.tail())
	}
}

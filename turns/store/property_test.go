package store_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// TestStoreAgreesWithItsTwin drives random commands against the store and its twin:
// every answer and all that can be observed must agree after every step, and the
// invariants hold. Scripts run twice at random, as after a lost reply, and any
// earlier call may come again.
func TestStoreAgreesWithItsTwin(t *testing.T) {
	t.Run("miniredis", func(t *testing.T) {
		server, rdb := redistest.MiniServer(t)
		var now time.Time
		checks(t, 60)
		rapid.Check(t, func(rt *rapid.T) {
			now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			server.SetTime(now)
			d := newDriver(t, rt, rdb, func() int64 { return now.UnixMilli() })
			d.actions["time passes"] = func(rt *rapid.T) {
				now = now.Add(time.Duration(rapid.SampledFrom([]int{1, 20, 40}).Draw(rt, "seconds")) * time.Second)
				server.SetTime(now)
			}
			rt.Repeat(d.actions)
		})
	})
	t.Run("redis", func(t *testing.T) {
		rdb := redistest.Start(t).Client()
		checks(t, 15)
		rapid.Check(t, func(rt *rapid.T) {
			rt.Repeat(newDriver(t, rt, rdb, func() int64 { return time.Now().UnixMilli() }).actions)
		})
	})
}

// checks sets how many random stories a test tells, unless the command line does.
func checks(t *testing.T, n int) {
	if testing.Short() {
		n /= 4
	}
	f := flag.Lookup("rapid.checks")
	if before := f.Value.String(); before == f.DefValue {
		if err := f.Value.Set(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(before) })
	}
}

// doubled runs every script twice while it is on; the caller hears the second answer.
type doubled struct{ on bool }

func (d *doubled) DialHook(next redis.DialHook) redis.DialHook { return next }

func (d *doubled) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if d.on && strings.HasPrefix(cmd.Name(), "eval") {
			_ = next(ctx, cmd)
			cmd.SetErr(nil)
		}
		return next(ctx, cmd)
	}
}

func (d *doubled) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// driver holds what the random commands may name.
type driver struct {
	*world
	tw       *twin
	twice    *doubled
	attempts []string
	runs     []store.Run
	calls    []call
	actions  map[string]func(*rapid.T)
	steps    int
}

// call is a command with its arguments: once made, it may come again at any time.
type call struct {
	name  string
	store func() error
	twin  func() string
}

func newDriver(t *testing.T, rt *rapid.T, rdb redis.UniversalClient, now func() int64) *driver {
	twice := &doubled{}
	client := redistest.WithHooks(t, rdb, twice)
	rt.Cleanup(func() { _ = client.Close() })
	d := &driver{world: plain(t, client), twice: twice, tw: newTwin(now)}
	d.must(rdb.FlushDB(d.ctx).Err())
	d.actions = map[string]func(*rapid.T){
		"":      d.compare,
		"open":  d.open,
		"claim": d.claimAny,
		"claim again": func(rt *rapid.T) { // makes long stories likelier
			d.claimAny(rt)
		},
		"start":          d.byRun("start"),
		"requeue":        d.byRun("requeue"),
		"settle":         d.byRun("settle"),
		"settle more":    d.byRun("settle"),
		"fail":           d.byRun("fail"),
		"replace":        d.byRun("replace"),
		"delegate":       d.byRun("delegate"),
		"give back":      d.byRun("give back"),
		"lose":           d.byRun("lose"),
		"compensate":     d.byRun("compensate"),
		"release":        d.byRun("release"),
		"item":           d.byRun("item"),
		"steer":          d.byRun("steer"),
		"end":            d.byCommand("end"),
		"cancel":         d.byCommand("cancel"),
		"handoff":        d.byCommand("handoff"),
		"restart":        d.byCommand("restart"),
		"say":            d.sayAny,
		"an old message": d.again,
	}
	return d
}

// do makes a call on both sides and remembers it.
func (d *driver) do(rt *rapid.T, c call) {
	d.steps++
	d.twice.on = rapid.Bool().Draw(rt, "reply lost")
	err := c.store()
	d.twice.on = false
	got, want := word(err), c.twin()
	if got != want {
		rt.Fatalf("%s: the store says %q (%v), its twin %q", c.name, got, err, want)
	}
	d.calls = append(d.calls, c)
}

func word(err error) string {
	var busy *store.BusyError
	var final *store.FinalError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, store.ErrStale), errors.Is(err, store.ErrMoved), errors.Is(err, store.ErrHeld):
		return "refused"
	case errors.Is(err, store.ErrAlive):
		return "alive"
	case errors.As(err, &busy):
		return "busy"
	case errors.As(err, &final):
		return "final"
	case errors.Is(err, store.ErrNoTurn), errors.Is(err, store.ErrNotFound):
		return "no turn"
	}
	return err.Error()
}

func (d *driver) again(rt *rapid.T) {
	if len(d.calls) == 0 {
		rt.Skip("nothing was said yet")
	}
	d.do(rt, rapid.SampledFrom(d.calls).Draw(rt, "call"))
}

// compare holds all that can be observed against the twin, and checks the invariants.
func (d *driver) compare(rt *rapid.T) {
	got, want := d.observe(), d.tw.String()
	if got != want {
		rt.Fatalf("the store and its twin differ:\n%s", difference(got, want))
	}
	found, err := d.s.Verify(d.ctx, "")
	if err != nil || len(found) > 0 {
		rt.Fatalf("Verify: %v, %v", found, err)
	}
}

func difference(got, want string) string {
	var text strings.Builder
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for _, line := range g {
		if !slices.Contains(w, line) {
			fmt.Fprintf(&text, "store  %s\n", line)
		}
	}
	for _, line := range w {
		if !slices.Contains(g, line) {
			fmt.Fprintf(&text, "twin   %s\n", line)
		}
	}
	return text.String()
}

// observe reads what twin.String shows.
func (d *driver) observe() string {
	var lines []string
	for name := range d.tw.threads {
		th := d.thread(name)
		var paired turns.Paired
		var err error
		if th.Paired != "" {
			paired, err = d.s.Paired(d.ctx, th.Paired)
			d.must(err)
		}
		waiting, err := d.s.Waiting(d.ctx, name)
		d.must(err)
		lines = append(lines, threadLine(name, th.Turns, th.OpenTurn, th.Hold, paired, texts(waiting)))
		for n := 1; n <= th.Turns; n++ {
			t := d.turn(turns.TurnID(name, n))
			said, err := d.s.Said(d.ctx, t.ID)
			d.must(err)
			lines = append(lines, turnLine(t, t.Attempt, texts(said)))
			attempts, err := d.s.Attempts(d.ctx, t)
			d.must(err)
			for _, a := range attempts {
				lines = append(lines, attemptLine(a))
			}
		}
		items, err := d.s.OpenItems(d.ctx, name)
		d.must(err)
		for _, i := range items {
			lines = append(lines, fmt.Sprintf("item %s of %s", i.ID, i.Attempt))
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func texts(messages []turns.Message) []string {
	var all []string
	for _, m := range messages {
		all = append(all, m.Text)
	}
	return all
}

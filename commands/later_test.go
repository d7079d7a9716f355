package commands_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// clock is a clock that the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func clockDesk(t *testing.T, rdb redis.UniversalClient) (*desk, *clock) {
	d := newDesk(t, rdb)
	c := &clock{now: time.Date(2026, 3, 2, 6, 59, 30, 0, time.UTC)}
	d.c.Now = c.Now
	return d, c
}

func (d *desk) planned() []commands.Planned {
	d.Helper()
	list, err := d.c.ScheduleLs(d.ctx)
	if err != nil {
		d.Fatal(err)
	}
	return list
}

func (d *desk) fire(id string) commands.Fired {
	d.Helper()
	f, err := d.c.Fire(d.ctx, id)
	if err != nil {
		d.Fatal(err)
	}
	return f
}

// The name of a thread that is only stored so far means that one, whatever other
// thread begins like it.
func TestAStoredThreadIsNotThereYet(t *testing.T) {
	d, now := clockDesk(t, redistest.Mini(t))
	other := d.must(d.c.Task(d.ctx, commands.TaskAsk{Thread: "tidy-more", Text: "tidy more"}))
	d.must(d.c.Later(d.ctx, commands.Order{Thread: "tidy", Text: "tidy up"}, now.Now().Add(time.Hour)))
	_, why := d.c.Why(d.ctx, "tidy")
	_, cancel := d.c.Cancel(d.ctx, "k", "tidy")
	for name, err := range map[string]error{"why": why, "cancel": cancel} {
		var refused *commands.Error
		if !errors.As(err, &refused) || refused.Kind != commands.NotFound || !strings.Contains(refused.Text, "not there yet") ||
			!strings.Contains(refused.Hint, "schedule rm tidy/@") {
			t.Errorf("%s: %+v", name, err)
		}
	}
	if tu, err := d.s.Turn(d.ctx, other.Turn); err != nil || !tu.State.Open() {
		t.Errorf("%s: %+v, %v", other.Turn, tu, err)
	}
	if _, err := d.c.Why(d.ctx, "tidy-m"); err != nil {
		t.Errorf("a shortened name: %v", err)
	}
}

func TestStoredTaskOpensOnceAtItsTime(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d, now := clockDesk(t, rdb)
		ask := func() commands.Result {
			return d.must(d.c.Later(d.ctx, commands.Order{Key: "k", Thread: "tidy", Text: "tidy up"}, now.Now().Add(time.Hour)))
		}
		if ask().Already || !ask().Already {
			t.Fatal("a repeat stored another one")
		}
		id := d.planned()[0].ID
		if f := d.fire(id); f.Turn != "" || f.Error != "" {
			t.Fatalf("fired before its time: %+v", f)
		}
		now.move(time.Hour)
		fireAtOnce(t, d, id, 10)
		if v, err := d.c.ShowThread(d.ctx, "tidy"); err != nil || len(v.Turns) != 1 || v.Turns[0].Role != turns.Owner {
			t.Fatal(v, err)
		}
		if left := d.planned(); len(left) != 0 {
			t.Fatal(left)
		}
		if !ask().Already {
			t.Fatal("stored again after it was carried out")
		}
		if f := d.fire(id); f.Turn != "" {
			t.Fatal("fired twice")
		}
	})
}

// fireAtOnce fires a stored command from several workers at the same time.
func fireAtOnce(t *testing.T, d *desk, id string, workers int) {
	t.Helper()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			c := &commands.Commands{Store: d.s, Now: d.c.Now}
			if _, err := c.Fire(context.Background(), id); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

func TestStoredTaskWaitsForABusyThread(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d, now := clockDesk(t, rdb)
		d.task("busy")
		d.must(d.c.Later(d.ctx, commands.Order{Thread: "busy", Text: "later"}, now.Now().Add(time.Minute)))
		id := d.planned()[0].ID
		now.move(time.Minute)
		f := d.fire(id)
		if f.Turn != "" || !strings.Contains(f.Error, "unfinished paired task") {
			t.Fatalf("%+v", f)
		}
		p := d.planned()[0]
		if want := now.Now().Add(30 * time.Second); !time.Time(p.Next).Equal(want) || p.Error == "" {
			t.Fatalf("tried again at %s, want %s: %+v", p.Next, want, p)
		}
		d.must(d.c.Cancel(d.ctx, "", "busy"))
		now.move(time.Minute)
		if f := d.fire(id); f.Turn != "busy/2" {
			t.Fatalf("%+v", f)
		}
	})
}

func TestStoredTaskGivesUpVisibly(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d, now := clockDesk(t, rdb)
		d.task("busy")
		d.must(d.c.Later(d.ctx, commands.Order{Thread: "busy", Text: "later"}, now.Now()))
		id := d.planned()[0].ID
		fired := 0
		for begun := now.Now(); !time.Time(d.planned()[0].Next).IsZero(); fired++ {
			next := time.Time(d.planned()[0].Next)
			now.move(next.Sub(now.Now()))
			d.fire(id)
			if now.Now().Sub(begun) > 30*time.Hour {
				t.Fatal("it never gives up")
			}
		}
		if p := d.planned()[0]; p.Error == "" || fired < 100 || fired > 200 {
			t.Fatalf("%d tries: %+v", fired, p)
		}
		if _, err := d.c.ScheduleRm(d.ctx, "", id); err != nil || len(d.planned()) != 0 {
			t.Fatal(err)
		}
	})
}

// Ten workers, fifty ticks: each tick opens one thread.
func TestScheduleFiresEachTickOnce(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d, now := clockDesk(t, rdb)
		d.must(d.c.ScheduleAdd(d.ctx, commands.ScheduleAsk{Name: "hourly", Spec: "0 * * * *", Order: commands.Order{Text: "look around"}}))
		now.move(30 * time.Second)
		const ticks = 50
		for range ticks {
			fireAtOnce(t, d, "hourly/@cron", 10)
			now.move(time.Hour)
		}
		p := d.planned()[0]
		if p.Runs != ticks || p.Missed != 0 {
			t.Fatalf("%+v", p)
		}
		names, err := d.s.Threads(d.ctx, 0)
		if err != nil || len(names) != ticks {
			t.Fatal(len(names), err)
		}
		list, err := d.c.Ls(d.ctx, commands.Filter{All: true})
		if err != nil || len(list) != ticks {
			t.Fatal(len(list), err)
		}
		if _, err := d.s.Thread(d.ctx, "hourly-20260302-070000"); err != nil {
			t.Fatal(err, names)
		}
	})
}

func TestScheduleMissesVisibly(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d, now := clockDesk(t, rdb)
		d.must(d.c.ScheduleAdd(d.ctx, commands.ScheduleAsk{Name: "n", Spec: "0 * * * *", Order: commands.Order{Thread: "same", Text: "again", Role: turns.Reviewer}}))
		// Nobody is there for three hours: one tick fires, the others are counted.
		now.move(3*time.Hour + 30*time.Second)
		if f := d.fire("n/@cron"); f.Turn != "same/1" || f.Missed != 3 {
			t.Fatalf("%+v", f)
		}
		p := d.planned()[0]
		if p.Runs != 1 || p.Missed != 3 || p.Last != "same/1" || p.Next.String() != "2026-03-02T11:00:00.000Z" || len(p.After) != 2 {
			t.Fatalf("%+v", p)
		}
		// The thread is busy at the next tick: passed over, with the reason.
		now.move(time.Hour)
		if f := d.fire("n/@cron"); f.Turn != "" || f.Error == "" {
			t.Fatalf("%+v", f)
		}
		if p := d.planned()[0]; p.Missed != 4 || !strings.Contains(p.Error, "2026-03-02T11:00:00Z: thread same has an open turn") {
			t.Fatalf("%+v", p)
		}
		d.must(d.c.SchedulePause(d.ctx, "n", true))
		now.move(5 * time.Hour)
		if f := d.fire("n/@cron"); f != (commands.Fired{ID: "n/@cron"}) {
			t.Fatalf("fired while paused: %+v", f)
		}
		d.must(d.c.SchedulePause(d.ctx, "n", false))
		if p := d.planned()[0]; p.Paused || p.Next.String() != "2026-03-02T17:00:00.000Z" || p.Missed != 4 {
			t.Fatalf("%+v", p)
		}
	})
}

func TestScheduleKeepsItsZone(t *testing.T) {
	d, now := clockDesk(t, redistest.Mini(t))
	d.must(d.c.ScheduleAdd(d.ctx, commands.ScheduleAsk{Name: "n", Spec: "30 9 * * *", Zone: "Europe/Berlin", Order: commands.Order{Text: "x"}}))
	want := []string{"2026-03-28T08:30:00.000Z", "2026-03-29T07:30:00.000Z", "2026-03-30T07:30:00.000Z"}
	now.move(time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC).Sub(now.Now()))
	d.fire("n/@cron")
	p := d.planned()[0]
	for i, at := range append([]time.Time{time.Time(p.Next)}, p.After...) {
		if got := commands.Stamp(at).String(); got != want[i] {
			t.Fatalf("tick %d at %s, want %s", i, got, want[i])
		}
	}
}

func TestUnreadableStoredCommandStaysVisible(t *testing.T) {
	d, now := clockDesk(t, redistest.Mini(t))
	for _, id := range []string{"n/@cron", "n/@k1"} {
		if _, err := d.s.AddStored(d.ctx, store.Stored{ID: id, At: now.Now(), Body: "{"}); err != nil {
			t.Fatal(err)
		}
		if f := d.fire(id); f.Error == "" {
			t.Fatalf("%+v", f)
		}
	}
	for _, p := range d.planned() {
		if p.Error == "" || !time.Time(p.Next).IsZero() {
			t.Fatalf("%+v", p)
		}
	}
	if f := d.fire("gone/@k2"); f != (commands.Fired{ID: "gone/@k2"}) {
		t.Fatalf("%+v", f)
	}
}

// A schedule of an earlier version may have an interval that is refused now.
func TestStoredScheduleWithARefusedIntervalStops(t *testing.T) {
	d, now := clockDesk(t, redistest.Mini(t))
	body := `{"spec":"@every -1h","zone":"UTC","order":{"text":"x"},"next":"2026-03-02T06:59:30Z"}`
	if _, err := d.s.AddStored(d.ctx, store.Stored{ID: "n/@cron", At: now.Now(), Body: body}); err != nil {
		t.Fatal(err)
	}
	if f := d.fire("n/@cron"); f.Turn != "" || !strings.Contains(f.Error, "smallest interval") {
		t.Fatalf("%+v", f)
	}
	if p := d.planned()[0]; !p.Paused || p.Error == "" || !time.Time(p.Next).IsZero() {
		t.Fatalf("%+v", p)
	}
	if _, err := d.c.SchedulePause(d.ctx, "n", false); commands.KindOf(err) != commands.Invalid {
		t.Fatal(err)
	}
}

func TestRefusedSchedules(t *testing.T) {
	d, _ := clockDesk(t, redistest.Mini(t))
	for i, a := range []commands.ScheduleAsk{
		{Name: "n", Spec: "0 0 30 2 *", Order: commands.Order{Text: "x"}},
		{Name: "n", Spec: "@every -1h", Order: commands.Order{Text: "x"}},
		{Name: "n", Spec: "@every 0s", Order: commands.Order{Text: "x"}},
		{Name: "n", Spec: "@every 500ms", Order: commands.Order{Text: "x"}},
		{Name: "n", Spec: "@every 1.7s", Order: commands.Order{Text: "x"}},
		{Name: "n", Spec: "every day", Order: commands.Order{Text: "x"}},
		{Name: "n", Spec: "@daily", Zone: "Nowhere/City", Order: commands.Order{Text: "x"}},
		{Name: "n", Spec: "TZ=UTC 0 0 * * *", Order: commands.Order{Text: "x"}},
		{Name: "N!", Spec: "@daily", Order: commands.Order{Text: "x"}},
		{Name: strings.Repeat("n", 60), Spec: "@daily", Order: commands.Order{Text: "x"}},
		{Name: "n", Spec: "@daily", Order: commands.Order{Text: " "}},
		{Name: "n", Spec: "@daily", Order: commands.Order{Text: "x", Role: "boss"}},
		{Name: "n", Spec: "@daily", Order: commands.Order{Text: "x", Thread: "UPPER"}},
	} {
		if _, err := d.c.ScheduleAdd(d.ctx, a); commands.KindOf(err) != commands.Invalid {
			t.Errorf("%d: %v", i, err)
		}
	}
	if left := d.planned(); len(left) != 0 {
		t.Fatal(left)
	}
}

func TestRetriedFireAfterALostReply(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d, now := clockDesk(t, rdb)
		for i := range 3 {
			name := fmt.Sprintf("s%d", i)
			d.must(d.c.ScheduleAdd(d.ctx, commands.ScheduleAsk{Name: name, Spec: "@every 1h", Order: commands.Order{Text: "x"}}))
		}
		now.move(time.Hour)
		for i := range 3 {
			// The worker dies after it opened the turn, before it moved the schedule on.
			id := fmt.Sprintf("s%d/@cron", i)
			before, err := d.s.StoredCommand(d.ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			first := d.fire(id)
			after, err := d.s.StoredCommand(d.ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			before.Revision = after.Revision
			if err := d.s.MoveStored(d.ctx, before); err != nil {
				t.Fatal(err)
			}
			if again := d.fire(id); again.Turn != first.Turn || first.Turn == "" {
				t.Fatalf("%+v, then %+v", first, again)
			}
		}
		if list, err := d.c.Ls(d.ctx, commands.Filter{All: true}); err != nil || len(list) != 3 {
			t.Fatal(list, err)
		}
	})
}

package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // all workers know the same zones

	"github.com/robfig/cron/v3"

	"rota/turns/store"
)

// ScheduleAsk asks for a schedule.
type ScheduleAsk struct {
	Key   string // a repeat with the same one changes nothing
	Name  string // derives from the order's text when empty
	Spec  string // five fields of cron, or @daily, @every 2h and the like
	Zone  string // time zone of the spec; UTC when empty
	Order Order  // without a thread every tick opens one of its own, NAME-TIME
}

// schedule is the stored body of a schedule.
type schedule struct {
	Spec   string    `json:"spec"`
	Zone   string    `json:"zone"`
	Order  Order     `json:"order"`
	Next   time.Time `json:"next"` // the tick that fires next, also while paused
	Paused bool      `json:"paused,omitempty"`
	Runs   int       `json:"runs,omitempty"`
	Missed int       `json:"missed,omitempty"` // ticks that opened nothing: nobody was there, or the thread was busy
	Last   string    `json:"last,omitempty"`
	Error  string    `json:"error,omitempty"`
}

// ticks returns the function that gives the next tick after a time.
func (s schedule) ticks() (func(time.Time) time.Time, error) {
	zone, err := time.LoadLocation(named(s.Zone, "UTC"))
	if err != nil {
		return nil, refuse(Invalid, "use a name such as Europe/Berlin", "time zone %q: unknown", s.Zone)
	}
	if strings.Contains(s.Spec, "TZ=") {
		return nil, refuse(Invalid, "give the zone with --zone", "schedule %q: no TZ= in the times", s.Spec)
	}
	parsed, err := cron.ParseStandard(s.Spec)
	if err != nil {
		return nil, &Error{Invalid, fmt.Sprintf("schedule %q: %v", s.Spec, err), `the times read like "0 7 * * 1-5" or "@every 2h"`, err}
	}
	// The parser makes seconds of what is none of them: of -1h one second.
	if text, ok := strings.CutPrefix(s.Spec, "@every "); ok {
		if every, err := time.ParseDuration(text); err != nil || every < time.Second || every%time.Second != 0 {
			return nil, refuse(Invalid, `write an interval such as "@every 30s" or "@every 2h"`, "schedule %q: the smallest interval is 1s, in whole seconds", s.Spec)
		}
	}
	return func(t time.Time) time.Time { return parsed.Next(t.In(zone)) }, nil
}

// ScheduleAdd stores a schedule. A name that is taken is a conflict, unless it is
// the same schedule.
func (c *Commands) ScheduleAdd(ctx context.Context, a ScheduleAsk) (Result, error) {
	if a.Name == "" {
		a.Name = slug(a.Order.Text)
	}
	if err := checkSchedule(a.Name); err != nil {
		return Result{}, err
	}
	if len(a.Name) > 40 && a.Order.Thread == "" {
		return Result{}, refuse(Invalid, "the time of each tick is added to it", "schedule name %s: at most 40 characters", a.Name)
	}
	if err := c.check(a.Order); err != nil {
		return Result{}, err
	}
	s := schedule{Spec: a.Spec, Zone: named(a.Zone, "UTC"), Order: a.Order}
	ticks, err := s.ticks()
	if err != nil {
		return Result{}, err
	}
	now, err := c.now(ctx, scheduleID(a.Name))
	if err != nil {
		return Result{}, refusal("schedule "+a.Name, err)
	}
	if s.Next = ticks(now).UTC(); s.Next.IsZero() {
		return Result{}, refuse(Invalid, "", "schedule %q never fires", a.Spec)
	}
	id := scheduleID(a.Name)
	if r, ok, err := c.scheduled(ctx, id, a.Key); ok || err != nil {
		return r, err
	}
	added, err := c.Store.AddStored(ctx, store.Stored{ID: id, At: s.Next, Body: body(s)})
	if err != nil {
		return Result{}, refusal("schedule "+a.Name, err)
	}
	r := Result{Thread: a.Order.Thread, Stored: id, Text: fmt.Sprintf("added schedule %s, next at %s", a.Name, clock(s.Next))}
	if added {
		return r, c.noteSchedule(ctx, id, a.Key)
	}
	_, there, err := c.readSchedule(ctx, id)
	if err != nil {
		return Result{}, err
	}
	if there.Spec != s.Spec || there.Zone != s.Zone || there.Order != s.Order {
		return Result{}, refuse(Conflict, fmt.Sprintf("remove it with `enqueue schedule rm %s`, or take another --name", a.Name), "schedule %s exists and is another one", a.Name)
	}
	r.Already, r.Text = true, fmt.Sprintf("schedule %s is there already, next at %s", a.Name, clock(there.Next))
	return r, nil
}

func (c *Commands) readSchedule(ctx context.Context, id string) (store.Stored, schedule, error) {
	s, err := c.Store.StoredCommand(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return s, schedule{}, &Error{NotFound, "schedule " + strings.TrimSuffix(id, "/@"+cronName) + ": not found", "`enqueue schedule ls` lists them", err}
	}
	if err != nil {
		return s, schedule{}, err
	}
	var b schedule
	if err := json.Unmarshal([]byte(s.Body), &b); err != nil {
		return s, schedule{}, fmt.Errorf("schedule %s can't be read: %w", id, err)
	}
	return s, b, nil
}

// SchedulePause pauses a schedule, or lets it go on with the first tick after now.
func (c *Commands) SchedulePause(ctx context.Context, name string, pause bool) (Result, error) {
	if err := checkSchedule(name); err != nil {
		return Result{}, err
	}
	id := scheduleID(name)
	return until("schedule "+name, func() (Result, error) {
		s, b, err := c.readSchedule(ctx, id)
		if err != nil {
			return Result{}, err
		}
		if b.Paused == pause {
			return Result{Stored: id, Already: true, Text: fmt.Sprintf("schedule %s is so already", name)}, nil
		}
		b.Paused = pause
		text := fmt.Sprintf("paused schedule %s", name)
		s.At = time.Time{}
		if !pause {
			ticks, err := b.ticks()
			if err != nil {
				return Result{}, err
			}
			now, err := c.now(ctx, s.ID)
			if err != nil {
				return Result{}, err
			}
			b.Next = ticks(now).UTC()
			s.At = b.Next
			text = fmt.Sprintf("schedule %s goes on, next at %s", name, clock(b.Next))
		}
		s.Body = body(b)
		err = c.Store.MoveStored(ctx, s)
		if errors.Is(err, store.ErrMoved) {
			return Result{}, errAgain
		}
		return Result{Stored: id, Text: text}, err
	})
}

// tick fires the tick of a schedule that is due: it opens the turn with a command
// id made of the schedule and the tick, then moves the schedule on by
// compare-and-set. Whoever comes second opens nothing and moves nothing. Ticks
// that have passed meanwhile are counted as missed, not made up for.
func (c *Commands) tick(ctx context.Context, s store.Stored, now time.Time) (Fired, error) {
	name := strings.TrimSuffix(s.ID, "/@"+cronName)
	f := Fired{ID: s.ID}
	var b schedule
	if err := json.Unmarshal([]byte(s.Body), &b); err != nil {
		f.Error = "can't be read: " + err.Error()
		return f, c.park(ctx, s)
	}
	ticks, err := b.ticks()
	if err != nil {
		f.Error = err.Error()
		b.Paused, b.Error = true, f.Error
		s.Body = body(b)
		return f, c.park(ctx, s)
	}
	order := b.Order
	order.Key = "schedule:" + name + ":" + b.Next.UTC().Format("20060102T150405Z")
	if order.Thread == "" {
		order.Thread = name + "-" + b.Next.UTC().Format("20060102-150405")
	}
	f.Thread = order.Thread
	r, err := c.give(ctx, order)
	switch {
	case err == nil:
		f.Turn = r.Turn
		b.Runs, b.Last, b.Error = b.Runs+1, r.Turn, ""
	case KindOf(err) == "":
		return f, err
	default:
		f.Error = err.Error()
		b.Missed, b.Error = b.Missed+1, b.Next.UTC().Format(time.RFC3339)+": "+err.Error()
	}
	f.Missed = missed(ticks, b.Next, now)
	b.Missed += f.Missed
	b.Next = ticks(now).UTC()
	s.At, s.Body = b.Next, body(b)
	return f, ignoreMoved(c.Store.MoveStored(ctx, s))
}

// missed counts the ticks after the one that fires and not after now.
func missed(ticks func(time.Time) time.Time, fired, now time.Time) int {
	const most = 10_000
	n := 0
	for t := ticks(fired); !t.IsZero() && !t.After(now) && n < most; t = ticks(t) {
		n++
	}
	return n
}

func plannedSchedule(s store.Stored) Planned {
	p := Planned{ID: s.ID, Kind: "schedule", Name: strings.TrimSuffix(s.ID, "/@"+cronName), Next: Stamp(s.At), Created: Stamp(s.Created)}
	var b schedule
	if err := json.Unmarshal([]byte(s.Body), &b); err != nil {
		p.Error = "can't be read: " + err.Error()
		return p
	}
	p.Spec, p.Zone, p.Paused, p.Runs, p.Missed, p.Last, p.Error, p.Order = b.Spec, b.Zone, b.Paused, b.Runs, b.Missed, b.Last, b.Error, b.Order
	if ticks, err := b.ticks(); err == nil && !s.At.IsZero() {
		p.After = upcoming(ticks, s.At, 2)
	}
	return p
}

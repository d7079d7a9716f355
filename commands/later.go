package commands

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"rota/turns"
	"rota/turns/store"
)

// Order is a command that is stored until its time, or that a schedule gives at
// each of its ticks: a task, or a lone turn when it has a role.
type Order struct {
	Key     string     `json:"key,omitempty"`
	Thread  string     `json:"thread,omitempty"`
	Workdir string     `json:"workdir,omitempty"`
	Text    string     `json:"text"`
	Role    turns.Role `json:"role,omitempty"` // empty: a paired task
	Service string     `json:"service,omitempty"`
	Parent  string     `json:"parent,omitempty"`
	High    bool       `json:"high,omitempty"`
}

// give carries the order out now.
func (c *Commands) give(ctx context.Context, o Order) (Result, error) {
	if o.Role == "" {
		return c.Task(ctx, TaskAsk{Key: o.Key, Thread: o.Thread, Workdir: o.Workdir, Text: o.Text})
	}
	return c.Turn(ctx, TurnAsk(o))
}

// check refuses an order that could never be carried out.
func (c *Commands) check(o Order) error {
	if o.Role != "" {
		if o.Thread == "" {
			o.Thread = "later"
		}
		_, _, err := c.checkTurn(TurnAsk{Thread: o.Thread, Text: o.Text, Role: o.Role, Service: o.Service, Parent: o.Parent})
		return err
	}
	if o.Thread != "" {
		if err := turns.CheckThread(o.Thread); err != nil || strings.Contains(o.Thread, "~") {
			return badThread(o.Thread, err)
		}
	}
	return checkText("task", o.Text)
}

// held is the stored body of an order with one time.
type held struct {
	Order Order     `json:"order"`
	Due   time.Time `json:"due"`             // as it was asked for
	Tries int       `json:"tries,omitempty"` // how often it was refused
	Error string    `json:"error,omitempty"` // why, the last time
}

// How long an order that is refused at its time is tried again, and how often.
const (
	triedFor  = 24 * time.Hour
	firstTry  = 30 * time.Second
	slowest   = 10 * time.Minute
	cronName  = "cron"
	laterName = "k"
)

// Later stores an order until a time. A repeat with the same key changes nothing.
func (c *Commands) Later(ctx context.Context, o Order, at time.Time) (Result, error) {
	o.Thread = threadFor(o.Thread, o.Key, o.Text)
	o.Key = keyed(o.Key)
	if err := c.check(o); err != nil {
		return Result{}, err
	}
	sum := sha256.Sum256([]byte(o.Key))
	id := store.StoredID(o.Thread, laterName+hex.EncodeToString(sum[:])[:12])
	if r, ok, err := c.before(ctx, o.Thread, o.Key); ok || err != nil {
		return r, err
	}
	added, err := c.Store.AddStored(ctx, store.Stored{ID: id, At: at, Body: body(held{Order: o, Due: at.UTC()})})
	if err != nil {
		return Result{}, refusal("store a command", err)
	}
	r := Result{Thread: o.Thread, Stored: id, Already: !added, Text: fmt.Sprintf("stored %s: opens a turn in %s at %s", id, o.Thread, clock(at))}
	if !added {
		r.Text = "stored already as " + id
	}
	return r, nil
}

// Fired is what came of a stored command whose time had come.
type Fired struct {
	ID     string
	Thread string
	Turn   string // what it opened, empty for nothing
	Error  string // why it opened nothing
	Missed int    // ticks of a schedule that were passed over
}

// Fire carries out a stored command that is due, as Glance.Due names it. Any
// number of workers may fire the same one: it opens one turn. What is refused (the
// thread is busy) is tried again, for a day at most, and then stays in the list
// with its error; a tick of a schedule is passed over instead. An error is of
// the store: nothing is known, fire it again.
func (c *Commands) Fire(ctx context.Context, id string) (Fired, error) {
	s, err := c.Store.StoredCommand(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		// Taken by somebody else, or an entry that names nothing: drop it.
		return Fired{ID: id}, ignoreGone(c.Store.TakeStored(ctx, id, 0))
	}
	if err != nil {
		return Fired{}, err
	}
	now, err := c.now(ctx, id)
	if err != nil {
		return Fired{ID: id}, err
	}
	if s.At.IsZero() || s.At.After(now) {
		return Fired{ID: id}, nil
	}
	if strings.HasSuffix(id, "/@"+cronName) {
		return c.tick(ctx, s, now)
	}
	return c.fireOnce(ctx, s, now)
}

func (c *Commands) fireOnce(ctx context.Context, s store.Stored, now time.Time) (Fired, error) {
	var h held
	if err := json.Unmarshal([]byte(s.Body), &h); err != nil {
		return Fired{ID: s.ID, Error: "can't be read: " + err.Error()}, c.park(ctx, s)
	}
	f := Fired{ID: s.ID, Thread: h.Order.Thread}
	r, err := c.give(ctx, h.Order)
	if err == nil {
		f.Turn = r.Turn
		return f, ignoreGone(c.Store.TakeStored(ctx, s.ID, s.Revision))
	}
	kind := KindOf(err)
	if kind == "" {
		return f, err
	}
	f.Error = err.Error()
	h.Tries, h.Error = h.Tries+1, err.Error()
	if kind == Invalid || now.Sub(h.Due) > triedFor {
		s.Body = body(h)
		return f, c.park(ctx, s)
	}
	s.At, s.Body = now.Add(min(slowest, firstTry<<min(h.Tries-1, 10))), body(h)
	return f, ignoreMoved(c.Store.MoveStored(ctx, s))
}

// park keeps a stored command that came to nothing in the list, for people to see.
func (c *Commands) park(ctx context.Context, s store.Stored) error {
	s.At = time.Time{}
	return ignoreMoved(c.Store.MoveStored(ctx, s))
}

// ignoreGone: somebody else has taken it.
func ignoreGone(err error) error {
	if store.Refused(err) {
		return nil
	}
	return err
}

// ignoreMoved: somebody else has written the same.
func ignoreMoved(err error) error {
	if errors.Is(err, store.ErrMoved) {
		return nil
	}
	return err
}

func body(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("commands: " + err.Error())
	}
	return string(b)
}

// Planned is a stored command or a schedule as `schedule ls` prints it.
type Planned struct {
	ID      string `json:"id"`
	Kind    string `json:"kind"` // once or schedule
	Name    string `json:"name"` // of a schedule
	Spec    string `json:"spec"` // of a schedule
	Zone    string `json:"zone"`
	Next    Stamp  `json:"next"` // empty when paused or given up
	Paused  bool   `json:"paused"`
	Runs    int    `json:"runs"`
	Missed  int    `json:"missed"`
	Last    string `json:"last"`  // the last turn it opened
	Error   string `json:"error"` // why it opened nothing, the last time
	Order   Order  `json:"order"`
	Created Stamp  `json:"created"`

	After []time.Time `json:"-"` // the ticks after Next
}

// ScheduleLs lists the schedules and stored commands, the next ones first.
func (c *Commands) ScheduleLs(ctx context.Context) ([]Planned, error) {
	list, err := c.Store.StoredCommands(ctx)
	if err != nil {
		return nil, err
	}
	planned := make([]Planned, 0, len(list))
	for _, s := range list {
		p := Planned{ID: s.ID, Kind: "once", Next: Stamp(s.At), Created: Stamp(s.Created)}
		if strings.HasSuffix(s.ID, "/@"+cronName) {
			p = plannedSchedule(s)
		} else {
			var h held
			if err := json.Unmarshal([]byte(s.Body), &h); err != nil {
				h.Error = "can't be read: " + err.Error()
			}
			p.Order, p.Error = h.Order, h.Error
		}
		planned = append(planned, p)
	}
	return planned, nil
}

// comes says that stored commands or schedules will open turns in a thread that a
// person has just ended. Nothing when that can't be read: what ended has ended.
func (c *Commands) comes(ctx context.Context, thread string) string {
	list, err := c.ScheduleLs(ctx)
	if err != nil {
		return ""
	}
	n := 0
	for _, p := range list {
		if p.Next != (Stamp{}) && p.Order.Thread != "" && turns.Root(p.Order.Thread) == turns.Root(thread) {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return count(n, "stored command will open a turn", "stored commands will open turns") + " in it: see `enqueue schedule ls`"
}

// ScheduleRm removes a schedule by its name, or a stored command by its id. A repeat
// with the same key removes nothing that was added after it.
func (c *Commands) ScheduleRm(ctx context.Context, key, id string) (Result, error) {
	id, err := plannedID(id)
	if err != nil {
		return Result{}, err
	}
	if r, ok, err := c.scheduled(ctx, id, key); ok || err != nil {
		return r, err
	}
	name := strings.TrimSuffix(id, "/@"+cronName)
	err = c.Store.TakeStored(ctx, id, 0)
	if errors.Is(err, store.ErrNotFound) {
		return Result{}, &Error{NotFound, "schedule " + name + ": not found", "`enqueue schedule ls` lists them", err}
	}
	if err != nil {
		return Result{}, refusal("remove "+name, err)
	}
	return Result{Stored: id, Text: "removed " + name}, c.noteSchedule(ctx, id, key)
}

// scheduled answers a repeated command about a schedule; its key is scoped to the
// schedule's name.
func (c *Commands) scheduled(ctx context.Context, id, key string) (Result, bool, error) {
	if key == "" {
		return Result{}, false, nil
	}
	_, ok, err := c.Store.Command(ctx, turns.ThreadOf(id), key)
	return Result{Stored: id, Already: true, Text: doneBefore}, ok, err
}

// noteSchedule notes that a command about a schedule is done.
func (c *Commands) noteSchedule(ctx context.Context, id, key string) error {
	if key == "" {
		return nil
	}
	_, err := c.Store.Aim(ctx, turns.ThreadOf(id), key, id, "")
	return err
}

// plannedID reads a schedule's name or a stored command's id.
func plannedID(id string) (string, error) {
	if !strings.Contains(id, "/@") {
		id = scheduleID(id)
	}
	if err := store.CheckStored(id); err != nil {
		return "", refuse(Invalid, "`enqueue schedule ls` lists them", "%v", err)
	}
	return id, nil
}

// ScheduleName returns the name of the schedule that has an id, nothing for a stored
// command.
func ScheduleName(id string) string {
	name, ok := strings.CutSuffix(id, "/@"+cronName)
	if !ok {
		return ""
	}
	return name
}

func scheduleID(name string) string { return store.StoredID(name, cronName) }

// names of schedules are spelt like threads, without children.
func checkSchedule(name string) error {
	if err := turns.CheckThread(name); err != nil || strings.Contains(name, "~") {
		return refuse(Invalid, "", "schedule name %q: use 1 to %d of a-z 0-9 . _ -", name, turns.MaxName)
	}
	return nil
}

// upcoming returns the ticks after a time, at most n of them.
func upcoming(next func(time.Time) time.Time, from time.Time, n int) []time.Time {
	var list []time.Time
	for len(list) < n {
		if from = next(from); from.IsZero() {
			break
		}
		list = append(list, from)
	}
	return slices.Clip(list)
}

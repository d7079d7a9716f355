// Package commands is what a person or a schedule asks of the queue. The command
// line, the board and the scheduler's clock all use it, so that a command means
// the same everywhere.
//
// Every command reads, decides by the pure rules of packages turns and pairs,
// and writes with compare-and-set; when the thread moved on in between it reads
// and decides again. Every command carries a key: given again with the same key
// it does nothing and answers what the first one did. docs/commands.md says what
// each command does in each state of a turn; a test walks through that table.
package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// Commands carries out commands on one store. Only Store is needed.
type Commands struct {
	Store *store.Store

	// Hand gives a queued attempt to asynq at once. Without it, or when it fails,
	// the relay's next pass does: a command never fails for it.
	Hand func(ctx context.Context, e turns.OutboxEntry) error
	// Hurry tells the worker of a live run about a request that is stored already.
	// Without it the run hears it with its next renewal.
	Hurry func(ctx context.Context, a turns.Attempt, ask store.Ask) error
	// Order puts a task beside the turns on a service's control queue, and reports
	// whether the same command had done so before; see package tasks.
	Order func(ctx context.Context, t tasks.Type, u tasks.Upkeep) (already bool, err error)
	// Workers returns the live workers of a service; nil when nobody knows.
	Workers func(ctx context.Context, service string) ([]string, error)
	// Room returns an error when too many turns wait for a service; nil for no bound.
	Room func(ctx context.Context, service string) error
	// Warn hears what went wrong beside a command that succeeded; nil for nobody.
	Warn func(error)
	// Now is the clock of stored commands and schedules; Redis' time when nil.
	Now func() time.Time
}

// Result is what a command came to.
type Result struct {
	Thread  string
	Turn    string // the turn it opened or acted on; empty for none
	Attempt string // the attempt it opened or acted on; empty for none
	Stored  string // the stored command or schedule it made, changed or removed, as ScheduleRm takes it; empty for none
	Already bool   // a repeat of an earlier command, or nothing was left to do
	Asked   string // what a live run was asked to: interrupt, steer or respond; see Answered
	Text    string // what happened, one line for people
	Note    string // what a person should know besides; may be empty
	Entry   turns.OutboxEntry
}

// Kind is how a command was refused. Errors of other types are of the store.
type Kind string

// The kinds of refusal. Each leaves everything as it was.
const (
	Invalid      Kind = "invalid"      // the command itself is wrong
	NotFound     Kind = "not_found"    // what it names does not exist
	Conflict     Kind = "conflict"     // not in this state, or it moved on
	Unconfigured Kind = "unconfigured" // nobody is configured to do it
)

// Error is a refusal: one line, and what to do about it.
type Error struct {
	Kind Kind
	Text string
	Hint string // what a person can do; may be empty
	Err  error  // what the store said; may be nil
}

func (e *Error) Error() string { return e.Text }

// Unwrap returns the store's error.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns how a command was refused, and nothing for any other error.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

func refuse(k Kind, hint, format string, args ...any) error {
	return &Error{Kind: k, Hint: hint, Text: fmt.Sprintf(format, args...)}
}

// tries bounds every loop that reads, decides and writes.
const tries = 50

// until runs a step again while what it read has moved on.
func until(what string, step func() (Result, error)) (Result, error) {
	for range tries {
		r, err := step()
		if !errors.Is(err, errAgain) {
			return r, refusal(what, err)
		}
	}
	return Result{}, refuse(Conflict, "try again", "%s: it keeps moving on", what)
}

// errAgain says that the decision was made on what is no longer so.
var errAgain = errors.New("decide again")

// refusal turns what the store refused into an Error.
func refusal(what string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	text := what + ": " + err.Error()
	if busy, ok := errors.AsType[*store.BusyError](err); ok {
		return &Error{Conflict, text, "see `enqueue why " + busy.Turn + "`", err}
	}
	if final, ok := errors.AsType[*store.FinalError](err); ok {
		return &Error{Conflict, text, "see `enqueue show " + final.Turn + "`", err}
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return &Error{NotFound, text, "`enqueue ls` lists what there is", err}
	case errors.Is(err, store.ErrFull):
		return &Error{Conflict, text, "wait until some are done", err}
	case errors.Is(err, store.ErrMoved), errors.Is(err, store.ErrStale), errors.Is(err, store.ErrNoTurn), errors.Is(err, store.ErrParentFinal):
		return &Error{Conflict, text, "", err}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// now is the time that stored commands, schedules and messages of a thread go by.
func (c *Commands) now(ctx context.Context, thread string) (time.Time, error) {
	if c.Now != nil {
		return c.Now(), nil
	}
	return c.Store.Now(ctx, thread)
}

// CheckKey returns an error unless a key may be given to a command; empty is fine.
func CheckKey(key string) error {
	if len(key) > 200 || !utf8.ValidString(key) || strings.ContainsAny(key, "{}|\x00\r\n") {
		return refuse(Invalid, "use up to 200 characters without { } | and line ends", "the key can't be used")
	}
	return nil
}

// keyed returns the key of a command, a random one when none was given.
func keyed(key string) string {
	if key == "" {
		return turns.NewToken()
	}
	return key
}

// hand gives what a command has opened to asynq. The write is done: a failure
// costs time, nothing else.
func (c *Commands) hand(ctx context.Context, e turns.OutboxEntry) {
	if c.Hand == nil || e.Attempt == "" {
		return
	}
	if err := c.Hand(ctx, e); err != nil {
		c.warn(fmt.Errorf("hand over %s: %w (the next pass of a worker does it)", e.Attempt, err))
	}
}

func (c *Commands) hurry(ctx context.Context, a turns.Attempt, ask store.Ask) {
	if c.Hurry == nil {
		return
	}
	if err := c.Hurry(ctx, a, ask); err != nil {
		c.warn(fmt.Errorf("hurry %s to %s: %w (the run hears it with its next renewal)", ask.Kind, a.ID, err))
	}
}

func (c *Commands) warn(err error) {
	if c.Warn != nil {
		c.Warn(err)
	}
}

// opened is the result of a command that has opened a turn.
func (c *Commands) opened(ctx context.Context, o store.Opened, thread, text string) Result {
	c.hand(ctx, o.Outbox)
	r := Result{Thread: thread, Turn: o.Turn, Attempt: o.Attempt, Already: o.Already, Entry: o.Outbox}
	if o.Already {
		r.Text = fmt.Sprintf("already opened %s", o.Turn)
		return r
	}
	r.Text = fmt.Sprintf("opened %s (%s, %s) on %s%s", o.Turn, o.Outbox.Role, o.Outbox.Intent, o.Outbox.Service, text)
	r.Note = c.unserved(ctx, o.Outbox.Service)
	return r
}

// unserved warns about a service that no worker serves.
func (c *Commands) unserved(ctx context.Context, service string) string {
	if c.Workers == nil {
		return ""
	}
	if names, err := c.Workers(ctx, service); err != nil || len(names) > 0 {
		return ""
	}
	return fmt.Sprintf("no worker serves %s: start one with `worker --service %s`", service, service)
}

package commands

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// TaskAsk asks for a paired task.
type TaskAsk struct {
	Key     string // idempotency; random when empty
	Thread  string // derived from the key, or from the text, when empty
	Workdir string // folder of a new thread
	Text    string
}

// Task opens a paired task with the owner's first turn, which takes the messages
// that wait in the thread. A thread with an unfinished paired task or an open turn
// is a conflict.
func (c *Commands) Task(ctx context.Context, a TaskAsk) (Result, error) {
	if err := checkText("task", a.Text); err != nil {
		return Result{}, err
	}
	a.Thread = threadFor(a.Thread, a.Key, a.Text)
	given := a.Key != ""
	a.Key = keyed(a.Key)
	if err := turns.CheckThread(a.Thread); err != nil || strings.Contains(a.Thread, "~") {
		return Result{}, badThread(a.Thread, err)
	}
	return c.opening(ctx, "task", a.Thread, a.Key, given, func(s scene) (Result, error) {
		if err := s.free(a.Workdir); err != nil {
			return Result{}, err
		}
		plan, err := pairs.Begin(a.Thread, s.thread.Pairs+1, c.Store.Crew())
		if err != nil {
			return Result{}, unconfigured(err)
		}
		if err := c.room(ctx, plan.Next.Services[0]); err != nil {
			return Result{}, err
		}
		var waiting []turns.Message
		if s.exists {
			if waiting, err = c.Store.Waiting(ctx, a.Thread); err != nil {
				return Result{}, err
			}
		}
		o, err := c.Store.OpenTurn(ctx, store.NewTurn{
			Command: a.Key, Thread: a.Thread, Number: s.thread.Turns + 1, Workspace: a.Workdir, Role: plan.Next.Role, Intent: plan.Next.Intent,
			Seat: turns.Seat{Services: plan.Next.Services, Limits: plan.Next.Limits}, Prompt: a.Text, Reason: "task",
			Paired: &plan.Paired, New: true, Take: len(waiting),
		})
		if err != nil {
			return Result{}, err
		}
		return c.opened(ctx, o, a.Thread, "").taking(waiting), nil
	})
}

// opening opens a turn in a thread by what is there. Most threads are new, so that is
// taken for granted first: the store opens nothing unless it is so. What it refuses
// is decided again by what the thread shows.
func (c *Commands) opening(ctx context.Context, what, thread, key string, given bool, open func(scene) (Result, error)) (Result, error) {
	if thread == turns.Root(thread) {
		r, err := open(scene{})
		_, refused := errors.AsType[*Error](err)
		if !refused && !again(err) && !(r.Already && given) {
			return r, refusal(what+" in "+thread, err)
		}
	}
	return until(what+" in "+thread, func() (Result, error) {
		s, err := c.scene(ctx, thread)
		if err != nil {
			return Result{}, err
		}
		if given {
			if r, ok, err := c.before(ctx, thread, key); ok || err != nil {
				return r, err
			}
		}
		given = true
		r, err := open(s)
		if again(err) {
			err = errAgain
		}
		return r, err
	})
}

// again reports whether an opening met what was not there when it was decided.
// A busy thread is looked at again too: what is open says what to answer.
func again(err error) bool {
	_, busy := errors.AsType[*store.BusyError](err)
	return busy || errors.Is(err, store.ErrMoved)
}

// free refuses a new paired task in a thread that has work.
func (s scene) free(workdir string) error {
	t := s.thread
	switch {
	case !s.exists:
		return nil
	case s.unfinished():
		return refuse(Conflict, fmt.Sprintf("say something to it with `enqueue reply %s TEXT`, or end it with `enqueue cancel %s`", t.Name, t.Name),
			"thread %s has an unfinished paired task (%s, %s)", t.Name, s.paired.ID, s.paired.Status)
	case t.OpenTurn != "":
		return refuse(Conflict, fmt.Sprintf("wait for it, or end it with `enqueue cancel %s`", t.OpenTurn),
			"thread %s has an open turn (%s)", t.Name, t.OpenTurn)
	}
	return s.sameWorkdir(workdir)
}

// sameWorkdir refuses another folder for a thread that has one.
func (s scene) sameWorkdir(workdir string) error {
	if !s.exists || workdir == "" || workdir == s.thread.Workspace {
		return nil
	}
	return refuse(Conflict, "take another thread for another folder",
		"thread %s works in %s", s.thread.Name, named(s.thread.Workspace, "a folder of its own"))
}

// TurnAsk asks for a lone turn: no paired task, no follow-up.
type TurnAsk struct {
	Key     string
	Thread  string // derived from the key or the text when empty
	Workdir string
	Text    string
	Role    turns.Role
	Service string // the first attempt's; the role's first when empty
	Parent  string // the turn under which a child thread's turn hangs
	High    bool   // before the others that wait for the service
}

// Turn opens a lone turn. A thread with an open turn is a conflict.
func (c *Commands) Turn(ctx context.Context, a TurnAsk) (Result, error) {
	a.Thread = threadFor(a.Thread, a.Key, a.Text)
	given := a.Key != ""
	a.Key = keyed(a.Key)
	seat, intent, err := c.checkTurn(a)
	if err != nil {
		return Result{}, err
	}
	return c.opening(ctx, "turn", a.Thread, a.Key, given, func(s scene) (Result, error) {
		if s.thread.OpenTurn != "" {
			return Result{}, refuse(Conflict, fmt.Sprintf("wait for it, end it with `enqueue cancel %s`, or take another thread", s.thread.OpenTurn),
				"thread %s has an open turn (%s)", a.Thread, s.thread.OpenTurn)
		}
		if err := s.sameWorkdir(a.Workdir); err != nil {
			return Result{}, err
		}
		if err := c.below(ctx, a.Thread); err != nil {
			return Result{}, err
		}
		if err := c.room(ctx, named(a.Service, seat.Services[0])); err != nil {
			return Result{}, err
		}
		// What waits in another thread goes into the first turn of its next task.
		var waiting []turns.Message
		if s.exists && strings.Contains(a.Thread, "~") {
			var err error
			if waiting, err = c.Store.Waiting(ctx, a.Thread); err != nil {
				return Result{}, err
			}
		}
		o, err := c.Store.OpenTurn(ctx, store.NewTurn{
			Command: a.Key, Thread: a.Thread, Number: s.thread.Turns + 1, Workspace: a.Workdir, Role: a.Role, Intent: intent, Seat: seat, Service: a.Service,
			Prompt: a.Text, Parent: a.Parent, High: a.High, Reason: "turn", Take: len(waiting),
		})
		if errors.Is(err, store.ErrParentFinal) {
			return Result{}, &Error{Conflict, "turn in " + a.Thread + ": the parent turn " + a.Parent + " has ended", "", err}
		}
		if err != nil {
			return Result{}, err
		}
		return c.opened(ctx, o, a.Thread, "").taking(waiting), nil
	})
}

// taking notes that messages which waited in the thread go into the turn.
func (r Result) taking(waiting []turns.Message) Result {
	if n := len(waiting); n > 0 && !r.Already && r.Note == "" {
		r.Note = fmt.Sprintf("%s, which waited in %s", count(n, "message goes into it", "messages go into it"), r.Thread)
	}
	return r
}

// checkTurn checks a turn's command before anything is read.
func (c *Commands) checkTurn(a TurnAsk) (turns.Seat, turns.Intent, error) {
	if err := checkText("prompt", a.Text); err != nil {
		return turns.Seat{}, "", err
	}
	if err := turns.CheckThread(a.Thread); err != nil {
		return turns.Seat{}, "", badThread(a.Thread, err)
	}
	intent, err := turns.FirstIntent(a.Role)
	if err != nil {
		return turns.Seat{}, "", refuse(Invalid, "use --role owner, reviewer or arbiter", "unknown role %q", a.Role)
	}
	if strings.Contains(a.Thread, "~") && a.Parent == "" {
		return turns.Seat{}, "", refuse(Invalid, "name the turn it belongs to with --parent", "a turn in the child thread %s needs a parent turn", a.Thread)
	}
	if a.Parent != "" {
		if _, _, err := turns.ParseTurn(a.Parent); err != nil {
			return turns.Seat{}, "", refuse(Invalid, "", "parent: %v", err)
		}
		if turns.ThreadOf(a.Parent) == a.Thread {
			return turns.Seat{}, "", refuse(Invalid, "use a thread like "+turns.Root(a.Thread)+"~2", "a turn of thread %s can't hang under %s", a.Thread, a.Parent)
		}
		if turns.Root(a.Parent) != turns.Root(a.Thread) && turns.Root(turns.ThreadOf(a.Parent)) != turns.Root(a.Thread) {
			return turns.Seat{}, "", refuse(Invalid, "use a thread like "+turns.Root(turns.ThreadOf(a.Parent))+"~2", "thread %s is no child of the parent turn's thread", a.Thread)
		}
	}
	seat := c.Store.Crew()[a.Role]
	switch {
	case len(seat.Services) == 0 && a.Service == "":
		return turns.Seat{}, "", refuse(Unconfigured, "add it under roles in the configuration, or name a service with --service", "no service is configured for the %s", a.Role)
	case a.Service == "":
	case turns.CheckService(a.Service) != nil:
		return turns.Seat{}, "", refuse(Invalid, "", "%v", turns.CheckService(a.Service))
	case len(seat.Services) == 0:
		seat.Services = []string{a.Service}
	case !slices.Contains(seat.Services, a.Service):
		return turns.Seat{}, "", refuse(Invalid, fmt.Sprintf("the %s has %s", a.Role, strings.Join(seat.Services, ", ")), "service %s does not serve the %s", a.Service, a.Role)
	}
	return seat, intent, nil
}

func (c *Commands) room(ctx context.Context, service string) error {
	if c.Room == nil {
		return nil
	}
	if err := c.Room(ctx, service); err != nil {
		return &Error{Conflict, err.Error(), "wait until some are done, or raise max_waiting of the service", err}
	}
	return nil
}

func unconfigured(err error) error {
	return &Error{Unconfigured, err.Error(), "name the configuration with --config, or ROTA_CONFIG", err}
}

func badThread(name string, err error) error {
	if err == nil {
		return refuse(Invalid, "use its root thread "+turns.Root(name), "a paired task needs a root thread, %s is a child", name)
	}
	return refuse(Invalid, "", "%v", err)
}

// checkText refuses a text that can't be stored, or is none.
func checkText(what, text string) error {
	if strings.TrimSpace(text) == "" {
		return refuse(Invalid, "", "the %s is empty", what)
	}
	if err := store.CheckText(what, text); err != nil {
		hint := ""
		if len(text) > store.MaxPrompt {
			hint = "put it into a file in the workspace and name the file"
		}
		return &Error{Invalid, err.Error(), hint, err}
	}
	return nil
}

func named(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// threadFor returns the name of the thread: the one given, else one that derives
// from the key, so that a repeat finds it, else one that reads like the text.
func threadFor(thread, key, text string) string {
	switch {
	case thread != "":
		return thread
	case key != "":
		sum := sha256.Sum256([]byte(key))
		return slug(key) + "-" + hex.EncodeToString(sum[:])[:6]
	}
	return slug(text) + "-" + turns.NewToken()[:6]
}

// slug returns the first words of a text as a thread's name.
func slug(text string) string {
	const most = 32
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		if b.Len() >= most || r == '\n' && b.Len() > 0 {
			break
		}
		switch {
		case r < utf8.RuneSelf && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9'):
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := b.String()
	if len(name) >= most {
		if i := strings.LastIndexByte(name, '-'); i > most/2 {
			name = name[:i]
		}
	}
	if name = strings.Trim(name, "-"); name == "" {
		return "task"
	}
	return name
}

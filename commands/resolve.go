package commands

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"rota/turns"
	"rota/turns/store"
)

// Ref is what an id names: a thread, and maybe a turn and an attempt of it.
type Ref struct {
	Thread  string
	Turn    string
	Attempt string
}

// Resolve reads an id of a thread (fix-login), turn (fix-login/3), attempt
// (fix-login/3.2) or paired task (fix-login#1). A thread may be shortened as long
// as it is unambiguous. It checks that the thread exists, nothing more.
func (c *Commands) Resolve(ctx context.Context, id string) (Ref, error) {
	name := turns.ThreadOf(id)
	rest := id[len(name):]
	if name == "" {
		return Ref{}, refuse(Invalid, "an id reads thread, thread/3 or thread/3.1", "%q is no id", id)
	}
	if err := turns.CheckThread(name); err != nil {
		return Ref{}, refuse(Invalid, "an id reads thread, thread/3 or thread/3.1", "%v", err)
	}
	thread, err := c.threadLike(ctx, name)
	if err != nil {
		return Ref{}, err
	}
	ref := Ref{Thread: thread}
	if number, ok := strings.CutPrefix(rest, "#"); ok {
		return c.pairedRef(ctx, ref, number)
	}
	if rest == "" {
		return ref, nil
	}
	full := thread + rest
	if turn, _, err := turns.ParseAttempt(full); err == nil {
		ref.Turn, ref.Attempt = turn, full
		return ref, nil
	}
	if _, _, err := turns.ParseTurn(full); err != nil {
		return Ref{}, refuse(Invalid, "an id reads thread, thread/3 or thread/3.1", "%v", err)
	}
	ref.Turn = full
	return ref, nil
}

// pairedRef is what a paired task's id names: its thread while it is the thread's last
// one, else the last turn of it.
func (c *Commands) pairedRef(ctx context.Context, ref Ref, number string) (Ref, error) {
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || strconv.Itoa(n) != number {
		return Ref{}, refuse(Invalid, "a paired task's id reads thread#1", "%q is no number of a paired task", number)
	}
	t, err := c.Store.Thread(ctx, ref.Thread)
	if err != nil || n == t.Pairs {
		return ref, err
	}
	id := turns.PairedID(ref.Thread, n)
	last, err := c.lastTurn(ctx, t, id)
	if err != nil {
		return Ref{}, err
	}
	if last.ID == "" {
		return Ref{}, refuse(NotFound, "`enqueue ls "+ref.Thread+"` lists the turns of the thread", "paired task %s: not found", id)
	}
	ref.Turn = last.ID
	return ref, nil
}

// resolveWhole is Resolve for commands that end or remove something: the thread must
// be written out.
func (c *Commands) resolveWhole(ctx context.Context, id string) (Ref, error) {
	ref, err := c.Resolve(ctx, id)
	if name := turns.ThreadOf(id); err == nil && ref.Thread != name {
		return Ref{}, refuse(NotFound, "write the whole name if you mean "+ref.Thread, "thread %s: not found", name)
	}
	return ref, err
}

// threadLike returns the thread of a name, or the only one that begins with it.
func (c *Commands) threadLike(ctx context.Context, name string) (string, error) {
	_, err := c.Store.Thread(ctx, name)
	if err == nil {
		return name, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return "", err
	}
	if err := c.notYet(ctx, name); err != nil {
		return "", err
	}
	names, err := c.Store.Threads(ctx, 0)
	if err != nil {
		return "", err
	}
	var like []string
	for _, n := range names {
		if strings.HasPrefix(n, name) && !strings.Contains(n, "~") {
			like = append(like, n)
		}
	}
	switch {
	case len(like) == 1:
		return like[0], nil
	case len(like) > 1:
		return "", refuse(Invalid, "write more of it", "thread %s is ambiguous: %s", name, some(like, 5))
	}
	return "", refuse(NotFound, "`enqueue ls` lists the threads", "thread %s: not found", name)
}

// notYet refuses the name of a thread whose first turn is only stored so far: it
// means that one, and no other thread that begins like it.
func (c *Commands) notYet(ctx context.Context, name string) error {
	stored, err := c.Store.StoredCommands(ctx)
	if err != nil {
		return err
	}
	for _, s := range stored {
		if turns.ThreadOf(s.ID) != name || s.ID == scheduleID(name) {
			continue
		}
		when := "its time has passed, see why with `enqueue schedule ls`"
		if !s.At.IsZero() {
			when = "a stored command opens its first turn at " + s.At.Local().Format("2006-01-02 15:04:05")
		}
		return refuse(NotFound, "`enqueue schedule rm "+s.ID+"` takes it back", "thread %s is not there yet: %s", name, when)
	}
	return nil
}

func some(words []string, most int) string {
	if len(words) > most {
		return strings.Join(words[:most], ", ") + ", …"
	}
	return strings.Join(words, ", ")
}

// turnOf returns the turn that an id means: the turn it names, else the thread's
// open turn, else its last one.
func (c *Commands) turnOf(ctx context.Context, id string) (store.Records, Ref, error) {
	ref, err := c.Resolve(ctx, id)
	if err != nil {
		return store.Records{}, Ref{}, err
	}
	if ref.Turn == "" {
		t, err := c.Store.Thread(ctx, ref.Thread)
		if err != nil {
			return store.Records{}, Ref{}, err
		}
		if t.Turns == 0 {
			return store.Records{}, Ref{}, refuse(NotFound, "", "thread %s has no turn", ref.Thread)
		}
		if ref.Turn = t.OpenTurn; ref.Turn == "" {
			ref.Turn = turns.TurnID(ref.Thread, t.Turns)
		}
	}
	r, err := c.Store.Records(ctx, ref.Turn, 0)
	if err != nil {
		if errors.Is(err, store.ErrNotFound) {
			return store.Records{}, Ref{}, &Error{NotFound, err.Error(), "`enqueue ls " + ref.Thread + "` lists the turns of the thread", err}
		}
		return store.Records{}, Ref{}, refusal("read "+ref.Turn, err)
	}
	return r, ref, ref.among(r.Attempt.Number)
}

// among returns an error when the id names an attempt beyond the last one of its turn.
func (ref Ref) among(attempts int) error {
	if ref.Attempt == "" {
		return nil
	}
	if _, n, err := turns.ParseAttempt(ref.Attempt); err != nil || n > attempts {
		return refuse(NotFound, "`enqueue show "+ref.Turn+"` lists the attempts of the turn", "attempt %s: not found", ref.Attempt)
	}
	return nil
}

// scene is a thread with its paired task and the last turn of it.
type scene struct {
	thread turns.Thread
	exists bool
	paired turns.Paired // zero when there is none
	last   turns.Turn   // the paired task's last turn, else the thread's; zero when it is gone
}

// scene reads a thread as it stood at one moment: it reads again when the thread
// moved in between, so that a decision is never made on halves of two moments.
func (c *Commands) scene(ctx context.Context, thread string) (scene, error) {
	before, err := c.Store.Thread(ctx, thread)
	for range tries {
		if errors.Is(err, store.ErrNotFound) {
			return scene{}, nil
		}
		if err != nil {
			return scene{}, err
		}
		var s scene
		if s, err = c.sceneOf(ctx, before); err != nil {
			return scene{}, err
		}
		var after turns.Thread
		after, err = c.Store.Thread(ctx, thread)
		if err == nil && after.Turns == before.Turns && after.OpenTurn == before.OpenTurn && after.Paired == before.Paired && after.Updated.Equal(before.Updated) {
			return s, nil
		}
		before = after
	}
	return scene{}, refuse(Conflict, "try again", "thread %s keeps moving on", thread)
}

func (c *Commands) sceneOf(ctx context.Context, t turns.Thread) (scene, error) {
	s := scene{thread: t, exists: true}
	var err error
	if t.Paired != "" {
		s.paired, err = c.Store.Paired(ctx, t.Paired)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return scene{}, err
		}
	}
	s.last, err = c.lastTurn(ctx, t, s.paired.ID)
	return s, err
}

// lastTurn returns the last turn of a paired task, or of the thread when paired is
// empty. Lone turns may have been taken after it.
func (c *Commands) lastTurn(ctx context.Context, t turns.Thread, paired string) (turns.Turn, error) {
	const step = 10
	for high := t.Turns; high > 0; high -= step {
		var ids []string
		for n := high; n > max(0, high-step); n-- {
			ids = append(ids, turns.TurnID(t.Name, n))
		}
		list, err := c.Store.TurnsByID(ctx, ids)
		if err != nil {
			return turns.Turn{}, err
		}
		for _, turn := range list {
			if paired == "" || turn.Paired == paired {
				return turn, nil
			}
		}
		if len(list) == 0 {
			break
		}
	}
	return turns.Turn{}, nil
}

// unfinished reports whether the thread's paired task has not ended.
func (s scene) unfinished() bool { return s.paired.ID != "" && !s.paired.Status.Finished() }

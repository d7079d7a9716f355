package commands

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"rota/tasks"
	"rota/turns"
)

// Ordered is a task that a command put on a control queue.
type Ordered struct {
	Result
	Type   tasks.Type
	Upkeep tasks.Upkeep
}

// Detach forgets the agent's sessions of a thread on a service: the next run
// there begins a fresh one.
func (c *Commands) Detach(ctx context.Context, key, thread, service string) (Ordered, error) {
	return c.order(ctx, tasks.SessionDetach, key, thread, func(s scene, u *tasks.Upkeep) error {
		had := false
		for _, role := range turns.Roles {
			had = had || s.thread.Sessions[turns.SessionKey(service, role)] != ""
		}
		if turns.CheckService(service) != nil || !had {
			return refuse(NotFound, "`enqueue show` prints the sessions of its attempts", "thread %s has no session on %q", s.thread.Name, service)
		}
		u.Service = service
		return nil
	})
}

// Cleanup removes the workspace of a thread without an open turn; what was not
// committed is kept in a checkpoint.
func (c *Commands) Cleanup(ctx context.Context, key, thread string) (Ordered, error) {
	return c.order(ctx, tasks.WorkspaceCleanup, key, thread, func(s scene, _ *tasks.Upkeep) error {
		if open := s.thread.OpenTurn; open != "" {
			return refuse(Conflict, fmt.Sprintf("wait for it, or end it with `enqueue cancel %s`", open), "thread %s has an open turn (%s)", s.thread.Name, open)
		}
		return nil
	})
}

// Rollback makes the files of a thread's workspace those of a checkpoint, given
// by its ref or its number. The present files become a checkpoint first. While an
// agent is at work in the thread it is a conflict.
func (c *Commands) Rollback(ctx context.Context, key, thread, ref string) (Ordered, error) {
	return c.order(ctx, tasks.CheckpointRollback, key, thread, func(s scene, u *tasks.Upkeep) error {
		if ref == "" || strings.ContainsAny(ref, " \x00\n") || len(ref) > 200 {
			return refuse(Invalid, "`enqueue checkpoint ls` lists them", "checkpoint %q", ref)
		}
		if u.Ref = ref; !strings.HasPrefix(ref, "refs/") {
			u.Ref = "refs/rota/" + s.thread.Name + "/" + ref
		}
		return nil
	})
}

// Capture records the files of a thread's workspace as a checkpoint now.
func (c *Commands) Capture(ctx context.Context, key, thread string) (Ordered, error) {
	return c.order(ctx, tasks.CheckpointCapture, key, thread, func(s scene, u *tasks.Upkeep) error {
		u.Turn = s.last.ID
		return nil
	})
}

// order puts a task for a thread on the control queue of a service that has
// worked in it.
func (c *Commands) order(ctx context.Context, t tasks.Type, key, thread string, fill func(scene, *tasks.Upkeep) error) (Ordered, error) {
	what := strings.ReplaceAll(string(t), ":", " ") + " " + thread
	ref, err := c.Resolve(ctx, thread)
	if err != nil {
		return Ordered{}, refusal(what, err)
	}
	s, err := c.scene(ctx, ref.Thread)
	if err != nil {
		return Ordered{}, refusal(what, err)
	}
	lives, err := c.Store.HoldLives(ctx, s.thread)
	if err != nil {
		return Ordered{}, refusal(what, err)
	}
	if t != tasks.CheckpointCapture && lives {
		return Ordered{}, refuse(Conflict, "wait until it is done, or cancel it", "an agent is at work in thread %s (%s)", s.thread.Name, named(s.thread.OpenTurn, "its turn has ended"))
	}
	u := tasks.Upkeep{Thread: ref.Thread, ID: keyed(key)}
	if err := fill(s, &u); err != nil {
		return Ordered{}, err
	}
	if u.Service == "" {
		if u.Service, err = c.hostOf(ctx, s); err != nil {
			return Ordered{}, err
		}
	}
	if c.Order == nil {
		return Ordered{}, refuse(Unconfigured, "", "%s: no control queue is known here", what)
	}
	already, err := c.Order(ctx, t, u)
	if err != nil {
		return Ordered{}, refusal(what, err)
	}
	r := Result{Thread: ref.Thread, Already: already, Text: fmt.Sprintf("asked %s: %s", u.Service, t), Note: c.unserved(ctx, u.Service)}
	if already {
		r.Text = fmt.Sprintf("asked %s already: %s", u.Service, t)
	}
	return Ordered{r, t, u}, nil
}

// hostOf returns the service whose worker has the thread's workspace: the one of
// its last attempt, else a served one of the owner.
func (c *Commands) hostOf(ctx context.Context, s scene) (string, error) {
	services := slices.Clone(c.Store.Crew()[turns.Owner].Services)
	if n := s.thread.Turns; n > 0 {
		if r, err := c.Store.Records(ctx, turns.TurnID(s.thread.Name, n), 0); err == nil && r.Attempt.Service != "" {
			services = append([]string{r.Attempt.Service}, services...)
		}
	}
	if len(services) == 0 {
		return "", refuse(Unconfigured, "name the configuration with --config, or ROTA_CONFIG", "no service has worked in thread %s", s.thread.Name)
	}
	for _, service := range services {
		if c.unserved(ctx, service) == "" {
			return service, nil
		}
	}
	return services[0], nil
}

package main

import (
	"context"
	"slices"
	"strings"

	"rota/commands"
	"rota/workspaces"
)

// results returns the last checkpoint of each turn of a thread: the ref of what the
// turn left behind. It is empty on another host than the workspace's, and where the
// workspace has no git or can't be read: show goes without it then.
func (c *connection) results(ctx context.Context, thread string) map[string]string {
	places := workspaces.Workspaces{Dir: c.config.Workspaces}
	all, err := places.Checkpoints(ctx, thread)
	if err != nil {
		return nil
	}
	slices.SortFunc(all, func(a, b workspaces.Checkpoint) int { return a.Number - b.Number })
	refs := map[string]string{}
	for _, p := range all {
		if turn, ok := strings.CutPrefix(p.Title, "checkpoint of "); ok {
			refs[turn] = p.Ref
		}
	}
	return refs
}

// showTurn returns a turn with the ref of its result.
func (c *connection) showTurn(ctx context.Context, id string) (commands.TurnView, error) {
	v, err := c.commands.ShowTurn(ctx, id)
	if err == nil {
		v.Ref = c.results(ctx, v.Thread)[v.ID]
	}
	return v, err
}

// showThread returns a thread with the refs of its turns' results; its own is that
// of the last turn that has one.
func (c *connection) showThread(ctx context.Context, name string) (commands.ThreadView, error) {
	v, err := c.commands.ShowThread(ctx, name)
	if err != nil {
		return v, err
	}
	refs := c.results(ctx, v.Thread)
	for i := range v.Turns {
		t := &v.Turns[i]
		if t.Ref = refs[t.ID]; t.Ref != "" {
			v.Ref = t.Ref
		}
	}
	return v, nil
}

package commands

import (
	"context"

	"rota/turns"
)

// MaxBelow is how many turns may be open in the child threads of one root thread
// together: one thread that delegates must not fill a queue by itself.
const MaxBelow = 50

// below refuses a further turn in a child thread when as many are open below its
// root as may be.
func (c *Commands) below(ctx context.Context, thread string) error {
	root := turns.Root(thread)
	if root == thread {
		return nil
	}
	n, err := c.Store.OpenBelow(ctx, root)
	if err != nil {
		return err
	}
	if n >= MaxBelow {
		return refuse(Conflict, "wait until some are done", "%d turns are open below thread %s already", n, root)
	}
	return nil
}

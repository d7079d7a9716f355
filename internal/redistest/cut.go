package redistest

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// ErrCut is what a client with a Cut gets for every command.
var ErrCut = fmt.Errorf("redistest: connection cut: %w", io.EOF)

// Cut is the fault that CutBefore and CutAfter make: a client that loses its
// Redis at one exact command, as a process does that is killed there.
type Cut struct {
	mu    sync.Mutex
	match Match
	n     int // the match that is hit, counted from 1
	after bool
	once  bool
	seen  int
	down  bool
}

// CutBefore loses the connection just before the n-th matching command (the
// first is 1): it is not carried out, and it and all later ones fail with
// ErrCut. Matches are the caller's commands; re-sends don't count.
func CutBefore(match Match, n int) *Cut { return &Cut{match: match, n: n} }

// CutAfter is CutBefore just after the command: it is carried out, but the
// caller gets ErrCut for it as for all later ones.
func CutAfter(match Match, n int) *Cut { return &Cut{match: match, n: n, after: true} }

// Once lets later commands pass again.
func (c *Cut) Once() *Cut {
	c.once = true
	return c
}

// Mend lets commands pass from now on.
func (c *Cut) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = false
}

// Hit reports whether the cut has happened.
func (c *Cut) Hit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen >= c.n
}

// step is told each command in its order. Pass says whether it is carried out,
// fail whether its caller gets ErrCut.
func (c *Cut) step(args []string) (pass, fail bool) {
	if setsUp(args) {
		return true, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return false, true
	}
	if !c.match(args) {
		return true, false
	}
	if c.seen++; c.seen != c.n {
		return true, false
	}
	c.down = !c.once
	return c.after, true
}

// DialHook changes nothing.
func (c *Cut) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook cuts single commands.
func (c *Cut) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		pass, fail := c.step(words(cmd))
		var err error
		if pass {
			err = next(ctx, cmd)
		}
		if fail {
			err = ErrCut
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook cuts in the middle of a pipeline: the commands up to the
// cut are carried out, all of them answer ErrCut. A transaction is carried out
// as a whole or not at all.
func (c *Cut) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		sent, cut := c.stepAll(cmds)
		if !cut {
			return next(ctx, cmds)
		}
		if sent > 0 {
			_ = next(ctx, cmds[:sent])
		}
		for _, cmd := range cmds {
			cmd.SetErr(ErrCut)
		}
		return ErrCut
	}
}

// stepAll says whether a pipeline is cut, and how many of its commands are
// carried out then.
func (c *Cut) stepAll(cmds []redis.Cmder) (sent int, cut bool) {
	for i, cmd := range cmds {
		pass, fail := c.step(words(cmd))
		if !fail {
			continue
		}
		transaction := strings.EqualFold(cmds[0].Name(), "multi")
		switch {
		case transaction && pass:
			return len(cmds), true
		case transaction:
			return 0, true
		case pass:
			return i + 1, true
		}
		return i, true
	}
	return len(cmds), false
}

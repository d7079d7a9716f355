package credentials

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Ahead chooses a login for a run in the round trip of another call, before it is
// known whether there will be a run. So it takes nothing from anybody: it chooses
// only while none of the service's logins rests.
type Ahead struct {
	c *Credentials
	q question
	// cmd is the question as it was asked, nil before.
	cmd *redis.StringSliceCmd
}

// Ahead returns nil where only Pick can choose: when a login's command has to run
// first, a login can't be read, or the logins may lie on another server than what
// they are asked along with.
func (c *Credentials) Ahead(ctx context.Context, service, run string) *Ahead {
	if _, cluster := c.rdb.(*redis.ClusterClient); cluster {
		return nil
	}
	for _, id := range c.logins(service) {
		if _, known := c.printed(id); len(c.config.Credentials[id].Command) > 0 && !known {
			return nil
		}
	}
	q, err := c.question(ctx, "ahead", service, run)
	if err != nil || len(q.problems) > 0 {
		return nil
	}
	return &Ahead{c: c, q: q}
}

// Along adds the question to a pipeline.
func (a *Ahead) Along(p redis.Pipeliner) {
	args := append([]any{"evalsha", pickScript.lua.Hash(), len(a.q.keys)}, make([]any, 0, len(a.q.keys)+len(a.q.args))...)
	for _, key := range a.q.keys {
		args = append(args, key)
	}
	a.cmd = redis.NewStringSliceCmd(context.Background(), append(args, a.q.args...)...)
	a.cmd.SetFirstKeyPos(3)
	_ = p.Process(context.Background(), a.cmd) // the pipeline's own context counts
}

// Choice returns the login, as Pick does; false where Pick has to be asked.
func (a *Ahead) Choice() (Choice, bool) {
	if a == nil || a.cmd == nil || a.cmd.Err() != nil || len(a.cmd.Val()) < 4 || a.cmd.Val()[0] != "picked" {
		return Choice{}, false
	}
	return a.c.choice(a.q, a.cmd.Val()), true
}

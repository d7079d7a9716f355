package credentials

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"rota/turns"
)

// refreshTime bounds one refresh. The lock outlives it, so that a process that
// was stopped in the middle is over before another begins.
const (
	refreshTime = commandTimeout + 5*time.Second
	refreshLock = refreshTime + 10*time.Second
)

// Refresh runs do while no other process of the fleet refreshes the same login.
// It waits for its turn until ctx ends. do's context ends after 35 seconds,
// before another process may begin.
func (c *Credentials) Refresh(ctx context.Context, id string, do func(context.Context) error) error {
	token := turns.NewToken()
	keys := []string{refreshKey(id)}
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		sent := time.Now()
		answer, err := c.run(ctx, lockScript, keys, token, ms(refreshLock))
		if err != nil {
			return err
		}
		if answer[0] == "locked" {
			return c.refresh(ctx, keys, token, sent, do)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the refresh of %s: %w", id, context.Cause(ctx))
		case <-time.After(wait/2 + rand.N(wait)):
		}
	}
}

func (c *Credentials) refresh(ctx context.Context, keys []string, token string, sent time.Time, do func(context.Context) error) error {
	bounded, cancel := context.WithDeadline(ctx, sent.Add(refreshTime))
	defer cancel()
	defer func() {
		// When this fails the lock goes by itself.
		free, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_, _ = c.run(free, unlockScript, keys, token)
	}()
	if bounded.Err() != nil {
		return errors.New("the lock of the refresh came too late")
	}
	return do(bounded)
}

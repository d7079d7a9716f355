package commands

import (
	"context"
	"time"
)

// Answered waits until a run has said what came of a request to a turn, for a
// given time at most. Empty: no word yet, the run hears the request with its next
// renewal. "taken" is good news, anything else says why not.
func (c *Commands) Answered(ctx context.Context, turn, request string, wait time.Duration) (string, error) {
	for deadline := time.Now().Add(wait); ; {
		asks, err := c.Store.Asks(ctx, turn, 0)
		if err != nil {
			return "", err
		}
		for _, a := range asks {
			if a.ID == request && a.Answer != "" {
				return a.Answer, nil
			}
		}
		t, err := c.Store.Turn(ctx, turn)
		if err != nil || !t.State.Open() || time.Now().After(deadline) {
			return "", err
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

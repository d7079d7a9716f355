package handlers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rota/turns/store"
)

// retry repeats a write while Redis is away, until ctx ends. A write may happen
// twice; the scripts answer a repeat with "already".
func retry[T any](ctx context.Context, write func() (T, error)) (T, error) {
	pause := 50 * time.Millisecond
	for {
		v, err := write()
		if err == nil || store.Refused(err) || errors.Is(err, store.ErrHeld) ||
			errors.Is(err, store.ErrAlive) || errors.Is(err, store.ErrAmnesty) || errors.Is(err, store.ErrUnreadable) {
			return v, err
		}
		var busy *store.BusyError
		var final *store.FinalError
		if errors.As(err, &busy) || errors.As(err, &final) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, fmt.Errorf("%w (%w)", err, ctx.Err())
		case <-time.After(pause):
			pause = min(2*pause, 2*time.Second)
		}
	}
}

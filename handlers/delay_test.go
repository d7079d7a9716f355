package handlers

import (
	"testing"
	"time"
)

// asynq brings a task in the whole second in which its time is, so up to a second
// early. What waits for a login must not come before the login is back.
func TestARetryIsNeverEarly(t *testing.T) {
	at := time.Date(2026, 3, 2, 7, 0, 0, 999_000_000, time.UTC)
	for _, delay := range []time.Duration{time.Second, 6 * time.Second, time.Minute} {
		for range 100 {
			d := RetryDelay(0, &deliveryError{decision: Decision{Delay: delay}}, nil)
			if comes := time.Unix(at.Add(d).Unix(), 0); comes.Before(at.Add(delay)) {
				t.Fatalf("due in %s, brought after %s", delay, comes.Sub(at))
			}
		}
	}
	if d := RetryDelay(0, &deliveryError{decision: Decision{Delay: 100 * time.Millisecond}}, nil); d >= time.Second {
		t.Errorf("a short back-off lasts %s", d)
	}
}

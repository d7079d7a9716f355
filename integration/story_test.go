package integration

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"rota/turns"
	"rota/turns/store"
)

// promised fails when something took longer than it may. A machine that is busy with
// other tests gets as much again as twenty starts of a program take it now.
func (r *rig) promised(what string, took, most time.Duration) {
	r.t.Helper()
	began := time.Now()
	if err := exec.Command("true").Run(); err != nil {
		r.t.Fatal(err)
	}
	slack := 20 * time.Since(began)
	if took > most+slack {
		r.t.Errorf("%s after %s, want %s (and %s for a busy machine)", what, took, most, slack)
		return
	}
	r.t.Logf("%s after %s", what, took.Round(time.Millisecond))
}

// await waits until reached, and shows what is there when it is not.
func (r *rig) await(what string, reached func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(patience); !reached(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("waited %s for %s\n%s", patience, what, r.picture())
		}
	}
}

func (r *rig) turn(id string) turns.Turn {
	r.t.Helper()
	t, err := r.store.Turn(r.t.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return turns.Turn{}
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

func (r *rig) attempts(turn string) []turns.Attempt {
	r.t.Helper()
	list, err := r.store.Attempts(r.t.Context(), r.turn(turn))
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

func (r *rig) attempt(id string) turns.Attempt {
	r.t.Helper()
	a, err := r.store.Attempt(r.t.Context(), id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		r.t.Fatal(err)
	}
	return a
}

func (r *rig) thread(name string) turns.Thread {
	r.t.Helper()
	t, err := r.store.Thread(r.t.Context(), name)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

func (r *rig) paired(thread string) turns.Paired {
	r.t.Helper()
	p, err := r.store.Paired(r.t.Context(), turns.PairedID(thread, 1))
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// ends waits until a turn has ended and returns it.
func (r *rig) ends(turn string) turns.Turn {
	r.t.Helper()
	r.await("the end of "+turn, func() bool { return r.turn(turn).State.FinalForTurn() })
	return r.turn(turn)
}

// comes waits until an attempt is in a state.
func (r *rig) comes(attempt string, s turns.State) turns.Attempt {
	r.t.Helper()
	r.await(fmt.Sprintf("%s to be %s", attempt, s), func() bool { return r.attempt(attempt).State == s })
	return r.attempt(attempt)
}

// rests waits until a thread's paired task is in a status.
func (r *rig) rests(thread string, s turns.PairedStatus) turns.Paired {
	r.t.Helper()
	r.await(fmt.Sprintf("%s to be %s", thread, s), func() bool { return r.paired(thread).Status == s })
	return r.paired(thread)
}

// states is the short story of a turn: its attempts with service, cause and state.
func (r *rig) states(turn string) []string {
	r.t.Helper()
	var list []string
	for _, a := range r.attempts(turn) {
		list = append(list, fmt.Sprintf("%s %s %s", a.Service, a.Cause, a.State))
	}
	return list
}

// story fails the test unless a turn's attempts were these.
func (r *rig) story(turn string, want ...string) {
	r.t.Helper()
	if got := r.states(turn); !slices.Equal(got, want) {
		r.t.Fatalf("attempts of %s:\n  %s\nwant\n  %s\n%s", turn, strings.Join(got, "\n  "), strings.Join(want, "\n  "), r.picture())
	}
}

// picture is what a person wants to see when a test fails.
func (r *rig) picture() string {
	var b strings.Builder
	ctx := context.Background()
	names, _ := r.store.Threads(ctx, 0)
	for _, name := range names {
		t, err := r.store.Thread(ctx, name)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "thread %s: open %q, hold %d until %s\n", name, t.OpenTurn, t.Hold, t.HoldUntil.Format(time.TimeOnly))
		for n := 1; n <= t.Turns; n++ {
			turn := turns.TurnID(name, n)
			u, _ := r.store.Turn(ctx, turn)
			fmt.Fprintf(&b, "  %s %s %s: %s %s %s\n", turn, u.Role, u.Intent, u.State, u.Outcome, u.Reason)
			log, _ := r.store.Log(ctx, turn)
			for _, e := range log {
				fmt.Fprintf(&b, "    %s %s %s: %s -> %s by %s, %s\n", e.At.Format("15:04:05.000"), e.Attempt, e.Verb, e.From, e.To, e.Service, e.Reason)
			}
		}
	}
	return b.String()
}

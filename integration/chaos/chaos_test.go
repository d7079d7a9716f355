package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"rota/commands"
	"rota/turns"
)

// TestCampaign runs one campaign. ROTA_CHAOS_SEED chooses it, ROTA_CHAOS_MINUTES
// its length; in one of a chosen length two workers have a clock that is five minutes
// off, which takes a while to build.
func TestCampaign(t *testing.T) {
	if testing.Short() {
		t.Skip("a campaign takes more than a minute")
	}
	seed, length := uint64(1), 20*time.Second
	if text := os.Getenv("ROTA_CHAOS_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("ROTA_CHAOS_SEED: %v", err)
		}
		seed = n
	}
	if text := os.Getenv("ROTA_CHAOS_MINUTES"); text != "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("ROTA_CHAOS_MINUTES: %v", err)
		}
		length = time.Duration(n * float64(time.Minute))
	}
	f := newField(t, seed, os.Getenv("ROTA_CHAOS_MINUTES") != "")
	random := rand.New(rand.NewPCG(seed, 2))
	f.startAll()
	accepted := f.campaign(random, length)
	f.calm()
	f.ended(accepted)
	f.stopAll()
	f.verify()
	f.ledger()
	f.agentsGone()
	f.tell(accepted)
}

// inWork is how many paired tasks are at work at a time: about as many as there are
// slots, so that no worker is idle when one of them is down.
const inWork = 20

// campaign gives work and makes faults until the time is over. It returns the
// threads of the tasks that were accepted.
func (f *field) campaign(r *rand.Rand, length time.Duration) []string {
	var accepted []string
	open := map[string]bool{}
	for end := time.Now().Add(length); time.Now().Before(end); {
		for len(open) < inWork {
			name := fmt.Sprintf("c%d", len(accepted))
			// A command whose answer is lost is given again with its key, as people do.
			if !f.until(5*time.Second, func(ctx context.Context) error {
				_, err := f.commands.Task(ctx, commands.TaskAsk{Key: "task", Thread: name, Text: "work on " + name})
				return err
			}) {
				break
			}
			accepted = append(accepted, name)
			open[name] = true
		}
		f.heal(false)
		threads := slices.Sorted(maps.Keys(open))
		f.fault(r, threads)
		f.lateWrites(threads)
		time.Sleep(time.Duration(150+r.IntN(600)) * time.Millisecond)
		for name := range open {
			if f.rests(name) {
				delete(open, name)
			}
		}
	}
	return accepted
}

// rests reports whether nothing is open in a thread.
func (f *field) rests(name string) bool {
	ctx, cancel := context.WithTimeout(f.ctx, time.Second)
	defer cancel()
	t, err := f.store.Thread(ctx, name)
	return err == nil && t.OpenTurn == ""
}

// ended waits until every accepted task has come to its end, visibly: completed, or
// waiting for a person after a turn that says why.
func (f *field) ended(accepted []string) {
	f.t.Helper()
	for _, name := range accepted {
		f.await("the end of "+name, func() bool { return f.rests(name) })
		p, err := f.store.Paired(f.ctx, turns.PairedID(name, 1))
		if err != nil {
			f.t.Fatal(err)
		}
		f.count("tasks " + string(p.Status))
		if !p.Status.Finished() && (p.Status != turns.NeedsHuman || p.Reason == "") {
			f.t.Errorf("%s is %s, reason %q, and nothing is open", p.ID, p.Status, p.Reason)
		}
	}
}

// verify holds everything that is stored against the invariants.
func (f *field) verify() {
	f.t.Helper()
	found, err := f.store.Verify(f.ctx, "")
	if err != nil {
		f.t.Fatal(err)
	}
	for _, v := range found {
		f.t.Error(v)
		log, _ := f.store.Log(f.ctx, v.ID)
		for _, e := range log {
			f.t.Logf("  %s %s %s: %s -> %s, fence %d, %s", e.At.Format("15:04:05.000"), e.Attempt, e.Verb, e.From, e.To, e.Fence, e.Reason)
		}
	}
}

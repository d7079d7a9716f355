package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"rota/commands"
	"rota/turns"
)

// Steers race the end of runs in another process, over commands, published words
// and control queues: each accepted text is taken by the run, or is the next human
// message, never both, never neither.
func TestSteersRaceAWorker(t *testing.T) {
	t.Parallel()
	n, each := scale(12, 100), 10
	r := newRig(t, solo(longLease, "codex-main"))
	script := filepath.Join(r.dir, "play.json")
	r.ok(os.WriteFile(script, []byte(`{"do":[{"accept":true},{"wait":"120ms"},{"result":"done","text":"done"}]}`), 0o600))
	r.configure("{agent: command, command: ["+quoted(program("puppet"), r.dir)+", codex-main]}", "{agent: scripted, concurrency: 3, script: "+script+"}")
	r.hurried()
	r.start("codex-main")
	accepted := make([]map[string]string, n) // by thread: key -> text
	var all sync.WaitGroup
	few := make(chan struct{}, 3)
	for i := range n {
		few <- struct{}{}
		turn := r.task(fmt.Sprintf("s-%d", i))
		accepted[i] = map[string]string{}
		all.Go(func() {
			defer func() { <-few }()
			r.await("the run of "+turn, func() bool { s := r.turn(turn).State; return s != turns.Queued })
			for k := range each {
				key, text := fmt.Sprint("k", k), fmt.Sprintf("%s, say %d", turn, k)
				switch _, err := r.commands.Steer(t.Context(), key, turn, text); {
				case err == nil:
					accepted[i][key] = text
				case kind(err) != commands.Conflict:
					t.Error(err)
				}
				time.Sleep(rand.N(30 * time.Millisecond))
			}
		})
	}
	all.Wait()
	taken, next, total := 0, 0, 0
	for i := range n {
		thread := fmt.Sprintf("s-%d", i)
		r.rests(thread, turns.NeedsHuman) // no reviewer is configured
		by := map[string]int{}
		asks, err := r.store.Asks(t.Context(), thread+"/1", 0)
		r.ok(err)
		for _, a := range asks {
			if a.Answer == "taken" {
				by[a.Text]++
				taken++
			}
		}
		var said []turns.Message
		for k := 2; k <= r.thread(thread).Turns; k++ {
			more, err := r.store.Said(t.Context(), turns.TurnID(thread, k))
			r.ok(err)
			said = append(said, more...)
		}
		waiting, err := r.store.Waiting(t.Context(), thread)
		r.ok(err)
		for _, m := range append(said, waiting...) {
			by[m.Text]++
			next++
		}
		for _, text := range accepted[i] {
			total++
			if by[text] != 1 {
				t.Errorf("%q is in %d places, want one", text, by[text])
			}
		}
	}
	t.Logf("%d steers accepted of %d: %d taken, %d the next message", total, n*each, taken, next)
	if taken == 0 || total == 0 {
		t.Error("no run took a text: this was no test")
	}
}

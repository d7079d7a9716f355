package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"rota/turns"
)

// One service takes every role, one run at a time, and new tasks keep coming: no
// turn overtakes another, so reviewers and arbiters get their turn after what
// waited before them, however many owners come behind, and a thread with many
// turns waits like the others.
func TestNobodyOvertakes(t *testing.T) {
	t.Parallel()
	r := newRig(t, setup{roles: map[string][]string{"owner": {"one"}, "reviewer": {"one"}, "arbiter": {"one"}}, limits: longLease})
	// Reviewer and owner of one thread go on for three rounds, until the arbiter comes.
	r.rules(rule{Role: "reviewer", Thread: "f-0", Times: 2, Steps: []string{"result changes not yet"}})
	r.start("one")
	const first, most = 5, 12
	for n := range first {
		r.task(fmt.Sprintf("f-%d", n))
	}
	for n := first; n < most; n++ { // a new task with each turn that begins
		r.await("the next run", func() bool { return len(r.runs(nil)) > n })
		r.task(fmt.Sprintf("f-%d", n))
	}
	type wait struct {
		turn           string
		opened, served time.Time
	}
	var all []wait
	for n := range most {
		thread := fmt.Sprintf("f-%d", n)
		r.rests(thread, turns.PairCompleted)
		for k := 1; k <= r.thread(thread).Turns; k++ {
			w := wait{turn: turns.TurnID(thread, k)}
			for _, e := range r.log(w.turn) {
				switch e.Verb {
				case turns.VerbOpen:
					w.opened = e.At
				case turns.VerbClaim:
					w.served = e.At
				}
			}
			all = append(all, w)
		}
	}
	// Two writers that open at nearly the same moment may hand over in either order.
	const moment = 500 * time.Millisecond
	for _, a := range all {
		for _, b := range all {
			if a.opened.Add(moment).Before(b.opened) && b.served.Before(a.served) {
				t.Errorf("%s (opened %s) overtook %s (opened %s)", b.turn, b.opened.Format("05.000"), a.turn, a.opened.Format("05.000"))
			}
		}
	}
	if !slices.ContainsFunc(r.runs(nil), func(e execution) bool { return e.Role == "arbiter" }) || len(all) < 3*most {
		t.Errorf("%d turns without an arbiter: this was no test", len(all))
	}
}

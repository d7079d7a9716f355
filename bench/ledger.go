package main

import (
	"fmt"
	"sync"
	"time"
)

// steps is the length of a paired round: the owner works, the reviewer approves,
// the owner finalizes.
const steps = 3

// executorOf returns the service that carries out a step.
func executorOf(step int, m mode) string {
	if m == together {
		return both
	}
	return [steps]string{"owner", "reviewer", "owner"}[step]
}

// ledger counts what executors say they did.
type ledger struct {
	mu     sync.Mutex
	calls  map[[2]int]int // times the executor's code was called, by round and step
	ends   map[[2]int]int
	begins map[[2]int]time.Time
	fails  map[[2]int]time.Time
	second map[[2]int]time.Time // the second beginning
	done   chan int             // rounds that have ended
}

func newLedger() *ledger {
	return &ledger{calls: map[[2]int]int{}, ends: map[[2]int]int{}, begins: map[[2]int]time.Time{}, fails: map[[2]int]time.Time{},
		second: map[[2]int]time.Time{}, done: make(chan int, 1<<20)}
}

func (l *ledger) hear(e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := [2]int{e.round, e.step}
	switch e.kind {
	case began:
		if _, again := l.begins[key]; again {
			l.second[key] = e.at
		} else {
			l.begins[key] = e.at
		}
	case called:
		l.calls[key]++
	case failed:
		l.fails[key] = e.at
	case ended:
		l.ends[key]++
		if e.step == steps-1 {
			l.done <- e.round
		}
	}
}

func (l *ledger) begin(round, step int) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.begins[[2]int{round, step}]
	return at, ok
}

// check returns an error unless every step of the rounds from one number up to
// another was carried out exactly once and nothing else was.
func (l *ledger) check(from, to int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := from; r < to; r++ {
		for s := range steps {
			if n := l.calls[[2]int{r, s}]; n != 1 {
				return fmt.Errorf("round %d, step %d: carried out %d times", r, s, n)
			}
		}
	}
	if len(l.calls) != (to-from)*steps {
		return fmt.Errorf("%d steps were carried out, %d were asked for", len(l.calls), (to-from)*steps)
	}
	return nil
}

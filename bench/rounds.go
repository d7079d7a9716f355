package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"
)

// window is how many rounds are under way at once.
const window = 128

// roundsRun is one measurement at saturation.
type roundsRun struct {
	Peer      string  `json:"peer"`
	Processes int     `json:"processes"`
	Rounds    int     `json:"rounds"`
	Rate      float64 `json:"rounds_per_second"`
	ClientCPU float64 `json:"client_cpu_us_per_round"`
	StoreCPU  float64 `json:"store_cpu_us_per_round"`
	Commands  float64 `json:"redis_commands_per_turn,omitempty"`
	RedisTime float64 `json:"redis_us_per_turn,omitempty"`
	Calls     string  `json:"redis_calls,omitempty"`
}

// warmUp is played before the clock starts.
const warmUp = 100

// saturate keeps a window of rounds under way for a time, waits until all have
// ended and checks that every step was carried out exactly once.
func saturate(ctx context.Context, p *peer, processes int, d time.Duration) (roundsRun, error) {
	m, services := layout(processes)
	h, err := move(ctx, p, m)
	if err != nil {
		return roundsRun{}, err
	}
	defer h.close()
	return saturateIn(ctx, p, h, services, d)
}

func saturateIn(ctx context.Context, p *peer, h *house, services []string, d time.Duration) (roundsRun, error) {
	l := newLedger()
	c, err := start(p, h, services, l)
	if err != nil {
		return roundsRun{}, err
	}
	defer c.stop()
	cl, err := p.client(ctx, h)
	if err != nil {
		return roundsRun{}, err
	}
	defer cl.close()
	f := &feeder{client: cl, ledger: l, crew: c, next: h.first}
	defer func() { h.first = f.next }()
	if err := f.feed(ctx, func(n int) bool { return n < warmUp }); err != nil {
		return roundsRun{}, err
	}
	first := f.next
	warm := h.first
	before, err := h.commandTimes(ctx)
	if err != nil {
		return roundsRun{}, err
	}
	storeCPU, clientCPU, began := h.cpu(), c.cpu()+selfCPU(), time.Now()
	if err := f.feed(ctx, func(int) bool { return time.Since(began) < d }); err != nil {
		return roundsRun{}, err
	}
	took := time.Since(began)
	n := float64(f.next - first)
	r := roundsRun{Peer: p.name, Processes: len(services), Rounds: f.next - first, Rate: n / took.Seconds(),
		ClientCPU: float64((c.cpu() + selfCPU() - clientCPU).Microseconds()) / n, StoreCPU: float64((h.cpu() - storeCPU).Microseconds()) / n}
	after, err := h.commandTimes(ctx)
	if err != nil {
		return roundsRun{}, err
	}
	r.Commands, r.RedisTime, r.Calls = after.since(before).perTurn(n * steps)
	if err := l.check(warm, f.next); err != nil {
		return r, fmt.Errorf("%s: %w", p.name, err)
	}
	if p.settled != nil {
		if err := p.settled(ctx, h, warm, f.next); err != nil {
			return r, fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return r, nil
}

// feeder begins rounds and waits for their ends.
type feeder struct {
	client client
	ledger *ledger
	crew   *crew
	next   int // number of the next round
}

// patience is how long no round may end before a measurement is given up.
const patience = 60 * time.Second

// feed begins rounds as long as more says so, at most a window at once, and
// returns when all have ended.
func (f *feeder) feed(ctx context.Context, more func(n int) bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begin := make(chan int)
	var all sync.WaitGroup
	for range 4 * runtime.NumCPU() {
		all.Go(func() {
			for n := range begin {
				if err := f.client.begin(ctx, n); err != nil {
					cancel(err)
				}
			}
		})
	}
	begun, under := 0, 0
	wait := func() error {
		select {
		case <-f.ledger.done:
			under--
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(patience):
			var said []string
			for _, e := range f.crew.all {
				said = append(said, e.said())
			}
			return fmt.Errorf("no round has ended for %s, %d are open:\n%s", patience, under, strings.Join(said, "\n"))
		}
	}
	var err error
	for err == nil && more(begun) {
		if under == window {
			err = wait()
			continue
		}
		begin <- f.next
		f.next++
		begun++
		under++
	}
	close(begin)
	all.Wait()
	for err == nil && under > 0 {
		err = wait()
	}
	return err
}

package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"
)

// latencyRun is one measurement of times, in milliseconds.
type latencyRun struct {
	Peer  string  `json:"peer"`
	What  string  `json:"what"`
	Tries int     `json:"tries"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
	Most  float64 `json:"most_ms"`
}

func latencyOf(p *peer, what string, all []time.Duration) latencyRun {
	ms := make([]float64, len(all))
	for i, d := range all {
		ms[i] = float64(d.Microseconds()) / 1000
	}
	slices.Sort(ms)
	return latencyRun{p.name, what, len(all), quantile(ms, 0.5), quantile(ms, 0.99), quantile(ms, 1)}
}

func (b *bench) addLatency(r latencyRun) {
	fmt.Fprintf(os.Stderr, "  %-12s %s: p50 %s ms, p99 %s ms of %d\n", r.Peer, r.What, short(r.P50), short(r.P99), r.Tries)
	b.report.Latency = append(b.report.Latency, r)
}

// each measures every peer in turn, runs times; a peer that fails is left out.
func (b *bench) each(ctx context.Context, list []*peer, one func(p *peer) error) error {
	for range b.runs {
		for _, p := range slices.Clone(list) {
			if !b.have(p) {
				continue
			}
			err := one(p)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				b.skip(p, err)
			}
		}
	}
	return nil
}

// playing is a peer at work in a house.
type playing struct {
	house  *house
	ledger *ledger
	crew   *crew
	client client
}

func play(ctx context.Context, p *peer, m mode, services []string) (*playing, error) {
	h, err := move(ctx, p, m)
	if err != nil {
		return nil, err
	}
	g := &playing{house: h, ledger: newLedger()}
	if g.crew, err = start(p, h, services, g.ledger); err != nil {
		h.close()
		return nil, err
	}
	if g.client, err = p.client(ctx, h); err != nil {
		g.crew.stop()
		h.close()
		return nil, err
	}
	return g, nil
}

func (g *playing) end() {
	g.client.close()
	g.crew.stop()
	g.house.close()
}

// hears waits until something is in the ledger.
func (g *playing) hears(ctx context.Context, what string, reached func(l *ledger) bool) error {
	return await(ctx, what, func() bool {
		g.ledger.mu.Lock()
		defer g.ledger.mu.Unlock()
		return reached(g.ledger)
	})
}

// pickups is how many idle pick-ups one measurement makes, and how long it may take.
const (
	pickups    = 100
	pickupTime = 20 * time.Second
	pickupWarm = 2 // the first ones open connections
)

// measurePickup measures the time from before the call that begins a round to the
// start of its first step, with everybody idle.
func measurePickup(ctx context.Context, b *bench) error {
	return b.each(ctx, b.peerList, func(p *peer) error {
		g, err := play(ctx, p, apart, []string{"owner", "reviewer"})
		if err != nil {
			return err
		}
		defer g.end()
		var all []time.Duration
		began := time.Now()
		for n := 0; n < pickups && time.Since(began) < pickupTime; n++ {
			// Times that don't beat with anybody's polling.
			time.Sleep(time.Duration(10+n*7%23) * time.Millisecond)
			asked := time.Now()
			if err := g.client.begin(ctx, n); err != nil {
				return err
			}
			if err := g.hears(ctx, "the round", func(l *ledger) bool { return l.ends[[2]int{n, steps - 1}] > 0 }); err != nil {
				return err
			}
			at, _ := g.ledger.begin(n, 0)
			if n >= pickupWarm {
				all = append(all, at.Sub(asked))
			}
		}
		if err := g.ledger.check(0, len(all)+pickupWarm); err != nil {
			return err
		}
		b.addLatency(latencyOf(p, "idle pick-up", all))
		return nil
	})
}

// idleRun is what a worker costs that has nothing to do.
type idleRun struct {
	Peer     string  `json:"peer"`
	Core     float64 `json:"percent_of_a_core"`
	Commands float64 `json:"redis_commands_per_second,omitempty"`
}

func measureIdle(ctx context.Context, b *bench) error {
	return b.each(ctx, b.peerList, func(p *peer) error {
		g, err := play(ctx, p, apart, []string{"owner"})
		if err != nil {
			return err
		}
		defer g.end()
		time.Sleep(time.Second) // what a start costs
		before, err := g.house.commandTimes(ctx)
		if err != nil {
			return err
		}
		cpu, began := g.crew.cpu(), time.Now()
		time.Sleep(10 * time.Second)
		took := time.Since(began).Seconds()
		after, err := g.house.commandTimes(ctx)
		if err != nil {
			return err
		}
		commands, _, _ := after.since(before).perTurn(took)
		r := idleRun{p.name, 100 * (g.crew.cpu() - cpu).Seconds() / took, commands}
		fmt.Fprintf(os.Stderr, "  %-12s idle: %s %% of a core, %s commands/s\n", r.Peer, short(r.Core), short(r.Commands))
		b.report.Idle = append(b.report.Idle, r)
		return nil
	})
}

// measureFallback measures the time from the failure of a run to the start of the
// next one on the fallback.
func measureFallback(ctx context.Context, b *bench) error {
	return b.each(ctx, []*peer{rotaPeer}, func(p *peer) error {
		g, err := play(ctx, p, fallback, []string{"failing", "owner", "reviewer"})
		if err != nil {
			return err
		}
		defer g.end()
		var all []time.Duration
		for n := range pickups {
			if err := g.client.begin(ctx, n); err != nil {
				return err
			}
			key := [2]int{n, 0}
			if err := g.hears(ctx, "the round", func(l *ledger) bool { return l.ends[[2]int{n, steps - 1}] > 0 }); err != nil {
				return err
			}
			if n >= pickupWarm {
				g.ledger.mu.Lock()
				all = append(all, g.ledger.second[key].Sub(g.ledger.fails[key]))
				g.ledger.mu.Unlock()
			}
		}
		b.addLatency(latencyOf(p, "failure to fallback", all))
		return nil
	})
}

// measureKilled kills the process that carries out a step and measures the time to
// the start of the next run elsewhere.
func measureKilled(ctx context.Context, b *bench) error {
	var all []time.Duration
	err := b.each(ctx, []*peer{rotaPeer}, func(p *peer) error {
		g, err := play(ctx, p, killed, []string{"slow", "slow"})
		if err != nil {
			return err
		}
		defer g.end()
		if err := g.client.begin(ctx, 0); err != nil {
			return err
		}
		key := [2]int{0, 0}
		if err := g.hears(ctx, "the run", func(l *ledger) bool { return l.calls[key] > 0 }); err != nil {
			return err
		}
		victim := slices.IndexFunc(g.crew.all, func(e *executor) bool { return len(tree(e.cmd.Process.Pid)) > 1 })
		if victim < 0 {
			return fmt.Errorf("no worker has an agent")
		}
		at := time.Now()
		_ = g.crew.all[victim].cmd.Process.Signal(syscall.SIGKILL)
		if err := g.hears(ctx, "the next run", func(l *ledger) bool { _, ok := l.second[key]; return ok }); err != nil {
			return err
		}
		g.ledger.mu.Lock()
		all = append(all, g.ledger.second[key].Sub(at))
		g.ledger.mu.Unlock()
		for _, e := range g.crew.all {
			e.kill() // the agents never end by themselves; their guards end them
		}
		return nil
	})
	if err == nil && len(all) > 0 {
		b.addLatency(latencyOf(rotaPeer, "kill -9 to the next run", all))
	}
	return err
}

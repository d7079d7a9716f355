package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"rota/internal/config"
	"rota/pairs"
	"rota/scheduler"
	"rota/turns"
	"rota/turns/store"
)

// growthRun is one point of a graph.
type growthRun struct {
	What   string  `json:"what"` // workers, nodes, stored
	Peer   string  `json:"peer"`
	Number int     `json:"number"`
	Rate   float64 `json:"rounds_per_second"`
	Pass   float64 `json:"redis_ms_per_pass,omitempty"`
	Wall   float64 `json:"ms_per_pass,omitempty"`
	GB     float64 `json:"redis_gb,omitempty"`
}

func (b *bench) addGrowth(r growthRun) {
	fmt.Fprintf(os.Stderr, "  %-12s %d %s: %.0f rounds/s, pass %s ms of Redis' time, %s ms in all\n", r.Peer, r.Number, r.What, r.Rate, short(r.Pass), short(r.Wall))
	b.report.Growth = append(b.report.Growth, r)
}

// measureWorkers measures with 1, 2, 4 and 8 processes.
func measureWorkers(ctx context.Context, b *bench) error {
	for _, processes := range []int{1, 2, 4, 8} {
		if err := b.each(ctx, []*peer{rotaPeer, asynqPeer}, func(p *peer) error {
			r, err := saturate(ctx, p, processes, b.duration)
			if err == nil {
				b.addGrowth(growthRun{What: "workers", Peer: p.name, Number: processes, Rate: r.Rate})
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// measureNodes measures on one Redis and on a Cluster of three masters.
func measureNodes(ctx context.Context, b *bench) error {
	for _, nodes := range []int{1, 3} {
		if err := b.each(ctx, []*peer{rotaPeer}, func(p *peer) error {
			h, err := openCluster(ctx, nodes)
			if err != nil {
				return err
			}
			defer h.close()
			h.mode = apart
			_, services := layout(4)
			r, err := saturateIn(ctx, p, h, services, b.duration)
			if err == nil {
				b.addGrowth(growthRun{What: "nodes", Peer: p.name, Number: nodes, Rate: r.Rate})
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// measureStored measures a pass and the rate with so many open turns stored.
func measureStored(ctx context.Context, b *bench) error {
	for _, word := range strings.Split(b.stored, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return fmt.Errorf("--stored %q: %w", b.stored, err)
		}
		if err := b.storedOnce(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) storedOnce(ctx context.Context, n int) error {
	h, err := openRedis(ctx)
	if err != nil {
		return err
	}
	defer h.close()
	h.mode = apart
	if err := fill(ctx, h, n); err != nil {
		return err
	}
	rdb := h.client()
	bytes, err := usedMemory(ctx, rdb)
	rdb.Close()
	if err != nil {
		return err
	}
	plain := *rotaPeer
	plain.settled = nil // it would look at every stored turn
	_, services := layout(2)
	for range b.runs {
		pass, wall, err := passCost(ctx, h)
		if err != nil {
			return err
		}
		r, err := saturateIn(ctx, &plain, h, services, b.duration)
		if err != nil {
			return err
		}
		b.addGrowth(growthRun{What: "stored", Peer: "rota", Number: n, Rate: r.Rate, Pass: pass, Wall: wall, GB: bytes / (1 << 30)})
	}
	return nil
}

// fill opens so many lone turns of a service that nobody serves. The relay's time
// for them is far away: nothing is due.
func fill(ctx context.Context, h *house, n int) error {
	file, err := rotaConfig(h)
	if err != nil {
		return err
	}
	cfg, err := config.Load(file, config.Flags{})
	if err != nil {
		return err
	}
	rdb, err := config.RedisClient(cfg.Redis)
	if err != nil {
		return err
	}
	defer rdb.Close()
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan, Crew: cfg.Crew(), Grace: 24 * time.Hour})
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	errs := make([]error, 16)
	for w := range errs {
		all.Go(func() {
			for i := w; i < n && errs[w] == nil; i += len(errs) {
				_, errs[w] = s.OpenTurn(ctx, store.NewTurn{Command: "fill", Thread: fmt.Sprintf("s%d", i), Role: turns.Owner, Intent: turns.Work,
					Seat: turns.Seat{Services: []string{"nobody"}}, Prompt: "do the work"})
			}
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// passCost makes passes and returns Redis' time and the whole time of one, in ms.
func passCost(ctx context.Context, h *house) (micros, wall float64, err error) {
	c, err := openRota(ctx, h)
	if err != nil {
		return 0, 0, err
	}
	defer c.close()
	quietLog := slog.New(slog.DiscardHandler)
	r := scheduler.NewReconciler(scheduler.Config{Store: c.store, Relay: scheduler.NewRelay(c.store, quietLog, nil), Log: quietLog})
	if _, err := r.Pass(ctx); err != nil {
		return 0, 0, err
	}
	const passes = 50
	before, err := h.commandTimes(ctx)
	if err != nil {
		return 0, 0, err
	}
	var walls []float64
	for range passes {
		began := time.Now()
		report, err := r.Pass(ctx)
		if err != nil {
			return 0, 0, err
		}
		if len(report.Problems) > 0 {
			return 0, 0, report.Problems[0]
		}
		walls = append(walls, float64(time.Since(began).Microseconds())/1000)
	}
	after, err := h.commandTimes(ctx)
	if err != nil {
		return 0, 0, err
	}
	spent := int64(0)
	for name, t := range after.since(before) {
		if name == "evalsha" || name == "info" || name == "zrange" || name == "hmget" || name == "zscore" {
			spent += t.Micros
		}
	}
	slices.Sort(walls)
	return float64(spent) / 1000 / passes, quantile(walls, 0.5), nil
}

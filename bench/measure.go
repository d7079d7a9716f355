package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// kind is one kind of measurement.
type kind struct {
	name string
	run  func(ctx context.Context, b *bench) error
}

var kinds []kind

func init() {
	kinds = []kind{
		{"profile", measureProfile},
		{"rounds", measureRounds},
		{"pickup", measurePickup},
		{"idle", measureIdle},
		{"fallback", measureFallback},
		{"killed", measureKilled},
		{"memory", measureMemory},
		{"workers", measureWorkers},
		{"nodes", measureNodes},
		{"stored", measureStored},
	}
}

func kindNames() []string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

// bench is one run of the whole program: what was asked for and what was found.
type bench struct {
	options
	peerList []*peer
	report   report
}

func measure(ctx context.Context, o options) error {
	b := &bench{options: o}
	for _, p := range peers {
		if o.peers == "" || slices.Contains(strings.Split(o.peers, ","), p.name) {
			b.peerList = append(b.peerList, p)
		}
	}
	dir, err := os.MkdirTemp("", "rota-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := buildWorker(ctx, dir); err != nil {
		return err
	}
	b.report.Machine = machine()
	for _, k := range kinds {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), k.name) {
			continue
		}
		fmt.Fprintf(os.Stderr, "%s …\n", k.name)
		if err := k.run(ctx, b); err != nil {
			// What was measured before is worth keeping.
			return errors.Join(fmt.Errorf("%s: %w", k.name, err), b.report.write(o))
		}
	}
	return b.report.write(o)
}

// skip notes that a peer can't be measured, and goes on without it.
func (b *bench) skip(p *peer, why error) {
	line := p.name + " is left out: " + strings.Split(why.Error(), "\n")[0]
	fmt.Fprintln(os.Stderr, line+"\n"+why.Error())
	b.report.Skipped = append(b.report.Skipped, line)
	b.peerList = slices.DeleteFunc(b.peerList, func(q *peer) bool { return q == p })
}

// have returns the peer of a name, if it takes part.
func (b *bench) have(p *peer) bool { return slices.Contains(b.peerList, p) }

// measureRounds measures all peers in turn, again and again, so that a change of
// the machine's load meets all of them.
func measureRounds(ctx context.Context, b *bench) error {
	for _, processes := range []int{1, 2, 4} {
		for range b.runs {
			for _, p := range slices.Clone(b.peerList) {
				r, err := saturate(ctx, p, processes, b.duration)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					b.skip(p, err)
					continue
				}
				fmt.Fprintf(os.Stderr, "  %-10s %d processes: %6.0f rounds/s, client %.0f µs, store %.0f µs a round; %s\n", r.Peer, r.Processes, r.Rate, r.ClientCPU, r.StoreCPU, r.Calls)
				b.report.Rounds = append(b.report.Rounds, r)
			}
		}
	}
	return nil
}

// machine is what the numbers were taken on.
func machine() map[string]string {
	m := map[string]string{"date": time.Now().UTC().Format(time.DateOnly), "go": runtime.Version(), "os": runtime.GOOS + "/" + runtime.GOARCH,
		"cores": fmt.Sprint(runtime.NumCPU()), "redis persistence": "appendonly, appendfsync everysec", "postgres persistence": "synchronous_commit off (as much may be lost as with everysec)"}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				m["cpu"] = strings.Trim(name, "\t :\n")
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m["load before"] = strings.Join(strings.Fields(string(text))[:3], " ")
	}
	if out, err := exec.Command("redis-server", "--version").Output(); err == nil {
		m["redis"] = strings.Fields(string(out))[2]
	}
	if dir, ok := findPostgres(); ok {
		if out, err := exec.Command(dir+"/postgres", "--version").Output(); err == nil {
			m["postgres"] = strings.TrimSpace(string(out))
		}
	}
	if built, ok := debug.ReadBuildInfo(); ok {
		for _, d := range built.Deps {
			switch d.Path {
			case "github.com/hibiken/asynq", "github.com/redis/go-redis/v9", "github.com/riverqueue/river", "github.com/dbos-inc/dbos-transact-golang", "github.com/cschleiden/go-workflows":
				m[d.Path] = d.Version
			}
		}
	}
	return m
}

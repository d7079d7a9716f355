// Bench measures rota against other ways to carry out the same work: a paired
// round of three durable steps by different executors (the owner works, the
// reviewer approves, the owner finalizes), side by side on one machine in one
// run. Every measurement checks that each step was carried out exactly as often
// as it should be.
//
//	go run . [--runs 5] [--for 3s] [--only rounds,pickup,…] [--peers rota,asynq,…] [--json FILE] [--docs DIR]
//	go run . render DIR FILE…          tables and graphs of earlier runs
//
// The servers are our own, on free ports of the loopback and in folders that are
// removed: redis-server from the PATH, and PostgreSQL, which is installed with
// apt-get where that is allowed. A peer that can't be had is skipped and said so.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what a person may say.
type options struct {
	runs     int
	duration time.Duration
	only     string
	peers    string
	json     string
	docs     string
	stored   string
	pprof    string
}

func run(ctx context.Context, args []string) error {
	if len(args) == 4 && args[0] == "carry" {
		carry, ok := carriers[args[1]]
		if !ok {
			return fmt.Errorf("no executor of %s", args[1])
		}
		return carry(ctx, args[2], args[3], &speaker{out: os.Stdout})
	}
	if len(args) > 2 && args[0] == "render" {
		return render(args[1], args[2:])
	}
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.runs, "runs", 5, "measurements of each kind; the table shows their median and range")
	flags.DurationVar(&o.duration, "for", 3*time.Second, "how long rounds are begun in one measurement at saturation")
	flags.StringVar(&o.only, "only", "", "kinds to measure, with commas: "+strings.Join(kindNames(), ", "))
	flags.StringVar(&o.peers, "peers", "", "peers to measure, with commas")
	flags.StringVar(&o.json, "json", "", "file for all numbers")
	flags.StringVar(&o.docs, "docs", "", "folder whose performance.md gets the tables, and that gets the graphs")
	flags.StringVar(&o.pprof, "pprof", "", "file for a CPU profile of the kind profile")
	flags.StringVar(&o.stored, "stored", "1000,100000", "numbers of stored turns for the growth")
	flags.BoolVar(&slowFiles, "disk", false, "keep the workspaces of rota's threads on disk")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return measure(ctx, o)
}

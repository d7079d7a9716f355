package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// peer is one way to carry out paired rounds.
type peer struct {
	name  string
	about string // version and how the round is made, for the table
	store string // "redis" or "postgres"

	// prepare makes the store ready; may be nil.
	prepare func(ctx context.Context, h *house) error
	// command is a process that carries out the steps of a service.
	command func(h *house, service string) (*exec.Cmd, error)
	// fromStderr and parse say where a process's events are.
	fromStderr bool
	parse      func(line []byte) (event, bool)
	// client returns what begins rounds.
	client func(ctx context.Context, h *house) (client, error)
	// settled returns an error unless the store says that the rounds have ended as
	// they should; nil when the executors' word is all there is.
	settled func(ctx context.Context, h *house, from, to int) error
}

// client begins rounds.
type client interface {
	begin(ctx context.Context, round int) error
	close()
}

// peers are all ways, ours first.
var peers = []*peer{rotaPeer, asynqPeer, slowAsynqPeer, riverPeer, dbosPeer, workflowsPeer}

// carriers are what a process of `bench carry NAME` runs, by peer.
var carriers = map[string]func(ctx context.Context, url string, service string, say *speaker) error{
	"asynq": carryAsynq(asynqPolls["asynq"]), "asynq-1s": carryAsynq(asynqPolls["asynq-1s"]), "river": carryRiver, "dbos": carryDBOS, "workflows": carryWorkflows,
}

// carryCommand runs this program as an executor of a peer.
func carryCommand(name, url, service string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(self, "carry", name, url, service), nil
}

// speaker writes events, one a line.
type speaker struct {
	mu  sync.Mutex
	out io.Writer
}

func (s *speaker) say(kind byte, round, step int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%c %d %d %d\n", kind, round, step, time.Now().UnixNano())
}

// work is what every executor does in a step: it says so.
func (s *speaker) work(round, step int) {
	s.say(began, round, step)
	s.say(called, round, step)
}

// parseSpeech reads what a speaker wrote.
func parseSpeech(line []byte) (event, bool) {
	var e event
	var nanos int64
	if _, err := fmt.Sscanf(string(line), "%c %d %d %d", &e.kind, &e.round, &e.step, &nanos); err != nil {
		return e, false
	}
	e.at = time.Unix(0, nanos)
	return e, true
}

// modeOf is the mode that an executor's service tells.
func modeOf(service string) mode {
	if service == both {
		return together
	}
	return apart
}

// move opens the store of a measurement.
func move(ctx context.Context, p *peer, m mode) (*house, error) {
	open := openRedis
	if p.store == "postgres" {
		open = openPostgres
	}
	h, err := open(ctx)
	if err != nil {
		return nil, err
	}
	h.mode = m
	if p.prepare != nil {
		if err := p.prepare(ctx, h); err != nil {
			h.close()
			return nil, err
		}
	}
	return h, nil
}

// layout says which service each process carries out.
func layout(processes int) (mode, []string) {
	if processes == 1 {
		return together, []string{both}
	}
	services := make([]string, processes)
	for i := range services {
		services[i] = [2]string{"owner", "reviewer"}[i%2]
	}
	return apart, services
}

// crew is the processes of one measurement.
type crew struct {
	peer *peer
	all  []*executor
}

func start(p *peer, h *house, services []string, l *ledger) (*crew, error) {
	c := &crew{peer: p}
	for _, service := range services {
		if err := c.add(h, service, l); err != nil {
			c.stop()
			return nil, err
		}
	}
	return c, nil
}

func (c *crew) add(h *house, service string, l *ledger) error {
	cmd, err := c.peer.command(h, service)
	if err != nil {
		return err
	}
	e, err := launch(cmd, c.peer.fromStderr, c.peer.parse, l.hear)
	if err != nil {
		return err
	}
	c.all = append(c.all, e)
	return e.waitReady()
}

func (c *crew) cpu() time.Duration {
	var sum time.Duration
	for _, e := range c.all {
		sum += e.cpu()
	}
	return sum
}

func (c *crew) stop() {
	var all sync.WaitGroup
	for _, e := range c.all {
		all.Go(e.stop)
	}
	all.Wait()
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/config"
	"rota/pairs"
	"rota/scheduler"
	"rota/turns"
	"rota/turns/store"
)

// rotaPeer is the real worker program with an agent that answers at once.
var rotaPeer = &peer{
	name: "rota", store: "redis",
	about:      "the worker program, scripted agent that answers at once, a folder in memory for each thread, no git",
	command:    rotaCommand,
	fromStderr: true, parse: parseWorkerLog,
	client:  newRotaClient,
	settled: rotaSettled,
}

// concurrency is how many steps one executor carries out at once, for all peers.
const concurrency = 16

// workerProgram is the built worker.
var workerProgram string

// buildWorker builds the worker program into dir.
func buildWorker(ctx context.Context, dir string) error {
	workerProgram = filepath.Join(dir, "worker")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", workerProgram, "./cmd/worker")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the worker: %w\n%s", err, out)
	}
	return nil
}

// rotaRoles says who takes the turns of owner and reviewer, by what is measured.
var rotaRoles = map[mode][2]string{
	apart:    {"owner", "reviewer"},
	together: {both, both},
	fallback: {"failing, owner", "reviewer"},
	killed:   {"slow", "reviewer"},
}

// rotaConfig writes the configuration of a house, once.
func rotaConfig(h *house) (string, error) {
	file := filepath.Join(h.dir, "rota.yaml")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	script := `{"service":"failing","do":[{"error":"refusal","text":"not me"}]}` + "\n"
	if err := os.WriteFile(filepath.Join(h.dir, "script.txt"), []byte(script), 0o600); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "redis: %s\ndata: %s\nservices:\n", h.redis, h.fast)
	for _, name := range []string{"owner", "reviewer", both, "failing"} {
		fmt.Fprintf(&b, "  %s: {agent: scripted, script: script.txt, concurrency: %d}\n", name, concurrency)
	}
	roles := rotaRoles[h.mode]
	fmt.Fprintf(&b, "  slow: {agent: command, command: [sleep, \"600\"], concurrency: 1}\nroles:\n  owner: {services: [%s]}\n  reviewer: {services: [%s]}\n", roles[0], roles[1])
	return file, os.WriteFile(file, []byte(b.String()), 0o600)
}

func rotaCommand(h *house, service string) (*exec.Cmd, error) {
	file, err := rotaConfig(h)
	if err != nil {
		return nil, err
	}
	return exec.Command(workerProgram, "--config", file, "--http", "off", "--log", "json", "--service", service), nil
}

var (
	keyMsg  = []byte(`"msg":"`)
	keyTurn = []byte(`"turn":"r`)
	keyTime = []byte(`"time":"`)
)

// workerWords are the lines of a worker's log that count, by the kind of event.
var workerWords = map[string]byte{
	"attempt claimed": began, "agent accepted the prompt": called, "turn settled": ended, "run failed": failed, "service served": ready,
}

// parseWorkerLog reads a line of a worker's log.
func parseWorkerLog(line []byte) (event, bool) {
	kind, ok := workerWords[field(line, keyMsg)]
	if !ok {
		return event{}, false
	}
	e := event{kind: kind}
	if kind == ready {
		return e, true
	}
	round, step, ok := strings.Cut(field(line, keyTurn), "/")
	if !ok {
		return event{}, false
	}
	e.round, _ = strconv.Atoi(round)
	e.step, _ = strconv.Atoi(step)
	e.step--
	e.at, _ = time.Parse(time.RFC3339Nano, field(line, keyTime))
	return e, true
}

func field(line, key []byte) string {
	i := bytes.Index(line, key)
	if i < 0 {
		return ""
	}
	rest := line[i+len(key):]
	j := bytes.IndexByte(rest, '"')
	if j < 0 {
		return ""
	}
	return string(rest[:j])
}

// rotaClient begins rounds as the command line does.
type rotaClient struct {
	rdb      redis.UniversalClient
	store    *store.Store
	commands *commands.Commands
}

func openRota(ctx context.Context, h *house) (*rotaClient, error) {
	file, err := rotaConfig(h)
	if err != nil {
		return nil, err
	}
	cfg, err := config.Load(file, config.Flags{})
	if err != nil {
		return nil, err
	}
	rdb, err := config.RedisClient(cfg.Redis)
	if err != nil {
		return nil, err
	}
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan, Crew: cfg.Crew(), Rules: cfg.Rules()})
	if err != nil {
		rdb.Close()
		return nil, err
	}
	relay := scheduler.NewRelay(s, slog.New(slog.DiscardHandler), nil)
	return &rotaClient{rdb, s, &commands.Commands{Store: s, Hand: relay.Hand}}, nil
}

func newRotaClient(ctx context.Context, h *house) (client, error) { return openRota(ctx, h) }

func thread(round int) string { return "r" + strconv.Itoa(round) }

func (c *rotaClient) begin(ctx context.Context, round int) error {
	_, err := c.commands.Task(ctx, commands.TaskAsk{Thread: thread(round), Text: "do the work"})
	return err
}

func (c *rotaClient) close() { _ = c.rdb.Close() }

// rotaSettled asks the store: every round is a completed paired task of three
// turns, each with one attempt and one delivery, and no invariant is broken.
func rotaSettled(ctx context.Context, h *house, from, to int) error {
	c, err := openRota(ctx, h)
	if err != nil {
		return err
	}
	defer c.close()
	for r := from; r < to; r++ {
		p, err := c.store.Paired(ctx, turns.PairedID(thread(r), 1))
		if err != nil {
			return err
		}
		if p.Status != turns.PairCompleted || p.Turns != steps {
			return fmt.Errorf("%s: %s after %d turns", p.ID, p.Status, p.Turns)
		}
		for n := range steps {
			a, err := c.store.Attempt(ctx, turns.AttemptID(turns.TurnID(thread(r), n+1), 1))
			if err != nil {
				return err
			}
			if a.State != turns.Completed || a.Deliveries != 1 {
				return fmt.Errorf("%s: %s, %d deliveries", a.ID, a.State, a.Deliveries)
			}
		}
	}
	found, err := c.store.Verify(ctx, "")
	if err != nil {
		return err
	}
	if len(found) > 0 {
		text, _ := json.Marshal(found)
		return fmt.Errorf("verify: %s", text)
	}
	return nil
}

package main

import (
	"context"
	"io"
	"log/slog"
	"os/exec"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// riverPeer inserts the next step's job in the transaction that completes the
// step, as River recommends.
var riverPeer = &peer{
	name: "river", store: "postgres", about: "the next job is inserted in the transaction that completes the step, a queue for each executor",
	prepare: func(ctx context.Context, h *house) error {
		pool, err := pgxpool.New(ctx, h.pg)
		if err != nil {
			return err
		}
		defer pool.Close()
		m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
		if err != nil {
			return err
		}
		_, err = m.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	},
	command: func(h *house, service string) (*exec.Cmd, error) { return carryCommand("river", h.pg, service) },
	parse:   parseSpeech,
	client: func(ctx context.Context, h *house) (client, error) {
		pool, err := pgxpool.New(ctx, h.pg)
		if err != nil {
			return nil, err
		}
		c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet, FetchCooldown: riverCooldown})
		return &riverClient{pool, c, h.mode}, err
	},
}

// quiet keeps the peers' own logs out of the measurement; errors still show as
// rounds that do not end.
var quiet = slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError}))

// riverCooldown is the least pause between two fetches, and between two wake-ups of
// a queue; the default of 100 ms bounds the rate.
const riverCooldown = 5 * time.Millisecond

// riverStep is the job of a step.
type riverStep struct {
	Round int `json:"round"`
	Step  int `json:"step"`
}

// Kind names the job to River.
func (riverStep) Kind() string { return "step" }

type riverClient struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	mode   mode
}

func (c *riverClient) begin(ctx context.Context, round int) error {
	_, err := c.client.Insert(ctx, riverStep{round, 0}, &river.InsertOpts{Queue: executorOf(0, c.mode)})
	return err
}

func (c *riverClient) close() { c.pool.Close() }

type riverWorker struct {
	river.WorkerDefaults[riverStep]
	pool *pgxpool.Pool
	mode mode
	say  *speaker
}

// Work carries out one step.
func (w *riverWorker) Work(ctx context.Context, job *river.Job[riverStep]) error {
	s := job.Args
	w.say.work(s.Round, s.Step)
	tx, err := w.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if s.Step+1 < steps {
		c := river.ClientFromContext[pgx.Tx](ctx)
		if _, err := c.InsertTx(ctx, tx, riverStep{s.Round, s.Step + 1}, &river.InsertOpts{Queue: executorOf(s.Step+1, w.mode)}); err != nil {
			return err
		}
	}
	if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
		return err
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	w.say.say(ended, s.Round, s.Step)
	return nil
}

func carryRiver(ctx context.Context, url, service string, say *speaker) error {
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{pool: pool, mode: modeOf(service), say: say})
	c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: quiet, Queues: map[string]river.QueueConfig{service: {MaxWorkers: concurrency}}, Workers: workers,
		FetchCooldown: riverCooldown,
	})
	if err != nil {
		return err
	}
	if err := c.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	say.say(ready, 0, 0)
	<-ctx.Done()
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return c.StopAndCancel(bound)
}

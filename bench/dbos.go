package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
)

// dbosPeer enqueues the next step's workflow from a step of the present one: each
// executor listens to its own queue only.
var dbosPeer = &peer{
	name: "dbos", store: "postgres", about: "a workflow for each step on the executor's queue, polled as often as it may be",
	prepare: func(ctx context.Context, h *house) error {
		c, err := openDBOS(ctx, h.pg)
		if err != nil {
			return err
		}
		if err := c.Launch(); err != nil {
			return err
		}
		for _, q := range []string{"owner", "reviewer", both} {
			if _, err := dbos.RegisterQueue(c, q, dbos.WithWorkerConcurrency(4*concurrency), dbos.WithQueueBasePollingInterval(dbosPoll)); err != nil {
				return err
			}
		}
		return dbos.Shutdown(c, 5*time.Second)
	},
	command: func(h *house, service string) (*exec.Cmd, error) { return carryCommand("dbos", h.pg, service) },
	parse:   parseSpeech,
	client: func(ctx context.Context, h *house) (client, error) {
		c, err := dbos.NewClient(ctx, dbos.ClientConfig{DatabaseURL: h.pg, AppName: "bench", Logger: quiet})
		return &dbosClient{c, h.mode}, err
	},
}

// dbosPoll is the interval at which queues are polled; the default is 1 s.
const dbosPoll = 10 * time.Millisecond

func openDBOS(ctx context.Context, url string) (dbos.Context, error) {
	return dbos.NewContext(ctx, dbos.Config{AppName: "bench", DatabaseURL: url, Logger: quiet, ApplicationVersion: "1"})
}

type dbosStep struct{ Round, Step int }

type dbosClient struct {
	client dbos.Client
	mode   mode
}

func enqueueDBOS(c dbos.Client, m mode, s dbosStep) error {
	_, err := dbos.Enqueue[string](c, executorOf(s.Step, m), "step", s, dbos.WithEnqueueApplicationVersion("1"),
		dbos.WithEnqueueWorkflowID(fmt.Sprintf("r%d/%d", s.Round, s.Step+1)))
	return err
}

func (c *dbosClient) begin(_ context.Context, round int) error {
	return enqueueDBOS(c.client, c.mode, dbosStep{round, 0})
}

func (c *dbosClient) close() { _ = dbos.Shutdown(c.client, time.Second) }

func carryDBOS(ctx context.Context, url, service string, say *speaker) error {
	c, err := openDBOS(context.WithoutCancel(ctx), url)
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(c, func(c dbos.Context, s dbosStep) (string, error) {
		if _, err := dbos.RunAsStep(c, func(context.Context) (string, error) {
			say.work(s.Round, s.Step)
			return "done", nil
		}); err != nil {
			return "", err
		}
		if s.Step+1 < steps {
			if err := enqueueDBOS(c, modeOf(service), dbosStep{s.Round, s.Step + 1}); err != nil {
				return "", err
			}
		}
		say.say(ended, s.Round, s.Step)
		return "done", nil
	}, dbos.WithWorkflowName("step"))
	dbos.ListenQueues(c, service)
	if err := c.Launch(); err != nil {
		return err
	}
	say.say(ready, 0, 0)
	<-ctx.Done()
	return dbos.Shutdown(c, 5*time.Second)
}

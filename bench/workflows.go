package main

import (
	"context"
	"fmt"
	"os/exec"

	"github.com/cschleiden/go-workflows/backend"
	wfredis "github.com/cschleiden/go-workflows/backend/redis"
	wfclient "github.com/cschleiden/go-workflows/client"
	"github.com/cschleiden/go-workflows/registry"
	"github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
	"github.com/redis/go-redis/v9"
)

// workflowsPeer is one workflow of three activities, each on its executor's queue;
// the owner's processes run the workflows.
var workflowsPeer = &peer{
	name: "go-workflows", store: "redis", about: "one workflow of three activities, a queue for each executor",
	prepare: func(ctx context.Context, h *house) error {
		// Both queues exist before anybody waits on them.
		b, err := openWorkflows(h.nodes[0])
		if err != nil {
			return err
		}
		defer b.Close()
		return b.PrepareActivityQueues(ctx, []workflow.Queue{"owner", "reviewer", both, workflow.QueueDefault})
	},
	command: func(h *house, service string) (*exec.Cmd, error) {
		return carryCommand("workflows", h.nodes[0], service)
	},
	parse: parseSpeech,
	client: func(_ context.Context, h *house) (client, error) {
		b, err := openWorkflows(h.nodes[0])
		if err != nil {
			return nil, err
		}
		return &workflowsClient{b, wfclient.New(b), h.mode}, nil
	},
}

func openWorkflows(addr string) (backend.Backend, error) {
	return wfredis.NewRedisBackend(redis.NewClient(&redis.Options{Addr: addr}), wfredis.WithBackendOptions(backend.WithLogger(quiet)))
}

type workflowsClient struct {
	backend backend.Backend
	client  *wfclient.Client
	mode    mode
}

func (c *workflowsClient) begin(ctx context.Context, round int) error {
	_, err := c.client.CreateWorkflowInstance(ctx, wfclient.WorkflowInstanceOptions{InstanceID: fmt.Sprintf("r%d", round)}, "round", round, string(c.mode))
	return err
}

func (c *workflowsClient) close() { _ = c.backend.Close() }

// playRound is the workflow.
func playRound(ctx workflow.Context, round int, m string) error {
	for step := range steps {
		options := workflow.ActivityOptions{Queue: workflow.Queue(executorOf(step, mode(m)))}
		if _, err := workflow.ExecuteActivity[int](ctx, options, carryStep, round, step).Get(ctx); err != nil {
			return err
		}
	}
	return nil
}

// stepSpeaker hears the activity, which is a plain function to the library.
var stepSpeaker *speaker

// carryStep is the activity.
func carryStep(_ context.Context, round, step int) (int, error) {
	stepSpeaker.work(round, step)
	stepSpeaker.say(ended, round, step)
	return step, nil
}

func carryWorkflows(ctx context.Context, addr, service string, say *speaker) error {
	b, err := openWorkflows(addr)
	if err != nil {
		return err
	}
	o := worker.DefaultOptions
	o.ActivityPollers, o.MaxParallelActivityTasks = 4, concurrency
	o.ActivityQueues = []workflow.Queue{workflow.Queue(service)}
	stepSpeaker = say
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var wait func() error
	if service == "reviewer" {
		w := worker.NewActivityWorker(b, &o.ActivityWorkerOptions)
		if err := w.RegisterActivity(carryStep); err != nil {
			return err
		}
		if err := w.Start(life); err != nil {
			return err
		}
		wait = w.WaitForCompletion
	} else {
		o.WorkflowPollers, o.MaxParallelWorkflowTasks = 4, concurrency
		w := worker.New(b, &o)
		if err := w.RegisterWorkflow(playRound, registry.WithName("round")); err != nil {
			return err
		}
		if err := w.RegisterActivity(carryStep); err != nil {
			return err
		}
		if err := w.Start(life); err != nil {
			return err
		}
		wait = w.WaitForCompletion
	}
	say.say(ready, 0, 0)
	<-ctx.Done()
	end()
	return wait()
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// asynqPeer is the bare chain: the handler of a step enqueues the next one. It is
// not atomic, and nobody knows whose turn it is.
var asynqPeer = newAsynqPeer("asynq", "polled every 10 ms")

// slowAsynqPeer is the same as asynq is by default.
var slowAsynqPeer = newAsynqPeer("asynq-1s", "polled every second, the default")

// asynqPolls is how often an executor looks for steps, by the peer's name.
var asynqPolls = map[string]time.Duration{"asynq": 10 * time.Millisecond, "asynq-1s": time.Second}

func newAsynqPeer(name, polled string) *peer {
	return &peer{
		name: name, store: "redis", about: "each handler enqueues the next step, a queue and a server for each executor, " + polled,
		command: func(h *house, service string) (*exec.Cmd, error) { return carryCommand(name, h.nodes[0], service) },
		parse:   parseSpeech,
		client: func(_ context.Context, h *house) (client, error) {
			rdb := redis.NewClient(&redis.Options{Addr: h.nodes[0]})
			return &asynqClient{rdb, asynq.NewClientFromRedisClient(rdb), h.mode}, nil
		},
	}
}

type asynqClient struct {
	rdb    *redis.Client
	client *asynq.Client
	mode   mode
}

// chainStep is the message of a step.
type chainStep struct{ Round, Step int }

func enqueueChain(ctx context.Context, c *asynq.Client, m mode, round, step int) error {
	b, err := json.Marshal(chainStep{round, step})
	if err != nil {
		return err
	}
	_, err = c.EnqueueContext(ctx, asynq.NewTask("step", b), asynq.Queue(executorOf(step, m)), asynq.MaxRetry(25),
		asynq.Timeout(time.Hour), asynq.TaskID(fmt.Sprintf("r%d/%d", round, step+1)))
	return err
}

func (c *asynqClient) begin(ctx context.Context, round int) error {
	return enqueueChain(ctx, c.client, c.mode, round, 0)
}

func (c *asynqClient) close() { _ = c.rdb.Close() }

func carryAsynq(poll time.Duration) func(ctx context.Context, addr, service string, say *speaker) error {
	return func(ctx context.Context, addr, service string, say *speaker) error {
		return serveChain(ctx, addr, service, poll, say)
	}
}

func serveChain(ctx context.Context, addr, service string, poll time.Duration, say *speaker) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	next := asynq.NewClientFromRedisClient(rdb)
	handler := asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		var s chainStep
		if err := json.Unmarshal(t.Payload(), &s); err != nil {
			return err
		}
		say.work(s.Round, s.Step)
		if s.Step+1 < steps {
			if err := enqueueChain(ctx, next, modeOf(service), s.Round, s.Step+1); err != nil {
				return err
			}
		}
		say.say(ended, s.Round, s.Step)
		return nil
	})
	srv := asynq.NewServerFromRedisClient(rdb, asynq.Config{Concurrency: concurrency, Queues: map[string]int{service: 1}, TaskCheckInterval: poll, LogLevel: asynq.ErrorLevel})
	if err := srv.Start(handler); err != nil {
		return err
	}
	say.say(ready, 0, 0)
	<-ctx.Done()
	srv.Shutdown()
	return nil
}

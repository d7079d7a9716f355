package main

import (
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/handlers"
	"rota/tasks"
)

// control is the asynq server on a service's control queue: what it does never
// waits behind turns.
type control struct {
	server *asynq.Server
	mux    *asynq.ServeMux
	pickup *tasks.Pickup
}

const (
	// controlAtOnce is how many control tasks a worker carries out at once.
	controlAtOnce = 4
	// controlHeld is how long an empty answer to the control queue's dequeue is held.
	controlHeld = 5 * time.Second
)

// newControl returns the control server of a service. It shares the client of the
// service's own server: the two hooks tell their queues apart, and neither keeps a
// connection while it holds an answer.
func (w *worker) newControl(name string, client redis.UniversalClient) (*control, error) {
	if err := tasks.Check(handlers.ControlTypes...); err != nil {
		return nil, err
	}
	h := &handlers.Control{Service: name, Store: w.store, Runs: w.runs, Workspaces: w.places, Log: w.log, Metrics: w.metrics}
	mux := asynq.NewServeMux()
	for _, t := range handlers.ControlTypes {
		mux.Handle(string(t), h)
	}
	queue := tasks.ControlQueue(name)
	pickup := tasks.NewPickup(queue, controlHeld)
	client.AddHook(pickup)
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: controlAtOnce, Queues: map[string]int{queue: 1},
		ErrorHandler: h, IsFailure: handlers.IsControlFailure, RetryDelayFunc: handlers.ControlRetryDelay,
		TaskCheckInterval: tasks.CheckInterval, ShutdownTimeout: killTime,
		Logger: asynqLog{w.log.With("service", queue)}, LogLevel: asynq.WarnLevel,
	})
	return &control{server, mux, pickup}, nil
}

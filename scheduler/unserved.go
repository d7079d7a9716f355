package scheduler

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/presence"
	"rota/tasks"
)

// queues asks how many tasks wait for each service, in the round trip of a look.
type queues struct {
	services []string
	sizes    []*redis.IntCmd
}

func (q *queues) along(p redis.Pipeliner) {
	q.sizes = make([]*redis.IntCmd, len(q.services))
	for i, service := range q.services {
		q.sizes[i] = p.LLen(context.Background(), "asynq:{"+tasks.Queue(service)+"}:pending")
	}
}

// unserved warns about services that attempts wait for and nobody serves.
func (r *Reconciler) unserved(ctx context.Context, q *queues, report *Report) error {
	for i, service := range r.Services {
		size, err := q.sizes[i].Result()
		if err != nil {
			return err
		}
		missing := false
		if size > 0 {
			served, err := presence.Served(ctx, r.Store.Redis(), service)
			if err != nil {
				return err
			}
			missing = !served
		}
		if r.Metrics != nil {
			r.Metrics.Unserved(service, missing)
		}
		if !missing {
			delete(r.warned, service)
			continue
		}
		report.add(FoundUnserved)
		if time.Since(r.warned[service]) > time.Minute {
			r.warned[service] = time.Now()
			r.Log.Warn("attempts wait for a service that no worker serves", "service", service, "waiting", size)
		}
	}
	return nil
}

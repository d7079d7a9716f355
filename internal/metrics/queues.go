package metrics

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"rota/credentials"
	"rota/internal/presence"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// The bounds of one reading: what it costs grows with shards and services, not
// with what waits.
const (
	readWithin = 5 * time.Second
	readAgain  = 2 * time.Second // two scrapes that close share one reading
	oldestOpen = 10              // open turns looked at in each shard
)

// Queues is what Redis says when it is asked: asynq's queues, the oldest attempt
// that waits, live workers, resting logins. Every worker says the same, so a
// query takes the maximum over them, not the sum.
type Queues struct {
	rdb       redis.UniversalClient
	store     *store.Store
	logins    *credentials.Credentials
	services  []string
	inspector *asynq.Inspector

	readable, size, paused, oldest, workers, resting *prometheus.Desc

	mu   sync.Mutex
	at   time.Time
	last []prometheus.Metric
}

// NewQueues returns the collector. logins may be nil.
func NewQueues(rdb redis.UniversalClient, s *store.Store, logins *credentials.Credentials, services []string) *Queues {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("rota_"+name, help, labels, nil)
	}
	return &Queues{
		rdb: rdb, store: s, logins: logins, services: services, inspector: asynq.NewInspectorFromRedisClient(rdb),
		readable: desc("redis_readable", "1 when the last reading of queues and workers was complete."),
		size:     desc("queue_tasks", "Tasks in asynq's queues, by queue and state.", "queue", "state"),
		paused:   desc("queue_paused", "1 when somebody has paused the queue.", "queue"),
		oldest:   desc("oldest_queued_seconds", "Age of the oldest attempt that is due and waits for a worker.", "service"),
		workers:  desc("service_workers", "Live workers of a service.", "service"),
		resting:  desc("credentials_resting", "Logins and scopes that rest, are probed or are disabled.", "state"),
	}
}

// Describe sends the descriptions.
func (q *Queues) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{q.readable, q.size, q.paused, q.oldest, q.workers, q.resting} {
		ch <- d
	}
}

// Collect asks Redis. What can't be read is left out and rota_redis_readable is 0.
func (q *Queues) Collect(ch chan<- prometheus.Metric) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.at) > readAgain {
		ctx, cancel := context.WithTimeout(context.Background(), readWithin)
		defer cancel()
		q.last, q.at = q.read(ctx), time.Now()
	}
	for _, m := range q.last {
		ch <- m
	}
}

func (q *Queues) read(ctx context.Context) []prometheus.Metric {
	var list []prometheus.Metric
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		list = append(list, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...))
	}
	err := q.readQueues(ctx, gauge)
	if err == nil {
		err = q.readLogins(ctx, gauge)
	}
	readable := 1.0
	if err != nil {
		readable = 0
	}
	gauge(q.readable, readable)
	return list
}

func (q *Queues) readQueues(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) error {
	oldest, err := q.oldestDue(ctx)
	if err != nil {
		return err
	}
	for _, service := range q.services {
		for _, queue := range []string{tasks.Queue(service), tasks.ControlQueue(service)} {
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := Queue(q.inspector, queue)
			if err != nil {
				return err
			}
			q.sizes(gauge, queue, n)
			if queue == tasks.Queue(service) {
				oldest[service] = max(oldest[service], n.Latency)
			}
		}
		gauge(q.oldest, oldest[service].Seconds(), service)
		names, err := presence.Workers(ctx, q.rdb, service)
		if err != nil {
			return err
		}
		gauge(q.workers, float64(len(names)), service)
	}
	return nil
}

// Queue returns what is in a queue of asynq's, nothing for one that nothing was ever
// put into.
func Queue(i *asynq.Inspector, name string) (*asynq.QueueInfo, error) {
	n, err := i.GetQueueInfo(name)
	// The inspector's error has no kind that can be asked for.
	if err != nil && strings.HasPrefix(err.Error(), "NOT_FOUND") {
		return &asynq.QueueInfo{Queue: name}, nil
	}
	return n, err
}

func (q *Queues) sizes(gauge func(*prometheus.Desc, float64, ...string), queue string, n *asynq.QueueInfo) {
	for state, count := range map[string]int{
		"pending": n.Pending, "active": n.Active, "scheduled": n.Scheduled, "retry": n.Retry, "archived": n.Archived, "completed": n.Completed,
	} {
		gauge(q.size, float64(count), queue, state)
	}
	paused := 0.0
	if n.Paused {
		paused = 1
	}
	gauge(q.paused, paused, queue)
}

// oldestDue looks at the oldest open turns for attempts that are due and still
// queued: asynq's own age does not know those whose task was lost.
func (q *Queues) oldestDue(ctx context.Context) (map[string]time.Duration, error) {
	var open []string
	for shard := range q.store.Shards() {
		ids, err := q.store.OpenTurns(ctx, shard, oldestOpen)
		if err != nil {
			return nil, err
		}
		open = append(open, ids...)
	}
	list, err := q.store.TurnsByID(ctx, open)
	if err != nil {
		return nil, err
	}
	var queued []string
	for _, t := range list {
		if t.State == turns.Queued {
			queued = append(queued, turns.AttemptID(t.ID, t.Attempt))
		}
	}
	attempts, err := q.store.AttemptsByID(ctx, queued)
	if err != nil {
		return nil, err
	}
	now, err := q.rdb.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	ages := map[string]time.Duration{}
	for _, a := range attempts {
		since := a.Created
		if a.Due.After(since) {
			since = a.Due
		}
		if a.State == turns.Queued && a.Cause != turns.CauseWait {
			ages[a.Service] = max(ages[a.Service], now.Sub(since))
		}
	}
	return ages, nil
}

func (q *Queues) readLogins(ctx context.Context, gauge func(*prometheus.Desc, float64, ...string)) error {
	if q.logins == nil {
		return nil
	}
	rests, err := q.logins.List(ctx)
	if err != nil {
		return err
	}
	counts := map[credentials.State]int{credentials.StateCooling: 0, credentials.StateProbing: 0, credentials.StateDisabled: 0}
	for _, r := range rests {
		if r.State != credentials.StateUsable {
			counts[r.State]++
		}
	}
	for state, n := range counts {
		gauge(q.resting, float64(n), string(state))
	}
	return nil
}

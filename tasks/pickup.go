package tasks

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// WakeChannel is the channel on which the relay says that a service's queue has
// something new.
func WakeChannel(service string) string { return "rota:wake:" + service }

// Pickup is a hook for the go-redis client of an asynq server. asynq polls its
// queue; the hook holds an empty answer to its dequeue until a wake-up arrives
// and then asks again, so that an idle worker starts within milliseconds and
// costs nothing. A lost wake-up only delays. The call carries the end of asynq's
// own lease, so it is held for a second or two, not for long.
//
// asynq also asks several times a second which retries are due, in whole seconds.
// The hook lets the first question of a second through, and answers the others
// itself unless this server has put something there since.
//
// Where a call is not recognised (another asynq version) plain polling remains;
// Waits and Spared tell a test that it was.
type Pickup struct {
	queue string
	again time.Duration
	wake  chan struct{}
	stop  chan struct{}
	once  sync.Once

	mu     sync.Mutex
	waits  int
	spared int
	asked  map[string]any // retries and scheduled -> the second for which nothing was due
	puts   int            // how often this server has put a task among the retries
}

// CheckInterval is the pause that an asynq server with the hook makes between two
// dequeues.
const CheckInterval = 10 * time.Millisecond

// NewPickup returns a hook for the server of one queue. again is how long an empty
// answer is held; 1 s when 0.
func NewPickup(queue string, again time.Duration) *Pickup {
	if again == 0 {
		again = time.Second
	}
	return &Pickup{queue: queue, again: again, wake: make(chan struct{}, 1), stop: make(chan struct{}), asked: map[string]any{}}
}

// Wake lets a held dequeue ask again.
func (p *Pickup) Wake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// Stop lets go of a held dequeue for good: the server stops.
func (p *Pickup) Stop() { p.once.Do(func() { close(p.stop) }) }

// Waits returns how many empty answers were held.
func (p *Pickup) Waits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waits
}

// Spared returns how many questions for due retries were not put to Redis.
func (p *Pickup) Spared() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spared
}

// Listen passes the wake-ups of the service on until ctx ends. It subscribes
// again by itself when the connection was lost.
func (p *Pickup) Listen(ctx context.Context, rdb redis.UniversalClient) error {
	sub := rdb.Subscribe(ctx, WakeChannel(p.queue))
	defer sub.Close()
	messages := sub.Channel()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case _, ok := <-messages:
			if !ok {
				return errors.New("wake-ups ended")
			}
			p.Wake()
		}
	}
}

// DialHook is part of redis.Hook and does nothing.
func (p *Pickup) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessPipelineHook is part of redis.Hook and does nothing.
func (p *Pickup) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook is part of redis.Hook: it holds the empty answers to dequeues, and
// spares questions for retries.
func (p *Pickup) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		keys, first := script(cmd)
		switch queue := "asynq:{" + p.queue + "}:"; {
		case names(queue, keys, "pending", "paused", "active", "lease"):
			return p.dequeue(ctx, cmd, next)
		case names(queue, keys, "retry", "pending"), names(queue, keys, "scheduled", "pending"):
			return p.forward(ctx, cmd, next, keys[0], first)
		case len(keys) > 3 && keys[3] == queue+"retry":
			defer p.put()
		}
		return next(ctx, cmd)
	}
}

// dequeue holds an empty answer until a wake-up, then asks once more.
func (p *Pickup) dequeue(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	err := next(ctx, cmd)
	if !errors.Is(err, redis.Nil) {
		return err
	}
	p.mu.Lock()
	p.waits++
	p.mu.Unlock()
	timer := time.NewTimer(p.again)
	defer timer.Stop()
	select {
	case <-p.stop:
		return err
	case <-ctx.Done():
		return err
	case <-timer.C:
		return err // asynq asks again after its own short pause
	case <-p.wake:
	}
	cmd.SetErr(nil)
	return next(ctx, cmd)
}

// forward asks which tasks are due, unless the same second was asked for already.
// What has become pending is there for our own dequeue.
func (p *Pickup) forward(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook, source string, second any) error {
	reply, ok := cmd.(*redis.Cmd)
	if !ok {
		return next(ctx, cmd)
	}
	p.mu.Lock()
	puts, known := p.puts, second != nil && p.asked[source] == second
	if known {
		p.spared++
	}
	p.mu.Unlock()
	if known {
		reply.SetVal(int64(0))
		return nil
	}
	if err := next(ctx, cmd); err != nil {
		return err
	}
	n, err := reply.Int()
	if err != nil {
		return nil // asynq judges it
	}
	if n > 0 {
		p.Wake()
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.puts == puts {
		p.asked[source] = second
	}
	return nil
}

// put notes that this server has put a task among the retries, perhaps due now.
func (p *Pickup) put() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.puts++
	clear(p.asked)
}

// script returns the keys of a script's call and its first argument; none for
// another command.
func script(cmd redis.Cmder) (keys []string, first any) {
	args := cmd.Args()
	if name := cmd.Name(); name != "evalsha" && name != "eval" || len(args) < 3 {
		return nil, nil
	}
	n, ok := args[2].(int)
	if !ok || n < 0 || len(args) < 3+n {
		return nil, nil
	}
	for _, a := range args[3 : 3+n] {
		key, _ := a.(string)
		keys = append(keys, key)
	}
	if len(args) > 3+n {
		first = args[3+n]
	}
	return keys, first
}

// names reports whether keys are these names behind the queue's prefix.
func names(queue string, keys []string, want ...string) bool {
	return slices.EqualFunc(keys, want, func(key, name string) bool { return key == queue+name })
}

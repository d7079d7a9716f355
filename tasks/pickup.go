package tasks

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Pickup is a hook for the go-redis client of an asynq server. asynq polls its
// queue; the hook holds an empty answer to its dequeue until a wake-up arrives
// and then asks again, so that an idle worker starts within milliseconds and
// costs nothing. A lost wake-up only delays. The call carries the end of asynq's
// own lease, so it is held for seconds, not for long.
//
// asynq also asks several times a second which retries are due, in whole seconds. The
// answer that none is due is held until the second is over, or until this server has
// put a task among the retries. Nobody schedules tasks in asynq, so its question for
// those is let through every five seconds.
//
// Where a call is not recognised (another asynq version) plain polling remains;
// Waits and Spared tell a test that it was.
type Pickup struct {
	queue string
	again time.Duration
	phase time.Duration // so that not all workers ask at the begin of a second
	wake  chan struct{}
	retry chan struct{} // this server has put a task among the retries
	stop  chan struct{}
	once  sync.Once

	mu        sync.Mutex
	waits     int
	spared    int
	scheduled int64 // the second in which Redis was asked for scheduled tasks, and had none
}

const (
	// CheckInterval is the pause that an asynq server with the hook makes between two
	// dequeues.
	CheckInterval = 10 * time.Millisecond
	// ForwardInterval is its pause between two questions for tasks that are due.
	ForwardInterval = 50 * time.Millisecond
)

// scheduledEvery is how often a server with the hook asks for scheduled tasks, in
// seconds: as often as asynq does by default.
const scheduledEvery = 5

// NewPickup returns a hook for the server of one queue. again is how long an empty
// answer is held; 1 s when 0.
func NewPickup(queue string, again time.Duration) *Pickup {
	if again == 0 {
		again = time.Second
	}
	return &Pickup{
		queue: queue, again: again, phase: rand.N(200 * time.Millisecond),
		wake: make(chan struct{}, 1), retry: make(chan struct{}, 1), stop: make(chan struct{}),
	}
}

// Wake lets a held dequeue ask again.
func (p *Pickup) Wake() { signal(p.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Stop lets go of held questions for good: the server stops.
func (p *Pickup) Stop() { p.once.Do(func() { close(p.stop) }) }

// Waits returns how many empty answers to dequeues were held.
func (p *Pickup) Waits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waits
}

// Spared returns how many questions for scheduled tasks were not put to Redis.
func (p *Pickup) Spared() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.spared
}

// DialHook is part of redis.Hook and does nothing.
func (p *Pickup) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

// ProcessPipelineHook is part of redis.Hook and does nothing.
func (p *Pickup) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook is part of redis.Hook: it holds empty answers and spares questions.
func (p *Pickup) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		keys, first := script(cmd)
		reply, counts := cmd.(*redis.Cmd)
		second, dated := first.(int64)
		switch queue := "asynq:{" + p.queue + "}:"; {
		case names(queue, keys, "pending", "paused", "active", "lease"):
			return p.dequeue(ctx, cmd, next)
		case names(queue, keys, "retry", "pending") && counts && dated:
			return p.retries(ctx, reply, next, second)
		case names(queue, keys, "scheduled", "pending") && counts && dated:
			return p.schedules(ctx, reply, next, second)
		case len(keys) > 3 && keys[3] == queue+"retry":
			defer signal(p.retry)
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
	if !p.hold(ctx, p.again, p.wake) {
		return err // asynq asks again after its own short pause
	}
	cmd.SetErr(nil)
	return next(ctx, cmd)
}

// retries asks which retries are due in the second, and holds the answer that none is.
func (p *Pickup) retries(ctx context.Context, cmd *redis.Cmd, next redis.ProcessHook, second int64) error {
	select {
	case <-p.retry: // the question covers it
	default:
	}
	due, err := p.forward(ctx, cmd, next)
	if due == 0 && err == nil {
		left := time.Until(time.Unix(second+1, 0).Add(p.phase))
		p.hold(ctx, min(left, time.Second), p.retry)
	}
	return err
}

// schedules asks which scheduled tasks are due, unless that was asked lately.
func (p *Pickup) schedules(ctx context.Context, cmd *redis.Cmd, next redis.ProcessHook, second int64) error {
	p.mu.Lock()
	lately := p.scheduled <= second && second < p.scheduled+scheduledEvery
	if lately {
		p.spared++
	}
	p.mu.Unlock()
	if lately {
		cmd.SetVal(int64(0))
		return nil
	}
	due, err := p.forward(ctx, cmd, next)
	if due == 0 && err == nil {
		p.mu.Lock()
		p.scheduled = second
		p.mu.Unlock()
	}
	return err
}

// forward lets asynq make due tasks pending, and returns how many became it: they
// are there for our own dequeue. An answer that asynq would not understand counts as
// one, so that nothing is held and asynq judges it.
func (p *Pickup) forward(ctx context.Context, cmd *redis.Cmd, next redis.ProcessHook) (int, error) {
	if err := next(ctx, cmd); err != nil {
		return 0, err
	}
	due, err := cmd.Int()
	if err != nil {
		return 1, nil
	}
	if due > 0 {
		p.Wake()
	}
	return due, nil
}

// hold waits for a signal, d at most and while the server runs. It reports whether
// there was one.
func (p *Pickup) hold(ctx context.Context, d time.Duration, given <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-given:
		return true
	case <-p.stop:
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
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

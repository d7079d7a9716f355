package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// crash is a process that dies at its n-th point: nothing of it reaches Redis any
// more. A point is a call of one of our scripts that moves a turn, or of asynq's
// that moves a task. Heartbeats, renewals and empty looks into a queue are none.
type crash struct {
	n     int
	after bool // the call is carried out, its reply is lost with the process

	mu   sync.Mutex
	seen int
	at   string // the call that was hit
	down bool
}

func (c *crash) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook lets the process die.
func (c *crash) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		call, took := point(cmd)
		if !took && c.hits(call) && !c.after || c.dead() {
			cmd.SetErr(redistest.ErrCut)
			return redistest.ErrCut
		}
		err := next(ctx, cmd)
		if took && err == nil {
			c.hits(call) // a task was taken: the process dies with it
		}
		if c.dead() && (call != "" || took) {
			cmd.SetErr(redistest.ErrCut)
			return redistest.ErrCut
		}
		return err
	}
}

// ProcessPipelineHook lets the process die too: a claim and an enqueue go in
// pipelines. Nothing of a dead process gets through.
func (c *crash) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	cut := func(cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(redistest.ErrCut)
		}
		return redistest.ErrCut
	}
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if c.dead() {
			return cut(cmds)
		}
		hit := false
		for _, cmd := range cmds {
			call, _ := point(cmd)
			hit = c.hits(call) || hit
		}
		if hit && !c.after {
			return cut(cmds)
		}
		err := next(ctx, cmds)
		if hit {
			return cut(cmds)
		}
		return err
	}
}

// die lets the process die now, without a point.
func (c *crash) die(at string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.down {
		c.down, c.at = true, at
	}
}

func (c *crash) dead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.down
}

// hits counts a point and reports whether it is the one.
func (c *crash) hits(call string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if call == "" || c.down {
		return false
	}
	if c.seen++; c.seen == c.n {
		c.down, c.at = true, call
		return true
	}
	return false
}

// point names a call that is a point. took says that it takes a task from a queue:
// it counts only when it took one.
func point(cmd redis.Cmder) (call string, took bool) {
	args := cmd.Args()
	if name := cmd.Name(); name != "evalsha" && name != "eval" || len(args) < 4 {
		return "", false
	}
	n, _ := args[2].(int)
	var keys []string
	for _, a := range args[3:min(3+n, len(args))] {
		keys = append(keys, fmt.Sprint(a))
	}
	first := keys[0]
	switch {
	case strings.HasPrefix(first, "rota:{s") && !strings.HasSuffix(first, ":leases") && !strings.HasSuffix(first, ":clock"):
		return "script on " + first, false
	case strings.HasPrefix(first, "asynq:") && len(keys) == 4 && strings.HasSuffix(first, ":pending"):
		return "dequeue from " + first, true
	}
	for _, key := range keys {
		if strings.HasPrefix(key, "asynq:") && strings.Contains(key, ":t:") {
			return "asynq on " + strings.Join(keys, " "), false
		}
	}
	return "", false
}

// tale is a story that is told with a crash at each of its points.
type tale struct {
	plan
	open func(ctx context.Context, c *commands.Commands) error // may be given twice
	over func(ctx context.Context, s *store.Store) bool
	// check looks at the end, which must be the same as without a crash.
	check func(ctx context.Context, s *store.Store) error
}

// stalled is after what time without an end a process is taken for one that waits
// for a pass.
const stalled = 15 * time.Second

var crashLimits = turns.Limits{Lease: turns.MinLease, Start: 20 * time.Second, Run: 20 * time.Second, Grace: time.Second, Deliveries: 2}

// at tells a tale with a crash at point n. It reports whether the tale has so many
// points, and what the crash hit.
func (s tale) at(t *testing.T, server *redistest.Server, db, n int, after bool) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	options := &redis.Options{Addr: server.Addr, DB: db, PoolSize: 20, ContextTimeoutEnabled: true}
	fault := &crash{n: n, after: after}
	first := redis.NewClient(options)
	doomed := newHost(t, first, s.plan)
	first.AddHook(fault)
	doomed.work(t)
	_ = s.open(ctx, doomed.commands)

	fresh := redis.NewClient(options)
	defer fresh.Close()
	heir := newHost(t, fresh, s.plan)
	for began := time.Now(); !fault.dead() && !s.over(ctx, heir.store); {
		if err := pause(ctx); err != nil {
			return "", fmt.Errorf("neither a crash nor an end: %w", err)
		}
		if time.Since(began) > stalled {
			// Nobody reconciles beside it: on a machine that stood still for a lease, what
			// it gave back waits for a pass.
			t.Logf("no end without a pass, at point %d:\n%s", n, scene(first))
			fault.die("stalled")
		}
	}
	// The rest of the points come after the end of the turn: asynq's own.
	for quiet := time.Now().Add(300 * time.Millisecond); !fault.dead() && time.Now().Before(quiet); {
		_ = pause(ctx)
	}
	if !fault.dead() {
		doomed.end()
		first.Close()
		return "", s.verify(ctx, heir.store)
	}
	go doomed.end() // its goroutines run into nothing for a while, as those of a dead process would not

	heir.work(t)
	heir.reconcile()
	defer heir.end()
	if err := s.open(ctx, heir.commands); err != nil {
		return fault.at, fmt.Errorf("the command again: %w", err)
	}
	for !s.over(ctx, heir.store) {
		if err := hurry(ctx, fresh); err != nil {
			return fault.at, fmt.Errorf("no end after the crash: %w", err)
		}
	}
	return fault.at, s.verify(ctx, heir.store)
}

// scene is everything in a database, for a failure that nobody can repeat.
func scene(rdb *redis.Client) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	fresh := redis.NewClient(rdb.Options())
	defer fresh.Close()
	keys, err := fresh.Keys(ctx, "*").Result()
	if err != nil {
		return err.Error()
	}
	slices.Sort(keys)
	var text strings.Builder
	for _, key := range keys {
		kind, _ := fresh.Type(ctx, key).Result()
		var held any
		switch kind {
		case "hash":
			held, _ = fresh.HGetAll(ctx, key).Result()
		case "zset":
			held, _ = fresh.ZRangeWithScores(ctx, key, 0, -1).Result()
		case "list":
			held, _ = fresh.LRange(ctx, key, 0, -1).Result()
		case "string":
			held, _ = fresh.Get(ctx, key).Result()
		}
		fmt.Fprintf(&text, "%s (%s): %.2000v\n", key, kind, held)
	}
	return text.String()
}

// hurry lets the times pass after which the relay looks at what is queued: with a
// worker dead between dequeue and claim that is 15 s.
func hurry(ctx context.Context, rdb *redis.Client) error {
	const outbox = "rota:{s00}:outbox"
	queued, err := rdb.ZRange(ctx, outbox, 0, -1).Result()
	if err != nil {
		return err
	}
	for _, attempt := range queued {
		if err := rdb.ZAddXX(ctx, outbox, redis.Z{Score: 1, Member: attempt}).Err(); err != nil {
			return err
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(60 * time.Millisecond):
		return nil
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5 * time.Millisecond):
		return nil
	}
}

func (s tale) verify(ctx context.Context, st *store.Store) error {
	found, err := st.Verify(ctx, "")
	if err != nil {
		return err
	}
	if len(found) > 0 {
		return fmt.Errorf("%v", found)
	}
	return s.check(ctx, st)
}

// tell tells the tale with a crash at every point, before and after it.
func (s tale) tell(t *testing.T) {
	t.Helper()
	s.dir = scratchDir(t)
	server := redistest.Start(t, redistest.Config("databases", "1000"))
	// The first telling loads the scripts: a call that is answered NOSCRIPT counts twice.
	if _, err := s.at(t, server, 0, 1<<30, false); err != nil {
		t.Fatalf("without a crash: %v", err)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	next, over := map[bool]int{}, map[bool]bool{}
	for i := range 16 {
		after := i%2 == 1
		all.Go(func() {
			for {
				mu.Lock()
				next[after]++
				n, done := next[after], over[after]
				mu.Unlock()
				if done || t.Failed() {
					return
				}
				db := 2*n + i%2
				hit, err := s.at(t, server, db, n, after)
				if err != nil {
					t.Errorf("crash at point %d (%s), after it %v: %v", n, hit, after, err)
				}
				if hit == "" {
					mu.Lock()
					over[after] = true
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d points before, %d after", next[false], next[true])
	if next[false] < 8 || next[true] < 8 {
		t.Error("too few points: the crashes hit nothing")
	}
}

// Promise 3 with a crash before and after every script call and every enqueue:
// exactly one continuation exists after a handoff.
func TestPromise3EveryCrash(t *testing.T) {
	t.Parallel()
	tale{
		plan: plan{
			crew: turns.Crew{
				turns.Owner:    {Services: []string{"main"}, Limits: crashLimits},
				turns.Reviewer: {Services: []string{"first", "second"}, Limits: crashLimits},
			},
			script: `{"service":"first","do":[{"error":"auth","text":"token expired"}]}`,
		},
		open: func(ctx context.Context, c *commands.Commands) error {
			_, err := c.Task(ctx, commands.TaskAsk{Key: "once", Thread: "one", Text: "do it"})
			return err
		},
		over: func(ctx context.Context, s *store.Store) bool {
			p, err := s.Paired(ctx, turns.PairedID("one", 1))
			return err == nil && p.Status.Finished()
		},
		check: oneContinuation,
	}.tell(t)
}

func oneContinuation(ctx context.Context, s *store.Store) error {
	thread, err := s.Thread(ctx, "one")
	if err != nil {
		return err
	}
	if thread.Turns != 3 || thread.OpenTurn != "" || thread.Pairs != 1 {
		return fmt.Errorf("%d turns, open %q, %d paired tasks", thread.Turns, thread.OpenTurn, thread.Pairs)
	}
	review, err := s.Turn(ctx, "one/2")
	if err != nil {
		return err
	}
	attempts, err := s.Attempts(ctx, review)
	if err != nil {
		return err
	}
	handoffs := 0
	for i, a := range attempts {
		if a.Cause == turns.CauseHandoff {
			handoffs++
			if before := attempts[i-1]; before.State != turns.Delegated || before.Next != a.ID || before.Service != "first" || a.Service != "second" {
				return fmt.Errorf("the handoff from %+v to %+v", before, a)
			}
		}
	}
	if handoffs != 1 || review.Role != turns.Reviewer || review.Outcome != turns.Approve || review.Opened != 1 {
		return fmt.Errorf("%d handoffs of a %s turn, opened %d, outcome %s: %+v", handoffs, review.Role, review.Opened, review.Outcome, attempts)
	}
	return nil
}

package store

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/pipeline"
	"rota/turns"
)

// Glance is one look at a shard: what is due there.
type Glance struct {
	Shard   int
	Now     time.Time // Redis' time
	Amnesty time.Time // no run may be called lost before
	Begun   bool      // an amnesty began with this look
	Outbox  []Look    // queued attempts the relay must look at
	Expired []string  // attempts whose lease has run out; empty during an amnesty
	Sweeps  []string  // ended turns below which something is still open
	Ended   []string  // paired tasks and lone turns whose retention is over
	Due     []string  // stored commands that are due
}

// Look is an entry of the outbox that is due, with the score it was seen with.
type Look struct {
	Attempt string
	Score   string
}

// LookOptions are the times of a pass.
type LookOptions struct {
	Gap     time.Duration // Redis counts as away when no pass wrote the time for longer: lease/3
	Amnesty time.Duration // one full lease
	Server  func(shard int) (runID string, durable bool)
	Most    int // of each kind and shard
}

// LookAll writes the time of every shard and returns what is due, in one round
// trip. The cost grows with what is due, not with what exists. On a Cluster some
// shards may be out of reach: then it returns the others together with the error.
// What along adds is asked in the same round trip; how that went only it knows.
func (s *Store) LookAll(ctx context.Context, o LookOptions, along ...func(redis.Pipeliner)) ([]Glance, error) {
	if o.Most == 0 {
		o.Most = 100
	}
	if _, cluster := s.rdb.(*redis.ClusterClient); cluster {
		// A node that is silent must not keep the next look from the other shards for
		// so long that they count as away.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(o.Gap/2, time.Second))
		defer cancel()
	}
	run := func() ([]*redis.Cmd, error) {
		replies := make([]*redis.Cmd, s.shards)
		_, _ = pipeline.Send(ctx, s.rdb, func(p redis.Pipeliner) {
			for i := range replies {
				server, durable := "", false
				if o.Server != nil {
					server, durable = o.Server(i)
				}
				d := "0"
				if durable {
					d = "1"
				}
				k := shardKeys(i)
				replies[i] = scriptLook.lua.EvalSha(ctx, p,
					[]string{k.clock(), k.outbox(), k.leases(), k.sweeps(), k.ended(), k.due()},
					ms(o.Gap), ms(o.Amnesty), server, d, o.Most)
			}
			for _, add := range along {
				add(p)
			}
		})
		for _, reply := range replies {
			if reply.Err() != nil {
				return replies, reply.Err()
			}
		}
		return replies, nil
	}
	replies, err := run()
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		if err := s.LoadScripts(ctx); err != nil {
			return nil, err
		}
		replies, err = run()
	}
	if err != nil {
		err = fmt.Errorf("look: %w", err)
	}
	var glances []Glance
	for i, reply := range replies {
		if reply.Err() != nil {
			continue
		}
		g, wrong := decodeGlance(i, reply.Val())
		if wrong != nil {
			return nil, wrong
		}
		glances = append(glances, g)
	}
	return glances, err
}

// LoadScripts loads every script into Redis, for pipelines, which can't fall back
// to sending the text.
func (s *Store) LoadScripts(ctx context.Context) error {
	if c, ok := s.rdb.(*redis.ClusterClient); ok {
		return c.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return scriptLook.lua.Load(ctx, node).Err()
		})
	}
	return scriptLook.lua.Load(ctx, s.rdb).Err()
}

func decodeGlance(shard int, reply any) (Glance, error) {
	parts, ok := reply.([]any)
	if !ok || len(parts) != 8 {
		return Glance{}, fmt.Errorf("look: unexpected reply %v", reply)
	}
	g := Glance{Shard: shard, Now: msTime(fmt.Sprint(parts[0])), Amnesty: msTime(fmt.Sprint(parts[1])), Begun: parts[7] == "amnesty"}
	outbox := words(parts[2])
	for i := 0; i+1 < len(outbox); i += 2 {
		g.Outbox = append(g.Outbox, Look{outbox[i], outbox[i+1]})
	}
	g.Expired, g.Sweeps, g.Ended, g.Due = words(parts[3]), words(parts[4]), words(parts[5]), words(parts[6])
	return g, nil
}

func words(reply any) []string {
	list, _ := reply.([]any)
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = fmt.Sprint(v)
	}
	return out
}

// Waits is a queued attempt as the relay sees it.
type Waits struct {
	Entry turns.OutboxEntry
	State turns.State
	Looks int
	Due   time.Time
	Cause turns.Cause
	Since time.Time
}

// Waiter reads the attempt behind an outbox entry. ErrNotFound when it is gone.
func (s *Store) Waiter(ctx context.Context, attempt string) (Waits, error) {
	turn, _, err := turns.ParseAttempt(attempt)
	if err != nil {
		return Waits{}, err
	}
	k := s.of(turn)
	var at, tu *redis.MapStringStringCmd
	if _, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		at, tu = p.HGetAll(ctx, k.attempt(attempt)), p.HGetAll(ctx, k.turn(turn))
		return nil
	}); err != nil {
		return Waits{}, fmt.Errorf("read attempt %s: %w", attempt, err)
	}
	if len(at.Val()) == 0 || len(tu.Val()) == 0 {
		return Waits{}, fmt.Errorf("attempt %s: %w", attempt, ErrNotFound)
	}
	a, t := decodeAttempt(attempt, at.Val()), decodeTurn(turn, tu.Val())
	return Waits{State: a.State, Looks: a.Looks, Due: a.Due, Cause: a.Cause, Since: t.WaitSince, Entry: turns.OutboxEntry{
		Thread: t.Thread, Turn: turn, Attempt: attempt, Role: t.Role, Intent: t.Intent, Service: a.Service, Stamp: a.Stamp, Cause: a.Cause, Limits: t.Limits, Trace: a.Trace, High: t.High,
	}}, nil
}

// Defer says when the relay looks at an entry again. It changes nothing when the
// entry was claimed, ended or looked at by somebody else.
func (s *Store) Defer(ctx context.Context, l Look, after time.Duration) error {
	k := s.of(l.Attempt)
	a, err := s.run(ctx, scriptDefer, []string{k.outbox(), k.attempt(l.Attempt)}, l.Attempt, l.Score, ms(after))
	if err != nil {
		return err
	}
	if a.word != "deferred" && a.word != "moved" {
		return unexpected(scriptDefer, a)
	}
	return nil
}

// DropEntry removes an outbox entry, unless its attempt is stored and queued: only
// the moves take the net of one that is.
func (s *Store) DropEntry(ctx context.Context, attempt string) error {
	return s.drop(ctx, s.of(attempt).outbox(), attempt, "queued")
}

// DropLease removes a lease entry, unless a run holds its attempt.
func (s *Store) DropLease(ctx context.Context, attempt string) error {
	return s.drop(ctx, s.of(attempt).leases(), attempt, "starting,running")
}

func (s *Store) drop(ctx context.Context, index, attempt, states string) error {
	_, err := s.run(ctx, scriptDrop, []string{index, s.of(attempt).attempt(attempt)}, attempt, states)
	return err
}

// DueNow makes a queued attempt that waits due now. ErrMoved when it is not
// queued any more.
func (s *Store) DueNow(ctx context.Context, attempt string) error {
	k := s.of(attempt)
	a, err := s.run(ctx, scriptDueNow, []string{k.outbox(), k.attempt(attempt)}, attempt)
	if err != nil {
		return err
	}
	if a.word == "moved" {
		return ErrMoved
	}
	return nil
}

// Release says that a run's agent is gone: its hold on the thread ends. It
// returns the attempt that waited for nothing else, empty for none; the caller
// hands it to the relay. ErrHeld when the run still has its attempt: that ends first.
func (s *Store) Release(ctx context.Context, r Run) (string, error) {
	k := s.of(r.Thread)
	waiter, waits := "", k.attempt(r.Attempt)
	if open, err := s.rdb.HGet(ctx, k.thread(r.Thread), "open").Result(); err == nil && open != "" {
		if n, err := s.rdb.HGet(ctx, k.turn(open), "attempt").Int(); err == nil {
			waiter = turns.AttemptID(open, n)
			waits = k.attempt(waiter)
		}
	}
	a, err := s.run(ctx, scriptRelease, []string{k.thread(r.Thread), k.outbox(), k.attempt(r.Attempt), waits}, r.fence(), waiter, ms(s.grace))
	if err != nil {
		return "", err
	}
	if a.word == "held" {
		return "", ErrHeld
	}
	return a.at(0), nil
}

// KeepHold extends the hold of a run whose turn has ended, while its agent is
// being stopped. ErrStale when another run has the hold.
func (s *Store) KeepHold(ctx context.Context, r Run, d time.Duration) error {
	a, err := s.run(ctx, scriptHold, []string{s.of(r.Thread).thread(r.Thread)}, r.fence(), ms(d))
	if err != nil {
		return err
	}
	if a.word != "held" {
		return ErrStale
	}
	return nil
}

// Sweep closes what an ended turn left open below it, one bounded step. It
// reports how many items were closed and whether the sweep is done.
func (s *Store) Sweep(ctx context.Context, turn string) (closed int, done bool, err error) {
	k := s.of(turn)
	a, err := s.run(ctx, scriptSweep,
		[]string{k.sweeps(), k.items(turn), k.links(turn), k.done(turn), k.live(turn), k.turn(turn)},
		turn, closedKinds, sweepStep, ms(10*time.Minute))
	if err != nil {
		return 0, false, err
	}
	return number(a.at(0)), a.word != "left", nil
}

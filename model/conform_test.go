package model

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// TestTwinAgreesWithTheScripts walks random paths of the model and makes every
// write of them on the real store: the same answers, the same state after each.
func TestTwinAgreesWithTheScripts(t *testing.T) {
	paths := 200
	if testing.Short() {
		paths = 120
	}
	made := map[string]int{}
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	for seed := range uint64(paths) {
		server.FlushAll()
		walk(t, server, rdb, seed, made)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d paths: %v", paths, made)
	for v := vClaim; v <= vOpen; v++ {
		if v == vHold {
			continue // only beside an agent that takes long to die
		}
		if made[verbNames[v]+" done"] == 0 {
			t.Errorf("no path made a %s", verbNames[v])
		}
	}
}

// twin is the real store beside the model.
type twin struct {
	t      *testing.T
	ctx    context.Context
	server *miniredis.Miniredis
	rdb    *redis.Client
	s      *store.Store
	now    time.Time
	fences map[uint8]int64
	opens  map[uint8]store.NewTurn // by command
	looks  int
	way    []string
}

const thread = "m"

func walk(t *testing.T, server *miniredis.Miniredis, rdb *redis.Client, seed uint64, made map[string]int) {
	w := &twin{t: t, ctx: t.Context(), server: server, rdb: rdb, now: time.Unix(1_900_000_000, 0), fences: map[uint8]int64{0: 0}, opens: map[uint8]store.NewTurn{}}
	server.SetTime(w.now)
	var err error
	if w.s, err = store.Open(w.ctx, rdb, store.Options{Shards: 1, Plan: pairs.Plan, Crew: seats, Rules: rules}); err != nil {
		t.Fatal(err)
	}
	w.begin()
	random := rand.New(rand.NewPCG(seed, 7))
	b := Bound{Faults: 3, Ops: 2, Window: true}
	m := &model{bound: b, j: newJudge()}
	s := initial(b)
	for range 80 {
		var list []*step
		m.out = func(x *step) { list = append(list, x) }
		m.steps(&s)
		if len(list) == 0 {
			return
		}
		x := list[random.IntN(len(list))]
		for tries := 0; (x.fault || x.act) && tries < 6; tries++ { // mostly calm, so that paths come far
			x = list[random.IntN(len(list))]
		}
		w.way = append(w.way, x.String())
		w.follow(x)
		if x.verb != 0 {
			made[verbNames[x.verb]+" "+answerNames[x.said]]++
		}
		if different := w.compare(&x.s); different != "" {
			t.Fatalf("path %d: %s\nby\n  %s\nmodel:\n%s", seed, different, strings.Join(w.way, "\n  "), x.s.String())
		}
		s = x.s
		if _, n, _ := s.current(); n == maxAttempts {
			return
		}
	}
}

// begin opens the paired task that the model begins with.
func (w *twin) begin() {
	plan, err := pairs.Begin(thread, 1, seats)
	w.must(err)
	_, err = w.s.OpenTurn(w.ctx, store.NewTurn{Command: "begin", Thread: thread, Role: plan.Next.Role, Intent: plan.Next.Intent,
		Seat: seats[plan.Next.Role], Prompt: "work", Paired: &plan.Paired, New: true})
	w.must(err)
	w.look()
}

func (w *twin) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatalf("%v\nby\n  %s", err, strings.Join(w.way, "\n  "))
	}
}

func (w *twin) look() {
	id := "server" + strconv.Itoa(w.looks)
	w.looks++
	_, err := w.s.LookAll(w.ctx, store.LookOptions{Gap: 1000 * time.Hour, Amnesty: 1000 * time.Hour, Server: func(int) (string, bool) { return id, false }})
	w.must(err)
}

// key spells a key of the one shard.
func key(kind string) string { return "rota:{s00}:" + kind }

// follow makes the step on the real store.
func (w *twin) follow(x *step) {
	w.now = w.now.Add(time.Millisecond)
	w.server.SetTime(w.now)
	past := w.now.Add(-time.Millisecond).UnixMilli()
	switch x.kind {
	case "expire":
		w.must(w.rdb.HSet(w.ctx, key("thread:"+thread), "hold_until", past).Err())
		if t, n, a := x.s.current(); a != nil && a.Lease {
			w.must(w.rdb.ZAdd(w.ctx, key("leases"), redis.Z{Score: float64(past), Member: id(t, n)}).Err())
		}
	case "pardon":
		w.must(w.rdb.HSet(w.ctx, key("clock"), "amnesty", 0, "held", 0).Err())
	case "drop":
		t, n, _ := x.s.current()
		w.must(w.rdb.ZRem(w.ctx, key("leases"), id(t, n)).Err())
	}
	if x.verb == 0 {
		return
	}
	if x.gone {
		if x.verb == vClaim && x.said == ansDone {
			w.fences[x.s.Given] = 1 // a fence that nobody remembers
		}
		return
	}
	got, err := w.make(x)
	if err != nil {
		w.must(fmt.Errorf("%s: %w", x, err))
	}
	if same := got == x.said || got == ansDone && x.said == ansAlready; !same {
		w.t.Fatalf("the store answers %s, the model %s\nby\n  %s", answerNames[got], answerNames[x.said], strings.Join(w.way, "\n  "))
	}
}

func id(t, n uint8) string { return turns.AttemptID(turns.TurnID(thread, int(t)), int(n)) }

func token(run uint8) string {
	if run == 0 {
		return ""
	}
	return fmt.Sprintf("run%d", run)
}

// make makes a write and returns the store's answer.
func (w *twin) make(x *step) (answer, error) {
	c := &x.call
	attempt := id(c.Turn, c.Attempt)
	turn := turns.TurnID(thread, int(c.Turn))
	run := store.Run{Thread: thread, Turn: turn, Attempt: attempt, ID: token(c.Run), Fence: w.fences[c.Fence]}
	next := store.Successor{Service: serviceOf[c.Service], Cause: causeOf[c.Cause], Class: turns.ClassCrash, Error: "it broke"}
	ending := turns.Ending{State: stateOf[c.State], Class: turns.ClassCrash, Error: "it broke"}
	command := token(c.By)
	var err error
	switch c.Verb {
	case vClaim:
		return w.claim(x, attempt, turn)
	case vStart:
		err = w.s.Start(w.ctx, run, "", "", "")
	case vRequeue:
		err = w.s.Requeue(w.ctx, run, store.Requeue{Uncounted: c.Uncounted, Class: turns.ClassCrash})
	case vReplace:
		if c.Run == 0 {
			_, err = w.s.RestartAttempt(w.ctx, attempt, command, next)
		} else {
			_, err = w.s.Replace(w.ctx, run, next)
		}
	case vDelegate:
		if c.Run == 0 {
			_, err = w.s.DelegateAttempt(w.ctx, attempt, command, next)
		} else {
			_, err = w.s.Delegate(w.ctx, run, next)
		}
	case vLose:
		if c.State == failed {
			_, err = w.s.LoseLast(w.ctx, run, c.Own, ending)
		} else {
			_, err = w.s.Lose(w.ctx, run, c.Own, next)
		}
	case vSettle, vCompensate, vEnd, vCancel:
		return w.end(x, run, ending, command)
	case vRelease:
		if _, err = w.s.Release(w.ctx, run); x.said == ansAlready {
			return ansAlready, err
		}
	case vHold:
		err = w.s.KeepHold(w.ctx, run, limits.Lease)
	case vRenew:
		var list []store.Renewed
		list, err = w.s.Renew(w.ctx, []store.Renewal{{Run: run, Lease: limits.Lease}})
		if err == nil && !list[0].OK {
			return ansStale, nil
		}
	case vLook:
		w.look()
	case vSay:
		_, err = w.s.Say(w.ctx, thread, command, turns.Message{ID: command, Text: "more"})
		if errors.Is(err, store.ErrNoTurn) {
			return ansStale, nil
		}
	case vOpen:
		return w.open(x, turn, command)
	}
	return word(err)
}

func word(err error) (answer, error) {
	var busy *store.BusyError
	switch {
	case errors.Is(err, store.ErrStale):
		return ansStale, nil
	case errors.Is(err, store.ErrHeld):
		return ansHeld, nil
	case errors.Is(err, store.ErrAlive):
		return ansAlive, nil
	case errors.Is(err, store.ErrAmnesty):
		return ansAmnesty, nil
	case errors.Is(err, store.ErrMoved):
		return ansMoved, nil
	case errors.As(err, &busy):
		return ansBusy, nil
	}
	return ansDone, err
}

func (w *twin) claim(x *step, attempt, turn string) (answer, error) {
	c := &x.call
	role, intent := x.s.turn(c.Turn).Role, x.s.turn(c.Turn).Intent
	stamp, err := w.rdb.HGet(w.ctx, key("attempt:"+attempt), "stamp").Result()
	if err != nil {
		return 0, err
	}
	a, err := w.s.Claim(w.ctx, store.Claim{Attempt: attempt, Service: serviceOf[c.Service], Role: roleOf[role], Intent: intentOf[intent],
		Stamp: stamp, Run: token(c.Run), Worker: "w", Agent: "x"})
	if a.Answer == store.Claimed {
		w.fences[x.s.attempt(c.Turn, c.Attempt).Fence] = a.Run.Fence
	}
	return map[store.Answer]answer{store.Claimed: ansDone, store.Already: ansAlready, store.Busy: ansBusy, store.Held: ansHeld,
		store.Superseded: ansSuperseded, store.Final: ansFinal, store.WrongService: ansWrongService, store.Unknown: ansUnknown}[a.Answer], err
}

// end makes a move that ends a turn. The store's verbs read again when the plan is
// out of date or a cancel finds another attempt; the model has these as steps.
func (w *twin) end(x *step, run store.Run, e turns.Ending, command string) (answer, error) {
	c := &x.call
	if x.said == ansMoved || c.Verb == vCancel && x.said == ansStale {
		return x.said, nil
	}
	var err error
	switch c.Verb {
	case vSettle:
		if c.State == completed {
			e = turns.Ending{State: turns.Completed, Text: "fine", Outcome: successOf(roleOf[x.pre.turn(c.Turn).Role])}
		}
		_, err = w.s.Settle(w.ctx, run, e)
	case vCompensate:
		_, err = w.s.Compensate(w.ctx, run, e)
	case vEnd:
		_, err = w.s.End(w.ctx, run.Attempt, command, e)
	case vCancel:
		_, err = w.s.Cancel(w.ctx, run.Turn, command, "enough")
	}
	return word(err)
}

// open is a person's retry; a repeat carries what the first one carried.
func (w *twin) open(x *step, turn, command string) (answer, error) {
	n, known := w.opens[x.call.By]
	if !known {
		last, err := w.s.Turn(w.ctx, turn)
		if err != nil {
			return 0, err
		}
		p, err := w.s.Paired(w.ctx, last.Paired)
		if err != nil {
			return 0, err
		}
		plan, err := pairs.Retry(p, last, seats)
		if err != nil {
			return 0, err
		}
		n = store.NewTurn{Command: command, Thread: thread, Role: plan.Next.Role, Intent: plan.Next.Intent, Seat: seats[plan.Next.Role], RetryOf: turn, Paired: &plan.Paired}
		w.opens[x.call.By] = n
	}
	_, err := w.s.OpenTurn(w.ctx, n)
	return word(err)
}

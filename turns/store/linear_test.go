package store_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// The verbs on one turn are linearizable: whatever several clients hear while
// replies are lost, Redis is killed and started again and scripts are forgotten,
// there is an order in which each verb happened at one moment between its call and
// its answer. ROTA_LINEAR is how long it runs, 12s by default.
func TestLinearizable(t *testing.T) {
	if testing.Short() {
		t.Skip("needs seconds of load on a real Redis")
	}
	length := 12 * time.Second
	if text := os.Getenv("ROTA_LINEAR"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	server := redistest.Start(t, redistest.AppendOnly(), redistest.AppendFsync("always"))
	plain := server.Client()
	s, err := store.Open(t.Context(), plain, store.Options{Shards: 1, Plan: pairs.Plan, Crew: crew})
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(length)
	random := rand.New(rand.NewPCG(11, 3))
	rounds, calls, unknown := 0, 0, 0
	for ; time.Now().Before(end); rounds++ {
		r := &round{t: t, s: s, thread: "l" + strconv.Itoa(rounds), began: time.Now()}
		r.run(server, random, rounds%3)
		for _, o := range r.history {
			if calls++; o.Output.(heard).word == "" {
				unknown++
			}
		}
		if result := porcupine.CheckOperationsTimeout(sequential, r.history, 2*time.Minute); result != porcupine.Ok {
			r.show()
			t.Fatalf("round %d: %s", rounds, result)
		}
		found, err := s.Verify(t.Context(), r.thread)
		if err != nil || len(found) > 0 {
			t.Fatalf("round %d: %v %v", rounds, found, err)
		}
	}
	t.Logf("%d histories, %d calls, %d of them without an answer", rounds, calls, unknown)
}

// ask is a call of a verb.
type ask struct {
	verb    string
	attempt int
	run     string // or command
	lossy   bool   // its answers may be lost: a refusal may belong to a second sending
}

// heard is what the caller heard; no word when it heard nothing.
type heard struct{ word string }

// round is one history on one turn.
type round struct {
	t      *testing.T
	s      *store.Store
	thread string
	began  time.Time

	mu      sync.Mutex
	runs    []store.Run
	history []porcupine.Operation
	ids     atomic.Int64
}

// run lets clients loose on a new turn, beside one kind of trouble.
func (r *round) run(server *redistest.Server, random *rand.Rand, trouble int) {
	n := newTurn(r.thread, turns.Owner)
	n.Seat.Services = []string{"codex-main", "spare"}
	if _, err := r.s.OpenTurn(r.t.Context(), n); err != nil {
		r.t.Fatal(err)
	}
	var all sync.WaitGroup
	for c := range 5 {
		seed := random.Uint64()
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: 2, DialTimeout: time.Second, ReadTimeout: time.Second})
		if trouble == 1 {
			rdb.AddHook(redistest.LostReply(redistest.AnyScript(), 2+random.IntN(5)).Times(1 + random.IntN(4)))
		}
		s, err := store.Open(r.t.Context(), rdb, store.Options{Shards: 1, Plan: pairs.Plan, Crew: crew})
		if err != nil {
			r.t.Fatal(err)
		}
		all.Go(func() {
			defer rdb.Close()
			client := &client{round: r, s: s, id: c, random: rand.New(rand.NewPCG(seed, 5)), lossy: trouble != 0}
			for range 9 {
				client.call()
			}
		})
	}
	switch trouble {
	case 1:
		server.ScriptFlush()
	case 2:
		time.Sleep(time.Duration(random.IntN(12)) * time.Millisecond)
		server.Kill9()
		server.Restart()
	}
	all.Wait()
}

func (r *round) show() {
	slices.SortFunc(r.history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
	for _, o := range r.history {
		r.t.Logf("client %d %8d-%8d %+v: %q", o.ClientId, o.Call/1000, o.Return/1000, o.Input, o.Output.(heard).word)
	}
	log, _ := r.s.Log(context.Background(), turns.TurnID(r.thread, 1))
	for _, e := range log {
		r.t.Logf("  %s %s: %s -> %s", e.Attempt, e.Verb, e.From, e.To)
	}
}

// client calls one verb after the other.
type client struct {
	*round
	s      *store.Store
	id     int
	random *rand.Rand
	lossy  bool
}

func (c *client) call() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	c.mu.Lock()
	runs := slices.Clone(c.runs)
	c.mu.Unlock()
	if len(runs) == 0 || c.random.IntN(3) == 0 {
		c.claim(ctx)
		return
	}
	run := runs[max(0, len(runs)-1-c.random.IntN(3))]
	_, attempt, _ := turns.ParseAttempt(run.Attempt)
	a := ask{attempt: attempt, run: run.ID, lossy: c.lossy}
	next := store.Successor{Service: "spare", Cause: turns.CauseHandoff}
	command := "command" + strconv.FormatInt(c.ids.Add(1), 10)
	var do func() error
	switch pick := c.random.IntN(20); {
	case pick < 5:
		a.verb, do = "start", func() error { return c.s.Start(ctx, run, "", "", "") }
	case pick < 9:
		a.verb, do = "requeue", func() error { return c.s.Requeue(ctx, run, store.Requeue{}) }
	case pick < 12:
		a.verb, do = "delegate", func() error { _, err := c.s.Delegate(ctx, run, next); return err }
	case pick < 14:
		next.Cause = turns.CauseLost
		a.verb, do = "lose", func() error { _, err := c.s.Lose(ctx, run, true, next); return err }
	case pick < 16:
		next.Cause, a.run = turns.CauseRestart, command
		a.verb, do = "restart", func() error { _, err := c.s.RestartAttempt(ctx, run.Attempt, command, next); return err }
	case pick < 18:
		a.verb, do = "release", func() error { _, err := c.s.Release(ctx, run); return err }
	case pick < 19:
		a.verb, do = "settle", func() error {
			_, err := c.s.Settle(ctx, run, turns.Ending{State: turns.Completed, Text: "fine"})
			return err
		}
	default:
		a.run = command
		a.verb, do = "cancel", func() error { _, err := c.s.Cancel(ctx, run.Turn, command, ""); return err }
	}
	c.record(a, func() string { return wordOf(do()) })
}

// claim asks for the current attempt, or for an earlier one.
func (c *client) claim(ctx context.Context) {
	turn := turns.TurnID(c.thread, 1)
	t, err := c.s.Turn(ctx, turn)
	if err != nil {
		return
	}
	n := max(1, t.Attempt-c.random.IntN(4)/3)
	w, err := c.s.Waiter(ctx, turns.AttemptID(turn, n))
	if err != nil {
		return
	}
	claim := claimOf(w.Entry)
	c.record(ask{verb: "claim", attempt: n, run: claim.Run, lossy: c.lossy}, func() string {
		a, err := c.s.Claim(ctx, claim)
		if err != nil {
			return ""
		}
		if a.Answer == store.Claimed || a.Answer == store.Already {
			c.mu.Lock()
			c.runs = append(c.runs, a.Run)
			c.mu.Unlock()
			return "ok"
		}
		return string(a.Answer)
	})
}

func wordOf(err error) string {
	var final *store.FinalError
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, store.ErrStale):
		return "stale"
	case errors.Is(err, store.ErrHeld):
		return "held"
	case errors.As(err, &final):
		return "final"
	}
	return ""
}

// record notes a call. One that was not answered may happen at any time after it.
func (c *client) record(a ask, do func() string) {
	o := porcupine.Operation{ClientId: c.id, Input: a, Call: time.Since(c.began).Nanoseconds()}
	word := do()
	o.Output, o.Return = heard{word}, time.Since(c.began).Nanoseconds()
	if word == "" {
		o.Return = time.Hour.Nanoseconds()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.history = append(c.history, o)
}

// plainAttempt and plainTurn are a turn as a book-keeper would note it.
type plainAttempt struct{ state, run, verb, by, last string }

type plainTurn struct {
	attempts [48]plainAttempt // number 1 first
	n        int
	final    bool
	hold     string // run
}

// sequential is the meaning of the verbs, one after the other.
var sequential = (&porcupine.NondeterministicModel{
	Init: func() []any {
		t := plainTurn{n: 1}
		t.attempts[0].state = "queued"
		return []any{t}
	},
	Step: func(state, input, output any) []any {
		before, a, word := state.(plainTurn), input.(ask), output.(heard).word
		after := before
		said := after.do(a)
		switch {
		case word == "": // it may have happened or not
			return []any{before, after}
		case word == said:
			return []any{after}
		case a.lossy && said == "ok" && word != "ok":
			// It happened, its answer was lost, and the second sending was refused: later.
			return []any{after}
		}
		return nil
	},
	Equal:             func(a, b any) bool { return a == b },
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%+v: %s", in, out) },
}).ToModel()

func (t *plainTurn) do(a ask) string {
	at := &t.attempts[a.attempt-1]
	held := at.state == "starting" || at.state == "running"
	mine := held && at.run == a.run
	switch a.verb {
	case "claim":
		return t.claim(at, a)
	case "start":
		if !mine {
			return "stale"
		}
		at.state = "running"
	case "requeue":
		if at.last == a.run {
			return "ok"
		}
		if !mine {
			return "stale"
		}
		at.state, at.last = "queued", a.run
		t.free(a.run)
	case "delegate", "lose", "restart":
		if at.verb == a.verb && at.by == a.run {
			return "ok"
		}
		if !mine && !(held && a.verb == "restart") || t.n != a.attempt {
			return "stale"
		}
		at.state, at.verb, at.by = "ended", a.verb, a.run
		t.free(a.run) // a command frees nothing: its id is no run's
		t.n++
		t.attempts[t.n-1] = plainAttempt{state: "queued"}
	case "settle":
		if at.verb == a.verb && at.by == a.run {
			return "ok"
		}
		if !mine || t.n != a.attempt {
			return "stale"
		}
		at.state, at.verb, at.by, t.final = "ended", a.verb, a.run, true
		t.free(a.run)
	case "cancel":
		at = &t.attempts[t.n-1]
		if t.final {
			if at.verb == "cancel" && at.by == a.run {
				return "ok"
			}
			return "final"
		}
		at.state, at.verb, at.by, t.final = "ended", "cancel", a.run, true
	case "release":
		if mine {
			return "held"
		}
		t.free(a.run)
	}
	return "ok"
}

func (t *plainTurn) claim(at *plainAttempt, a ask) string {
	switch {
	case at.state == "starting" || at.state == "running":
		if at.run == a.run {
			return "ok"
		}
		return "busy"
	case t.n != a.attempt:
		return "superseded"
	case at.state != "queued":
		return "final"
	case at.last == a.run:
		return "busy"
	case t.hold != "":
		return "held"
	}
	at.state, at.run, t.hold = "starting", a.run, a.run
	return "ok"
}

func (t *plainTurn) free(run string) {
	if t.hold == run {
		t.hold = ""
	}
}

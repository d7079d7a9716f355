package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// What a person gives is checked before anything is written; the error says what
// is wrong in one line.
func TestOpenTurnRefusesBadInput(t *testing.T) {
	w := newWorld(t, redistest.Mini(t))
	w.lone("fix", turns.Owner)
	before := w.dump()
	long := strings.Repeat("x", store.MaxPrompt+1)
	for name, change := range map[string]func(n *store.NewTurn){
		"no thread":            func(n *store.NewTurn) { n.Thread = "" },
		"thread with capitals": func(n *store.NewTurn) { n.Thread = "Fix" },
		"thread with a tag":    func(n *store.NewTurn) { n.Thread = "{s01}" },
		"long thread":          func(n *store.NewTurn) { n.Thread = strings.Repeat("x", 65) },
		"no role":              func(n *store.NewTurn) { n.Role = "" },
		"unknown role":         func(n *store.NewTurn) { n.Role = "boss" },
		"another role's work":  func(n *store.NewTurn) { n.Intent = turns.Review },
		"no intent":            func(n *store.NewTurn) { n.Intent = "" },
		"no command":           func(n *store.NewTurn) { n.Command = "" },
		"command with a tag":   func(n *store.NewTurn) { n.Command = "a{b}" },
		"command with a bar":   func(n *store.NewTurn) { n.Command = "a|b" },
		"long command":         func(n *store.NewTurn) { n.Command = strings.Repeat("c", 201) },
		"command not UTF-8":    func(n *store.NewTurn) { n.Command = "a\xff" },
		"no service":           func(n *store.NewTurn) { n.Seat.Services = nil },
		"bad service":          func(n *store.NewTurn) { n.Seat.Services = []string{"Codex Main"} },
		"service with a comma": func(n *store.NewTurn) { n.Seat.Services = []string{"a,b"} },
		"service outside":      func(n *store.NewTurn) { n.Service = "claude" },
		"short lease":          func(n *store.NewTurn) { n.Seat.Limits.Lease = time.Second },
		"long prompt":          func(n *store.NewTurn) { n.Prompt = long },
		"prompt not UTF-8":     func(n *store.NewTurn) { n.Prompt = "caf\xe9" },
		"prompt with NUL":      func(n *store.NewTurn) { n.Prompt = "a\x00b" },
		"workspace not UTF-8":  func(n *store.NewTurn) { n.Workspace = "/tmp/\xff" },
		"long message":         func(n *store.NewTurn) { n.Said = []turns.Message{{Text: long}} },
		"message not UTF-8":    func(n *store.NewTurn) { n.Said = []turns.Message{{Text: "ok"}, {Text: "\xff"}} },
		"malformed parent":     func(n *store.NewTurn) { n.Parent = "fix" },
		"parent elsewhere":     func(n *store.NewTurn) { n.Thread, n.Parent = "other~2", "fix/1" },
		"its own parent":       func(n *store.NewTurn) { n.Thread, n.Parent = "fix", "fix/1" },
	} {
		n := newTurn("new", turns.Owner)
		change(&n)
		_, err := w.s.OpenTurn(w.ctx, n)
		if err == nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
			t.Errorf("%s: %.600v", name, err)
		}
	}
	w.unchanged(before, "refused input")
	n := newTurn("new", turns.Owner)
	n.Prompt = strings.Repeat("ä", store.MaxPrompt/2)
	w.opens(n)
	if got, err := w.s.Prompt(w.ctx, "new/1"); err != nil || got != n.Prompt {
		t.Errorf("the longest prompt has %d bytes, %v", len(got), err)
	}
}

func TestOtherTextsRefuseBadInput(t *testing.T) {
	w := newWorld(t, redistest.Mini(t))
	r := w.runs(w.lone("fix", turns.Owner))
	before := w.dump()
	for name, text := range map[string]string{"long": strings.Repeat("x", store.MaxPrompt+1), "not UTF-8": "\xff", "NUL": "\x00"} {
		if _, err := w.s.Say(w.ctx, "fix", "c", turns.Message{Text: text}); err == nil {
			t.Errorf("a message that is %s was taken", name)
		}
		if err := w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: "a", Kind: "steer", Text: text}); err == nil {
			t.Errorf("a steer that is %s was taken", name)
		}
	}
	for _, id := range []string{"", "a|b", "{a}"} {
		if _, err := w.s.Say(w.ctx, "fix", id, turns.Message{Text: "x"}); err == nil {
			t.Errorf("a message with the command %q was taken", id)
		}
		if err := w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: id, Kind: "steer", Text: "x"}); err == nil {
			t.Errorf("a steer with the id %q was taken", id)
		}
	}
	if _, err := w.s.Say(w.ctx, "no such name", "c", turns.Message{Text: "x"}); err == nil {
		t.Error("a message to a bad name was taken")
	}
	for _, service := range []string{"", "Claude", "claude"} { // the last one takes no turns of the owner
		if _, err := w.s.Delegate(w.ctx, r, store.Successor{Service: service, Cause: turns.CauseHandoff}); err == nil {
			t.Errorf("delegated to %q", service)
		}
	}
	_, err := w.s.Say(w.ctx, "nobody", "c", turns.Message{Text: "x"})
	w.wants(err, store.ErrNotFound)
	w.unchanged(before, "refused input")
}

// A repeated command is answered with what the first one opened, also when the
// thread has moved on; another command meets the open turn.
func TestRepeatedCommands(t *testing.T) {
	each(t, func(w *world) {
		n := newTurn("fix", turns.Owner)
		first, err := w.s.OpenTurn(w.ctx, n)
		w.must(err)
		before := w.dump()
		var busy *store.BusyError
		if _, err := w.s.OpenTurn(w.ctx, newTurn("fix", turns.Owner)); !errors.As(err, &busy) || busy.Turn != first.Turn {
			w.Errorf("%v", err)
		}
		again, err := w.s.OpenTurn(w.ctx, n)
		w.must(err)
		if !again.Already || again.Turn != first.Turn || again.Attempt != first.Attempt {
			w.Errorf("first %+v, again %+v", first, again)
		}
		w.unchanged(before, "a repeated and a refused command")
		if note, ok, err := w.s.Command(w.ctx, "fix", n.Command); err != nil || !ok || note != (store.Note{Turn: first.Turn, Attempt: first.Attempt}) {
			w.Errorf("command: %+v %v %v", note, ok, err)
		}

		said, err := w.s.Say(w.ctx, "fix", "say-1", turns.Message{Text: "once"})
		w.must(err)
		_, err = w.s.Settle(w.ctx, w.runs(w.entry(first.Attempt)), completed())
		w.must(err)
		before = w.dump()
		repeat, err := w.s.Say(w.ctx, "fix", "say-1", turns.Message{Text: "once"})
		w.must(err)
		if again, err = w.s.OpenTurn(w.ctx, n); err != nil || again.Turn != first.Turn || repeat != said {
			w.Errorf("after the end: %+v, %v, said to %s then %s", again, err, said, repeat)
		}
		w.unchanged(before, "commands repeated after the end")
		other := n
		other.Thread = "other"
		if o, err := w.s.OpenTurn(w.ctx, other); err != nil || o.Already {
			w.Errorf("the same id in another thread: %+v, %v", o, err)
		}
		w.sound()
	})
}

// Waiting messages and requests are bounded.
func TestTooManyWait(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Client()) // miniredis sums up a thousand messages slowly
	r := w.runs(w.paired("fix"))
	for i := range store.MaxMessages {
		w.say("fix", fmt.Sprint("m", i))
	}
	_, err := w.s.Say(w.ctx, "fix", "more", turns.Message{Text: "more"})
	w.wants(err, store.ErrFull)
	for i := range store.MaxAsks {
		w.must(w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: fmt.Sprint("a", i), Kind: "steer", Text: "s"}))
	}
	w.wants(w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: "more", Kind: "steer", Text: "s"}), store.ErrFull)
	ended, err := w.s.Settle(w.ctx, r, done())
	w.must(err)
	if said, err := w.s.Said(w.ctx, ended.Next); err != nil || len(said) != store.MaxMessages+store.MaxAsks {
		t.Errorf("%d messages, %v", len(said), err)
	}
}

// A request reaches the run that the person saw, once.
func TestAskAndTaken(t *testing.T) {
	each(t, func(w *world) {
		e := w.paired("fix")
		ask := store.Ask{ID: "a1", Kind: "steer", Text: "left"}
		w.wants(w.s.Ask(w.ctx, e.Attempt, ask), store.ErrMoved) // no run yet
		w.wants(w.s.Ask(w.ctx, "fix/9.1", ask), store.ErrNotFound)
		r := w.runs(e)
		w.must(w.s.Ask(w.ctx, r.Attempt, ask))
		w.must(w.s.Ask(w.ctx, r.Attempt, ask))
		w.must(w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: "a2", Kind: "interrupt"}))
		asks, err := w.s.Asks(w.ctx, r.Turn, 0)
		w.must(err)
		if len(asks) != 2 || asks[0] != ask || asks[1].Kind != "interrupt" {
			w.Fatalf("%+v", asks)
		}
		records, err := w.s.Records(w.ctx, r.Turn, 0)
		w.must(err)
		if records.Messages != 1 {
			w.Errorf("%d messages wait", records.Messages)
		}
		w.must(w.s.Taken(w.ctx, r, asks[0], "given to the agent"))
		before := w.dump()
		w.must(w.s.Taken(w.ctx, r, asks[0], "something else"))
		w.unchanged(before, "a second answer")
		if asks, err = w.s.Asks(w.ctx, r.Turn, 0); err != nil || asks[0].Answer != "given to the agent" || asks[1].Answer != "" {
			w.Errorf("%+v, %v", asks, err)
		}
		// An ended run takes nothing; the successor finds what is open.
		on, err := w.s.Replace(w.ctx, r, w.next(r.Attempt, turns.CauseRetry))
		w.must(err)
		w.wants(w.s.Taken(w.ctx, r, asks[1], "stopped"), store.ErrStale)
		w.wants(w.s.Ask(w.ctx, r.Attempt, store.Ask{ID: "a3", Kind: "steer", Text: "x"}), store.ErrMoved)
		next := w.runs(on.Outbox)
		w.must(w.s.Taken(w.ctx, next, asks[1], "stopped"))
		ended, err := w.s.Settle(w.ctx, next, done())
		w.must(err)
		if ended.Outbox.Role != turns.Reviewer {
			w.Errorf("a taken steer became a message: %+v", ended)
		}
		w.sound()
	})
}

// Number of shards and version are agreed once; what doesn't fit is refused.
func TestOpenStore(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		with := func(shards int) (*store.Store, error) { return store.Open(ctx, rdb, store.Options{Shards: shards}) }
		for _, n := range []int{-1, 1025} {
			if _, err := with(n); err == nil {
				t.Errorf("%d shards", n)
			}
		}
		s, err := with(4)
		if err != nil || s.Shards() != 4 {
			t.Fatalf("%v", err)
		}
		if s, err = with(0); err != nil || s.Shards() != 4 {
			t.Errorf("the stored number is not taken: %v", err)
		}
		if _, err = with(16); err == nil || !strings.Contains(err.Error(), "4") {
			t.Errorf("another number: %v", err)
		}
		rdb.HSet(ctx, "rota:meta", "version", store.Version+1)
		if _, err = with(4); !errors.Is(err, store.ErrVersion) {
			t.Errorf("newer data: %v", err)
		}
		for _, bad := range []string{"", "x", "-3"} {
			rdb.HSet(ctx, "rota:meta", "version", store.Version, "shards", bad)
			if _, err = with(0); err == nil {
				t.Errorf("shards %q", bad)
			}
		}
	})
}

// All threads below one root share a shard, and the shards share the roots.
func TestShards(t *testing.T) {
	w := newWorld(t, redistest.Mini(t))
	used := map[int]int{}
	for i := range 1000 {
		root := fmt.Sprintf("thread-%d", i)
		used[w.s.ShardOf(root)]++
		if w.s.ShardOf(root) != w.s.ShardOf(root+"~7") {
			t.Errorf("%s and its child lie apart", root)
		}
	}
	for shard := range w.s.Shards() {
		if used[shard] < 20 {
			t.Errorf("shard %d has %d of 1000 threads", shard, used[shard])
		}
	}
}

// The limits of a turn come back as they were given, whole seconds or not.
func TestLimitsAreStoredExactly(t *testing.T) {
	w := newWorld(t, redistest.Mini(t))
	for i, want := range []turns.Limits{
		{},
		{Lease: 2500 * time.Millisecond, Start: 1500 * time.Millisecond, Silence: time.Minute, Run: 90 * time.Minute, Grace: time.Millisecond,
			Deliveries: 1, Attempts: 2, Losses: 3, Reminders: 4, Wait: 72 * time.Hour},
	} {
		n := newTurn(fmt.Sprint("t", i), turns.Owner)
		n.Seat.Limits = want
		e := w.opens(n)
		if got := w.turn(e.Turn).Limits; got != want.WithDefaults() {
			t.Errorf("stored %+v, want %+v", got, want.WithDefaults())
		}
		if got := w.entry(e.Attempt).Limits; got != want.WithDefaults() {
			t.Errorf("the entry has %+v, want %+v", got, want.WithDefaults())
		}
	}
}

// A claim takes lease and deadline from the turn that is stored; what can't be read
// there has its default, as for every other reader.
func TestClaimTakesTheLimitsOfItsTurn(t *testing.T) {
	each(t, func(w *world) {
		full := turns.Limits{Lease: 2500 * time.Millisecond, Start: 1500 * time.Millisecond, Run: 90 * time.Minute, Grace: time.Millisecond}
		for i, tt := range []struct {
			limits turns.Limits
			stored string // written over what was stored; empty for nothing
		}{{limits: turns.Limits{}}, {limits: full}, {limits: full, stored: "garbage"}, {limits: full, stored: "40,,x,3m"}, {limits: full, stored: "-1,0,0,0,0"},
			{limits: full, stored: "30,60,900,7200,99999999999999999999"}, {limits: full, stored: "9999999999,1e3,0x10, 5,+7"}} {
			n := newTurn(fmt.Sprint("t", i), turns.Owner)
			n.Seat.Limits = tt.limits
			e := w.opens(n)
			if tt.stored != "" {
				w.must(w.rdb.HSet(w.ctx, w.s.Key("turn", e.Turn), "limits", tt.stored).Err())
			}
			want := w.turn(e.Turn).Limits
			a, err := w.s.Claim(w.ctx, claimOf(e))
			w.must(err)
			if got := a.Deadline.Sub(a.At); got != want.Start+want.Run+want.Grace {
				w.Errorf("limits %q: the run's deadline is %s away, want those of %+v", tt.stored, got, want)
			}
			if till, _ := w.score("leases", e.Attempt); time.Duration(till-float64(a.At.UnixMilli()))*time.Millisecond != want.Lease {
				w.Errorf("limits %q: the lease ends %.0f ms after the claim, want %s", tt.stored, till-float64(a.At.UnixMilli()), want.Lease)
			}
		}
	})
}

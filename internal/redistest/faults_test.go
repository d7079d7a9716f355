package redistest

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

var add = redis.NewScript(`return redis.call('INCR', KEYS[1])`)

func TestLostReplyRunsTheScriptTwice(t *testing.T) {
	Each(t, func(t *testing.T, plain redis.UniversalClient) {
		ctx := context.Background()
		fault := LostReply(Script(add), 2)
		rdb := WithHooks(t, plain, fault)
		if err := add.Load(ctx, rdb).Err(); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{1, 3, 4} { // the second call counts twice
			got, err := add.Run(ctx, rdb, []string{"n"}).Int()
			if err != nil || got != want {
				t.Fatalf("call %d: %d, %v; want %d", i+1, got, err, want)
			}
		}
		if fault.Hits() != 1 {
			t.Fatalf("%d hits, want 1", fault.Hits())
		}
	})
}

func TestLostReplyOfAPipelineAndOfALongCommand(t *testing.T) {
	Each(t, func(t *testing.T, plain redis.UniversalClient) {
		ctx := context.Background()
		long := strings.Repeat("x", 200_000)
		rdb := WithHooks(t, plain, LostReply(Command("append"), 1))
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.Incr(ctx, "n")
			p.Append(ctx, "text", long)
			p.Incr(ctx, "n")
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n, _ := rdb.Get(ctx, "n").Int(); n != 4 {
			t.Fatalf("n = %d, want 4: all of the pipeline twice", n)
		}
		if n := rdb.StrLen(ctx, "text").Val(); n != 400_000 {
			t.Fatalf("text has %d bytes, want 400000", n)
		}
	})
}

func TestLostReplyMoreOftenThanTheClientTries(t *testing.T) {
	ctx := context.Background()
	rdb := WithHooks(t, Mini(t), LostReply(Any(), 1).Times(4))
	if err := rdb.Incr(ctx, "n").Err(); !errors.Is(err, io.EOF) {
		t.Fatalf("incr: %v, want EOF", err)
	}
	if n, _ := rdb.Get(ctx, "n").Int(); n != 4 {
		t.Fatalf("n = %d, want 4: the call and three re-sends", n)
	}
}

func TestLostReplyAddedTooLateIsNoticed(t *testing.T) {
	ctx := context.Background()
	rdb := Mini(t)
	rdb.Ping(ctx)
	rdb.AddHook(LostReply(Any(), 1))
	if err := rdb.Incr(ctx, "n").Err(); err == nil {
		t.Fatal("no error")
	}
}

func TestCut(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault *Cut
		want  string // what the server holds at the end
		later bool   // whether a later command passes
	}{
		{"before", CutBefore(Command("append"), 2), "a", false},
		{"after", CutAfter(Command("append"), 2), "ab", false},
		{"before, once", CutBefore(Command("append"), 2).Once(), "ac", true},
		{"after, once", CutAfter(Command("append"), 2).Once(), "abc", true},
		{"by argument", CutBefore(And(Command("append"), Mentions("b")), 1), "a", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx := context.Background()
			plain := Mini(t)
			rdb := WithHooks(t, plain, row.fault)
			if err := rdb.Append(ctx, "k", "a").Err(); err != nil || row.fault.Hit() {
				t.Fatalf("first: %v", err)
			}
			if err := rdb.Append(ctx, "k", "b").Err(); !errors.Is(err, ErrCut) || !row.fault.Hit() {
				t.Fatalf("second: %v, want ErrCut", err)
			}
			if err := rdb.Append(ctx, "k", "c").Err(); (err == nil) != row.later {
				t.Fatalf("third: %v", err)
			}
			if got := plain.Get(ctx, "k").Val(); got != row.want {
				t.Fatalf("k = %q, want %q", got, row.want)
			}
			row.fault.Mend()
			if err := rdb.Ping(ctx).Err(); err != nil {
				t.Fatalf("after Mend: %v", err)
			}
		})
	}
}

func TestCutInAPipeline(t *testing.T) {
	for _, row := range []struct {
		name        string
		fault       *Cut
		transaction bool
		want        string
	}{
		{"before", CutBefore(Mentions("b"), 1), false, "a"},
		{"after", CutAfter(Mentions("b"), 1), false, "ab"},
		{"before, transaction", CutBefore(Mentions("b"), 1), true, ""},
		{"after, transaction", CutAfter(Mentions("b"), 1), true, "abc"},
	} {
		t.Run(row.name, func(t *testing.T) {
			ctx := context.Background()
			plain := Mini(t)
			rdb := WithHooks(t, plain, row.fault)
			pipe := rdb.Pipeline()
			if row.transaction {
				pipe = rdb.TxPipeline()
			}
			for _, text := range []string{"a", "b", "c"} {
				pipe.Append(ctx, "k", text)
			}
			cmds, err := pipe.Exec(ctx)
			if !errors.Is(err, ErrCut) || !errors.Is(cmds[0].Err(), ErrCut) {
				t.Fatalf("exec: %v, want ErrCut", err)
			}
			if got := plain.Get(ctx, "k").Val(); got != row.want {
				t.Fatalf("k = %q, want %q", got, row.want)
			}
		})
	}
}

func TestCounter(t *testing.T) {
	ctx := context.Background()
	counter := &Counter{}
	rdb := WithHooks(t, Mini(t), counter)
	rdb.Set(ctx, "k", "v", 0)
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Get(ctx, "k")
		p.Get(ctx, "k")
		return nil
	})
	if c, r, g := counter.Commands(), counter.RoundTrips(), counter.ByName()["get"]; c != 3 || r != 2 || g != 2 {
		t.Fatalf("commands %d, round trips %d, gets %d; want 3, 2, 2", c, r, g)
	}
	if counter.Reset(); counter.Commands() != 0 || counter.RoundTrips() != 0 {
		t.Fatal("not zero after Reset")
	}
}

func TestCommandTimes(t *testing.T) {
	ctx := context.Background()
	rdb := Start(t).Client()
	for range 3 {
		rdb.Set(ctx, "k", "v", 0)
	}
	times, err := CommandTimes(ctx, rdb)
	if err != nil || times["set"].Calls != 3 {
		t.Fatalf("set: %+v, %v; want 3 calls", times["set"], err)
	}
}

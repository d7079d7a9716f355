package pipeline_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/pipeline"
	"rota/internal/redistest"
)

// Without a server no command looks as if it had been answered with nothing.
func TestCommandsWithoutAServerSaySo(t *testing.T) {
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := port.Addr().String()
	port.Close()
	for name, retries := range map[string]int{"tries again": 1, "tries once": -1} {
		rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: retries, DialTimeout: time.Second})
		defer rdb.Close()
		var record *redis.MapStringStringCmd
		cmds, err := pipeline.Send(context.Background(), rdb, func(p redis.Pipeliner) {
			record = p.HGetAll(context.Background(), "thread")
			p.LLen(context.Background(), "messages")
		})
		if err == nil || len(cmds) != 2 {
			t.Fatalf("%s: %d commands, %v", name, len(cmds), err)
		}
		for _, cmd := range cmds {
			if cmd.Err() == nil {
				t.Errorf("%s: %s has no error", name, cmd.Name())
			}
		}
		if record.Err() == nil {
			t.Errorf("%s: the record is %v", name, record.Val())
		}
	}
}

// A command that Redis refuses says so, and the others are answered.
func TestRefusedCommandsAreNobodyElses(t *testing.T) {
	ctx := context.Background()
	rdb := redistest.Mini(t)
	rdb.Set(ctx, "text", "x", 0)
	var text *redis.StringCmd
	var missing *redis.StringCmd
	var wrong *redis.IntCmd
	_, err := pipeline.Send(ctx, rdb, func(p redis.Pipeliner) {
		missing, text, wrong = p.Get(ctx, "none"), p.Get(ctx, "text"), p.LLen(ctx, "text")
	})
	if !errors.Is(err, redis.Nil) || !errors.Is(missing.Err(), redis.Nil) || text.Err() != nil || text.Val() != "x" || wrong.Err() == nil {
		t.Errorf("%v; %v, %v, %v", err, missing, text, wrong)
	}
}

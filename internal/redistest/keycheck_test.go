package redistest

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestWithKeyCheck(t *testing.T) {
	for _, row := range []struct {
		name, script string
		keys         []string
		want         string // part of the error; empty for none
	}{
		{"declared", `redis.call('SET', KEYS[1], 'v') return redis.call('get', KEYS[1])`, []string{"a"}, ""},
		{"spelled out but declared", `return redis.call('SET', 'a', 'v')`, []string{"a"}, ""},
		{"not declared", `return redis.call('SET', 'b', 'v')`, []string{"a"}, "SET uses a key that is not declared: b"},
		{"by pcall", `return redis.pcall('HGET', 'b', 'f')`, []string{"a"}, "HGET uses a key that is not declared: b"},
		{"second key", `return redis.call('DEL', KEYS[1], 'b')`, []string{"a"}, "DEL uses a key that is not declared: b"},
		{"pairs", `return redis.call('MSET', KEYS[1], 'x', 'b', 'y')`, []string{"a"}, "MSET uses a key that is not declared: b"},
		{"values are no keys", `return redis.call('MSET', KEYS[1], 'x', KEYS[2], 'y')`, []string{"a", "c"}, ""},
		{"no keys", `return redis.call('TIME')[1]`, nil, ""},
		{"unknown command", `return redis.call('WAIT', 0, 0)`, nil, "command not known: WAIT"},
		{"from a function", `local function f(k) return redis.call('ZADD', k, 1, 'm') end return f(KEYS[1] .. 'x')`, []string{"a"}, "not declared: ax"},
		{"the rest of redis", `return redis.sha1hex('')`, nil, ""},
		{"a number as value", `return redis.call('HSET', KEYS[1], 'f', 1)`, []string{"h"}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			Each(t, func(t *testing.T, rdb redis.UniversalClient) {
				err := rdb.Eval(context.Background(), WithKeyCheck(row.script), row.keys).Err()
				if row.want == "" && err != nil {
					t.Fatal(err)
				}
				if row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
					t.Fatalf("error %v, want %q", err, row.want)
				}
			})
		})
	}
}

func TestWithKeyCheckKeepsTheScriptsLines(t *testing.T) {
	Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		err := rdb.Eval(context.Background(), WithKeyCheck("local a = 1\nlocal b = 2\nerror('third line')"), nil).Err()
		if err == nil || !strings.Contains(err.Error(), ":3:") {
			t.Fatalf("error %v, want one of line 3", err)
		}
	})
}

func TestDeclaredChecksEveryWayToCallAScript(t *testing.T) {
	good := redis.NewScript(`return redis.call('SET', KEYS[1], ARGV[1])`)
	bad := redis.NewScript(`return redis.call('SET', 'b', ARGV[1])`)
	Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		Declared(rdb)
		for range 2 { // the second time by hash
			if err := good.Run(ctx, rdb, []string{"a"}, "v").Err(); err != nil {
				t.Fatal(err)
			}
			if err := bad.Run(ctx, rdb, []string{"a"}, "v").Err(); err == nil || !strings.Contains(err.Error(), "not declared: b") {
				t.Fatalf("run: %v", err)
			}
		}
		if err := bad.Load(ctx, rdb).Err(); err != nil {
			t.Fatal(err)
		}
		cmds, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			good.EvalSha(ctx, p, []string{"a"}, "w")
			bad.EvalSha(ctx, p, []string{"a"}, "w")
			return nil
		})
		if err == nil || cmds[0].Err() != nil || cmds[1].Err() == nil {
			t.Fatalf("pipeline: %v", err)
		}
		if rdb.Get(ctx, "a").Val() != "w" || rdb.Exists(ctx, "b").Val() != 0 {
			t.Fatal("the declared write is missing or the other one was made")
		}
	})
}

package redistest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// WithHooks returns a second client of the same server that has only these
// hooks and no connection yet. It is closed with the test. Only single-node
// clients can be copied.
func WithHooks(t testing.TB, rdb redis.UniversalClient, hooks ...redis.Hook) *redis.Client {
	t.Helper()
	single, ok := rdb.(*redis.Client)
	if !ok {
		t.Fatalf("WithHooks can't copy a %T", rdb)
	}
	opt := *single.Options()
	second := redis.NewClient(&opt)
	for _, hook := range hooks {
		second.AddHook(hook)
	}
	t.Cleanup(func() { _ = second.Close() })
	return second
}

// number finds name=123 in a list separated by commas; 0 when it isn't there.
func number(list, name string) int64 {
	for field := range strings.SplitSeq(list, ",") {
		if value, ok := strings.CutPrefix(field, name+"="); ok {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}

package redistest

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Mini returns a client of a fresh miniredis of this test.
func Mini(t testing.TB) redis.UniversalClient {
	t.Helper()
	_, rdb := MiniServer(t)
	return rdb
}

// MiniServer is Mini for tests that also move its clock or look inside.
func MiniServer(t testing.TB) (*miniredis.Miniredis, redis.UniversalClient) {
	t.Helper()
	server := miniredis.RunT(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return server, rdb
}

// Each runs a test body twice, as the subtests "miniredis" and "redis", each
// with an empty server of its own and a client that has not connected yet.
func Each(t *testing.T, body func(t *testing.T, rdb redis.UniversalClient)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) { body(t, Mini(t)) })
	t.Run("redis", func(t *testing.T) { body(t, Start(t).Client()) })
}

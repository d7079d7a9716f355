package redistest

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// through returns a client without retries that gives up after 50 ms.
func through(t *testing.T, l *Link) *redis.Client {
	rdb := redis.NewClient(&redis.Options{
		Addr: l.Addr, MaxRetries: -1, ReadTimeout: 50 * time.Millisecond, PoolSize: 100,
	})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(startLimit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", startLimit, what)
		}
	}
}

func TestProxyCutAndMend(t *testing.T) {
	ctx := context.Background()
	server, _ := MiniServer(t)
	link := Proxy(t, server.Addr())
	rdb := through(t, link)
	if err := rdb.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	link.Cut()
	for range 3 {
		if err := rdb.Get(ctx, "k").Err(); err == nil {
			t.Fatal("an answer through a cut link")
		}
	}
	if link.Connections() != 0 {
		t.Fatal("connections after the cut")
	}
	link.Mend()
	eventually(t, "an answer after Mend", func() bool { return rdb.Get(ctx, "k").Val() == "v" })
}

func TestProxyBlackHoleDeliversLate(t *testing.T) {
	ctx := context.Background()
	server, direct := MiniServer(t)
	link := Proxy(t, server.Addr())
	rdb := through(t, link)
	if err := rdb.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	link.BlackHole()
	if err := rdb.Set(ctx, "k", "late", 0).Err(); err == nil {
		t.Fatal("an answer out of a black hole")
	}
	if direct.Exists(ctx, "k").Val() != 0 {
		t.Fatal("a write came out of a black hole")
	}
	link.Mend()
	eventually(t, "the late write", func() bool { return direct.Get(ctx, "k").Val() == "late" })
}

func TestProxyDelay(t *testing.T) {
	ctx := context.Background()
	server, _ := MiniServer(t)
	link := Proxy(t, server.Addr())
	rdb := through(t, link)
	if err := rdb.Ping(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	link.Delay(200 * time.Millisecond) // longer than the client waits
	if err := rdb.Ping(ctx).Err(); err == nil {
		t.Fatal("an answer without the delay")
	}
	link.Delay(0)
	eventually(t, "an answer without delay", func() bool { return rdb.Ping(ctx).Err() == nil })
}

func TestProxyToNowhereRefuses(t *testing.T) {
	server, _ := MiniServer(t)
	addr := server.Addr()
	server.Close()
	if err := through(t, Proxy(t, addr)).Ping(context.Background()).Err(); err == nil {
		t.Fatal("an answer from nobody")
	}
}

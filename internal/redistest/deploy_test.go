package redistest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"rota/internal/config"
)

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := StartSentinel(t)
	rdb := s.Client()
	if err := rdb.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Replicated()
	old := s.Failover()
	if old != s.Nodes[0] || s.Master() != s.Nodes[1] {
		t.Fatal("the replica is not the new master")
	}
	eventually(t, "the client to follow", func() bool { return rdb.Set(ctx, "k2", "v2", 0).Err() == nil })
	if got := rdb.Get(ctx, "k").Val(); got != "v" {
		t.Fatalf("k = %q after the failover, want v", got)
	}
	s.Rejoin(old)
	if s.Master() != s.Nodes[1] {
		t.Fatal("the old master took over again")
	}
	if text := old.info("replication"); !strings.Contains(text, "role:slave") {
		t.Fatalf("the old master after Rejoin: %s", text)
	}
	byURL, err := config.RedisClient(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer byURL.Close()
	if got := byURL.Get(ctx, "k2").Val(); got != "v2" {
		t.Fatalf("k2 = %q through %s, want v2", got, s.URL())
	}
}

func TestClusterFailoverAndMovedSlot(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := StartCluster(t)
	rdb, err := config.RedisClient(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	owners := map[*Server]bool{}
	for i := range 50 {
		key := fmt.Sprintf("k%d", i)
		if err := rdb.Set(ctx, key, key, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if i < 12 {
			owners[c.Owner(key)] = true
		}
	}
	if len(owners) != 3 {
		t.Fatalf("the keys have %d owners, want 3", len(owners))
	}

	from := c.Owner("k1")
	if to := c.MoveSlot("k1"); to == from || c.Owner("k1") != to {
		t.Fatal("the slot did not move")
	}
	if got := rdb.Get(ctx, "k1").Val(); got != "k1" {
		t.Fatalf("k1 = %q after its slot moved", got)
	}

	c.Replicated()
	old := c.Failover("k2")
	if owner := c.Owner("k2"); owner == old {
		t.Fatal("the killed node still owns the slot")
	}
	eventually(t, "the client to follow", func() bool { return rdb.Get(ctx, "k2").Val() == "k2" })
	c.Rejoin(old)
}

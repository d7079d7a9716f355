package doctor

import (
	"context"
	"slices"
	"strings"
	"testing"

	"rota/internal/config"
	"rota/internal/redistest"
)

// One master of a Cluster that is set wrong is found, whichever node answers first.
func TestEveryMasterOfACluster(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	c := redistest.StartCluster(t, redistest.AppendOnly(), redistest.Config("min-replicas-to-write", "1"), redistest.Config("maxmemory-policy", "noeviction"))
	rdb := c.Client()
	find := func(check string) Finding {
		t.Helper()
		list := Redis(ctx, rdb, config.Config{}, true)
		i := slices.IndexFunc(list, func(f Finding) bool { return f.Check == check })
		if i < 0 || slices.ContainsFunc(list[i+1:], func(f Finding) bool { return f.Check == check }) {
			t.Fatalf("not one finding of %s in %+v", check, list)
		}
		return list[i]
	}
	for _, check := range []string{"version", "persistence", "eviction", "replication", "rights", "shards"} {
		if f := find(check); f.Level != OK {
			t.Errorf("%+v", f)
		}
	}
	for i, key := range []string{"a", "b", "c"} { // of three masters
		node := c.Owner(key)
		for check, wrong := range map[string][3]string{
			"eviction":    {"maxmemory-policy", "allkeys-lru", "noeviction"},
			"persistence": {"appendonly", "no", "yes"},
			"replication": {"min-replicas-to-write", "0", "1"},
		} {
			node.ConfigSet(wrong[0], wrong[1])
			if f := find(check); f.Level == OK || !strings.Contains(f.Text, node.Addr) {
				t.Errorf("master %d, %s %s: %+v", i, wrong[0], wrong[1], f)
			}
			node.ConfigSet(wrong[0], wrong[2])
		}
	}
}

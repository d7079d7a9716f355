package doctor

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// everyMaster looks at the settings of the server, or of each master of a Cluster:
// then the worst finding of each check counts, with the address it is about.
func everyMaster(ctx context.Context, rdb redis.UniversalClient) []Finding {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return settings(ctx, rdb)
	}
	var mu sync.Mutex
	var list []Finding
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		found := settings(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		for _, f := range found {
			if f.Level != OK {
				f.Text = node.Options().Addr + ": " + f.Text
			}
			list = worseOfEach(list, f)
		}
		return nil
	})
	if err != nil {
		list = append(list, Finding{Problem, "cluster", "its masters can't be listed: " + err.Error(), "see CLUSTER NODES"})
	}
	return list
}

// worseOfEach adds a finding, in the place of a better one of the same check.
func worseOfEach(list []Finding, f Finding) []Finding {
	for i, old := range list {
		if old.Check == f.Check {
			if old.Level == OK || f.Level == Problem {
				list[i] = f
			}
			return list
		}
	}
	return append(list, f)
}

// settings looks at one server.
func settings(ctx context.Context, rdb redis.Cmdable) []Finding {
	var list []Finding
	text, err := rdb.Info(ctx).Result()
	if err != nil {
		list = append(list, Finding{Warning, "rights", "INFO is refused: " + err.Error(), "let the user of rota call INFO, CONFIG GET and TIME"})
	}
	info := fields(text)
	return append(list, version(info), persistence(info, value(ctx, rdb, "appendfsync")), eviction(info, value(ctx, rdb, "maxmemory-policy")),
		replication(info, value(ctx, rdb, "min-replicas-to-write")))
}

// replication says what the loss of this server can cost, when it has replicas.
func replication(info map[string]string, writes string) Finding {
	switch {
	case info["role"] == "slave":
		return Finding{Problem, "replication", "this is a replica", "name the master, or the Sentinels: redis-sentinel://"}
	case info["connected_slaves"] == "" || info["connected_slaves"] == "0" || writes == "":
		return Finding{}
	case writes == "0":
		return Finding{Warning, "replication", "a failover can lose any number of the last writes", "set min-replicas-to-write 1 and min-replicas-max-lag 10"}
	}
	return Finding{OK, "replication", "writes need " + writes + " replica in reach", ""}
}

package scheduler

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/pipeline"
	"rota/turns/store"
)

// servers tells which Redis server a shard lies on, so that a pass notices when it
// is another one than before: its last writes may be lost.
type servers struct {
	store  *store.Store
	before map[int]string // the run id of each shard's server in the last pass
	ahead  *asked         // what the one server was asked before the pass; nil for nothing
}

func newServers(s *store.Store) *servers { return &servers{store: s, before: map[int]string{}} }

// along asks who the server is in the round trip of another call. With the several
// servers of a Cluster it asks nothing.
func (v *servers) along(p redis.Pipeliner) {
	if _, cluster := v.store.Redis().(*redis.ClusterClient); !cluster {
		v.ahead = askAbout(p)
	}
}

// askLimit bounds the question to one server: one that is silent is not compared.
const askLimit = time.Second

// moved reports whether a shard has another server although the one before is alive
// and a master still: its slot was moved, with every write.
func moved(before, now string, masters map[string]bool) bool {
	return before != "" && now != "" && before != now && masters[before]
}

// look asks each server once and returns what LookAll needs. A server that does
// not say its run id is not compared.
func (v *servers) look(ctx context.Context) func(shard int) (string, bool) {
	rdb := v.store.Redis()
	type known struct {
		id      string
		durable bool
	}
	byAddr := map[string]known{}
	ask := func(addr string, c redis.Cmdable) known {
		if k, ok := byAddr[addr]; ok {
			return k
		}
		bound, cancel := context.WithTimeout(ctx, askLimit)
		defer cancel()
		ahead := v.ahead
		v.ahead = nil
		id, durable := identity(bound, c, ahead)
		byAddr[addr] = known{id, durable}
		return byAddr[addr]
	}
	cluster, isCluster := rdb.(*redis.ClusterClient)
	// masters are asked for only when a shard has another server than before.
	masters := sync.OnceValue(func() map[string]bool { return runIDs(ctx, cluster) })
	return func(shard int) (string, bool) {
		if !isCluster {
			k := ask("", rdb)
			return k.id, k.durable
		}
		node, err := cluster.MasterForKey(ctx, store.ClockKey(shard))
		if err != nil {
			return "", false
		}
		k := ask(node.Options().Addr, node)
		before := v.before[shard]
		if k.id != "" {
			v.before[shard] = k.id
		}
		if before != "" && k.id != before && moved(before, k.id, masters()) {
			return k.id, true
		}
		return k.id, k.durable
	}
}

// runIDs returns the run ids of the masters that answer.
func runIDs(ctx context.Context, cluster *redis.ClusterClient) map[string]bool {
	var mu sync.Mutex
	ids := map[string]bool{}
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		text, err := node.Info(ctx, "server", "replication").Result()
		fields := fieldsOf(text)
		if err == nil && fields["role"] == "master" {
			mu.Lock()
			defer mu.Unlock()
			ids[fields["run_id"]] = true
		}
		return nil // one that does not answer is no living master
	})
	return ids
}

// asked is what a server is asked about itself.
type asked struct {
	info *redis.StringCmd
	sync *redis.MapStringStringCmd
}

func askAbout(p redis.Pipeliner) *asked {
	ctx := context.Background() // the pipeline's own context counts
	return &asked{p.Info(ctx, "server", "replication", "persistence"), p.ConfigGet(ctx, "appendfsync")}
}

// identity returns a server's run id and whether a restart of it keeps every
// write: everything is synced to disk, and it was never a replica of another. It
// asks where nothing was asked ahead.
func identity(ctx context.Context, c redis.Cmdable, a *asked) (id string, durable bool) {
	if a == nil {
		// One of the questions may be refused.
		_, _ = pipeline.Send(ctx, c, func(p redis.Pipeliner) { a = askAbout(p) })
	}
	text, err := a.info.Result()
	if err != nil {
		if text, err = c.Info(ctx, "server").Result(); err != nil {
			return "", false
		}
	}
	fields := fieldsOf(text)
	durable = fields["aof_enabled"] == "1" && strings.Trim(fields["master_replid2"], "0") == "" &&
		a.sync.Err() == nil && a.sync.Val()["appendfsync"] == "always"
	return fields["run_id"], durable
}

// fieldsOf reads the lines of INFO.
func fieldsOf(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[k] = v
		}
	}
	return fields
}

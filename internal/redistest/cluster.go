package redistest

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster of three masters, each with one replica.
type Cluster struct {
	Nodes []*Server

	t testing.TB
}

// StartCluster starts six nodes, joins them and returns when each of them sees
// all slots covered and every replica is in step.
func StartCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	cli := Require(t, "redis-cli")
	c := &Cluster{t: t}
	opts = append(opts, promptSync, Config("cluster-enabled", "yes"), Config("cluster-node-timeout", "3000"),
		Config("cluster-config-file", "nodes.conf"))
	for range 6 {
		c.Nodes = append(c.Nodes, Start(t, opts...))
	}
	args := append([]string{"--cluster", "create"}, c.Addrs()...)
	out, err := exec.Command(cli, append(args, "--cluster-replicas", "1", "--cluster-yes")...).CombinedOutput()
	if err != nil {
		t.Fatalf("redis-cli --cluster create: %v\n%s", err, out)
	}
	c.Replicated()
	return c
}

// whole reports whether every node sees a good state and all replicas are in step.
func (c *Cluster) whole() bool {
	for _, node := range c.Nodes {
		text, _ := node.try("cluster", "info").(string)
		if field(text, "cluster_state") != "ok" || field(text, "cluster_known_nodes") != "6" {
			return false
		}
	}
	return inStep(c.Nodes) == len(c.Nodes)/2
}

// Replicated waits until the Cluster is whole and its replicas have all writes,
// so that a failover loses none of them.
func (c *Cluster) Replicated() {
	c.t.Helper()
	await(c.t, "the Cluster to be whole", c.whole)
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr)
	}
	return addrs
}

// URL names all nodes as the programs take them.
func (c *Cluster) URL() string { return "redis-cluster://" + strings.Join(c.Addrs(), ",") }

// Client returns a client of the Cluster, closed with the test.
func (c *Cluster) Client() *redis.ClusterClient {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	c.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Owner returns the running node that serves the key's slot as a master.
func (c *Cluster) Owner(key string) *Server {
	c.t.Helper()
	var owner *Server
	await(c.t, "an owner of "+key, func() bool {
		owner = c.owner(key)
		return owner != nil
	})
	return owner
}

func (c *Cluster) owner(key string) *Server {
	for _, node := range c.Nodes {
		if field(node.info("replication"), "role") != "master" {
			continue
		}
		// Only the owner carries the command out; the others answer MOVED.
		if n, ok := node.try("exists", key).(int64); ok && n >= 0 {
			return node
		}
	}
	return nil
}

// Failover kills the owner of the key with SIGKILL, waits until its replica
// serves the slot and returns the killed node. Writes that had not reached the
// replica are lost (see Replicated). go-redis may go on asking the killed node
// for up to 10 seconds.
func (c *Cluster) Failover(key string) *Server {
	c.t.Helper()
	old := c.Owner(key)
	old.Kill9()
	c.Owner(key)
	return old
}

// Rejoin starts a killed node again and waits until the Cluster is whole.
func (c *Cluster) Rejoin(node *Server) {
	c.t.Helper()
	node.Restart()
	c.Replicated()
}

// MoveSlot moves the key's slot with all its keys to another master, as
// resharding does, and returns the new owner.
func (c *Cluster) MoveSlot(key string) *Server {
	c.t.Helper()
	from := c.Owner(key)
	var to *Server
	for _, node := range c.Nodes {
		if node != from && field(node.info("replication"), "role") == "master" {
			to = node
		}
	}
	slot := from.do("cluster", "keyslot", key)
	fromID, toID := from.do("cluster", "myid"), to.do("cluster", "myid")
	host, port, _ := strings.Cut(to.Addr, ":")
	to.do("cluster", "setslot", slot, "importing", fromID)
	from.do("cluster", "setslot", slot, "migrating", toID)
	for {
		keys, _ := from.do("cluster", "getkeysinslot", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		from.do(append([]any{"migrate", host, port, "", 0, strconv.Itoa(int(deployLimit.Milliseconds())), "keys"}, keys...)...)
	}
	to.do("cluster", "setslot", slot, "node", toID)
	from.do("cluster", "setslot", slot, "node", toID)
	await(c.t, "the moved slot", func() bool { return c.owner(key) == to })
	return to
}

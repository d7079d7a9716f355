package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// deployLimit bounds the wait for a deployment to agree on something.
const deployLimit = 60 * time.Second

// sentinelName is the name under which the Sentinels watch the master.
const sentinelName = "rota"

// Sentinel is a master with one replica, watched by three Sentinels.
type Sentinel struct {
	Name  string    // the master's name
	Addrs []string  // of the Sentinels
	Nodes []*Server // the first was the master at the start

	t testing.TB
}

// StartSentinel starts master, replica and Sentinels and returns when all of
// them know each other, so that a failover can succeed from the first moment.
func StartSentinel(t testing.TB, opts ...Option) *Sentinel {
	t.Helper()
	Require(t, "redis-sentinel")
	opts = append(opts, promptSync)
	master := Start(t, opts...)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica := Start(t, append(opts, Config("replicaof", host+" "+port))...)
	s := &Sentinel{Name: sentinelName, Nodes: []*Server{master, replica}, t: t}
	s.Replicated()
	watchers := make([]*Server, 3)
	for i := range watchers {
		watchers[i] = startWatcher(t, host, port)
		s.Addrs = append(s.Addrs, watchers[i].Addr)
	}
	await(t, "the Sentinels to know each other", func() bool {
		for _, w := range watchers {
			text := w.info("sentinel")
			if !strings.Contains(text, "status=ok") || number(masterLine(text), "slaves") != 1 || number(masterLine(text), "sentinels") != 3 {
				return false
			}
		}
		return true
	})
	return s
}

// masterLine returns the row about the master in a Sentinel's INFO.
func masterLine(text string) string {
	_, line, _ := strings.Cut(text, "master0:")
	line, _, _ = strings.Cut(line, "\r\n")
	return line
}

func startWatcher(t testing.TB, host, port string) *Server {
	t.Helper()
	name := sentinelName
	w := &Server{t: t, program: Require(t, "redis-sentinel"), dir: t.TempDir(), sentry: true, config: [][2]string{
		{"sentinel monitor", fmt.Sprintf("%s %s %s 2", name, host, port)},
		{"sentinel down-after-milliseconds", name + " 3000"}, // a busy machine must not look like a dead master
		{"sentinel failover-timeout", name + " 6000"},
	}}
	w.startAnywhere()
	t.Cleanup(w.end)
	return w
}

// URL names the Sentinels and the master as the programs take them.
func (s *Sentinel) URL() string {
	return "redis-sentinel://" + strings.Join(s.Addrs, ",") + "/" + s.Name
}

// Client returns a client that follows the master, closed with the test.
func (s *Sentinel) Client() *redis.Client {
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: s.Name, SentinelAddrs: s.Addrs})
	s.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Master returns the node that a majority of the Sentinels name as the master.
func (s *Sentinel) Master() *Server {
	s.t.Helper()
	var master *Server
	await(s.t, "a master by majority", func() bool {
		votes := map[string]int{}
		for _, addr := range s.Addrs {
			votes[s.named(addr)]++
		}
		for _, node := range s.Nodes {
			if votes[node.Addr] >= 2 {
				master = node
			}
		}
		return master != nil
	})
	return master
}

// named asks one Sentinel for the master's address.
func (s *Sentinel) named(sentinel string) string {
	rdb := redis.NewSentinelClient(&redis.Options{Addr: sentinel})
	defer rdb.Close()
	parts, err := rdb.GetMasterAddrByName(context.Background(), s.Name).Result()
	if err != nil {
		return ""
	}
	return strings.Join(parts, ":")
}

// Failover kills the master with SIGKILL, waits until the other node took over
// and returns the killed one. Writes that had not reached the replica are lost.
func (s *Sentinel) Failover() *Server {
	s.t.Helper()
	old := s.Master()
	old.Kill9()
	await(s.t, "a new master", func() bool {
		master := s.Master()
		return master != old && strings.Contains(master.info("replication"), "role:master")
	})
	return old
}

// Rejoin starts a killed node again and waits until it is a replica in step.
func (s *Sentinel) Rejoin(node *Server) {
	s.t.Helper()
	node.Restart()
	s.Replicated()
}

// Replicated waits until the replica has all writes, so that a failover loses
// none of them.
func (s *Sentinel) Replicated() {
	s.t.Helper()
	await(s.t, "the replica to be in step", func() bool { return inStep(s.Nodes) == 1 })
}

// await waits until a deployment has reached a state.
func await(t testing.TB, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(deployLimit); !reached(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", deployLimit, what)
		}
	}
}

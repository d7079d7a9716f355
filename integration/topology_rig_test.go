package integration

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"rota/commands"
	"rota/integration/processes"
	"rota/internal/config"
	"rota/internal/redistest"
	"rota/pairs"
	"rota/scheduler"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// newTopology is newRig over Sentinels or a Cluster. alive is a node that runs
// when the test ends.
func newTopology(t *testing.T, url string, alive *redistest.Server, s setup) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), redis: alive}
	r.file = filepath.Join(r.dir, "rota.yaml")
	r.writeConfig(s)
	text, err := os.ReadFile(r.file)
	if err == nil {
		text = []byte(strings.Replace(string(text), r.redis.URL(), url, 1))
		err = os.WriteFile(r.file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.writeRepo()
	r.rules()
	cfg, err := config.Load(r.file, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	r.services = cfg.ServiceNames()
	rdb, err := config.RedisClient(cfg.Redis)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rdb.Close() })
	if r.store, err = store.Open(t.Context(), rdb, store.Options{Shards: cfg.Shards, Plan: pairs.Plan, Crew: cfg.Crew(), Rules: cfg.Rules()}); err != nil {
		t.Fatal(err)
	}
	r.relay = scheduler.NewRelay(r.store, discard, nil)
	r.inspect = asynq.NewInspectorFromRedisClient(rdb)
	r.commands = &commands.Commands{Store: r.store, Hand: r.relay.Hand, Hurry: func(ctx context.Context, a turns.Attempt, _ store.Ask) error {
		return tasks.Hurry(ctx, rdb, a.ID)
	}}
	t.Cleanup(r.check)
	return r
}

// load gives commands from several sides until it has had enough of them accepted.
// A command that is answered with an error is given again with the same key, as a
// careful client does.
type load struct {
	r    *rig
	stop context.CancelFunc
	done sync.WaitGroup

	mu       sync.Mutex
	accepted []order
	refused  int
}

// order is a command that was answered ok.
type order struct {
	ask   commands.TurnAsk
	pair  bool
	turn  string
	since time.Time
}

// give carries a command out; every sixth is a paired task.
func (r *rig) give(ctx context.Context, ask commands.TurnAsk, pair bool) (string, error) {
	bound, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if pair {
		res, err := r.commands.Task(bound, commands.TaskAsk{Key: ask.Key, Thread: ask.Thread, Text: ask.Text, Workdir: r.repo})
		return res.Turn, err
	}
	res, err := r.commands.Turn(bound, ask)
	return res.Turn, err
}

// put begins a load that goes on until it is stopped.
func (r *rig) put() *load {
	ctx, stop := context.WithCancel(r.t.Context())
	l := &load{r: r, stop: stop}
	const sides = 2
	for side := range sides {
		l.done.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := fmt.Sprintf("load-%d-%d", side, i)
				l.one(ctx, commands.TurnAsk{Key: name, Thread: name, Text: "do it", Role: turns.Owner}, i%6 == 5)
				l.pause(ctx, 300*time.Millisecond)
			}
		})
	}
	return l
}

func (l *load) pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (l *load) one(ctx context.Context, ask commands.TurnAsk, pair bool) {
	for ctx.Err() == nil {
		turn, err := l.r.give(ctx, ask, pair)
		l.mu.Lock()
		if err == nil {
			l.accepted = append(l.accepted, order{ask, pair, turn, time.Now()})
			l.mu.Unlock()
			return
		}
		l.refused++
		l.mu.Unlock()
		l.pause(ctx, 50*time.Millisecond)
	}
}

func (l *load) count() (accepted, refused int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.accepted), l.refused
}

// more waits until this many further commands were accepted.
func (l *load) more(n int) {
	l.r.t.Helper()
	before, _ := l.count()
	l.r.await(fmt.Sprintf("%d more commands", n), func() bool {
		now, _ := l.count()
		return now >= before+n
	})
}

// end stops the load and returns what was accepted.
func (l *load) end() []order {
	l.stop()
	l.done.Wait()
	return l.accepted
}

// lost returns the commands of which Redis knows nothing any more.
func (r *rig) lost(list []order) []order {
	r.t.Helper()
	return slices.DeleteFunc(slices.Clone(list), func(o order) bool {
		_, err := r.store.Turn(r.t.Context(), o.turn)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			r.t.Fatal(err)
		}
		return err == nil
	})
}

// allEnd waits until all commands have come to their end: the turn completed, or
// the whole paired task.
func (r *rig) allEnd(list []order) {
	r.t.Helper()
	for _, o := range list {
		if o.pair {
			r.rests(o.ask.Thread, turns.PairCompleted)
		} else if u := r.ends(o.turn); u.State != turns.Completed {
			r.t.Errorf("%s ended %s: %s %s", o.turn, u.State, u.Class, u.Error)
		}
	}
}

// fencesGrow fails the test unless the fences of a thread's runs, by the agents' own
// account, are all different and grow.
func (r *rig) fencesGrow() (runs int) {
	r.t.Helper()
	last := map[string]execution{}
	list := r.runs(nil)
	slices.SortStableFunc(list, func(a, b execution) int { return a.At.Compare(b.At) })
	for _, e := range list {
		before, seen := last[e.Thread]
		was, _ := strconv.ParseInt(before.Fence, 10, 64)
		is, err := strconv.ParseInt(e.Fence, 10, 64)
		if err != nil || seen && is <= was {
			r.t.Errorf("%s ran with fence %s after %s ran with %s", e.Attempt, e.Fence, before.Attempt, before.Fence)
		}
		last[e.Thread] = e
	}
	return len(list)
}

// watchman looks for two agents in one thread, over and over.
type watchman struct {
	r    *rig
	stop chan struct{}
	done sync.WaitGroup
	seen map[string]bool
}

func (r *rig) watchAgents() *watchman {
	w := &watchman{r: r, stop: make(chan struct{}), seen: map[string]bool{}}
	w.done.Go(func() {
		for {
			for thread, fences := range r.living() {
				if len(fences) > 1 {
					w.seen[fmt.Sprintf("%s: fences %s", thread, slices.Sorted(maps.Keys(fences)))] = true
				}
			}
			select {
			case <-w.stop:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return w
}

// living returns the fences of the agents that are alive, by thread.
func (r *rig) living() map[string]map[string]bool {
	found := map[string]map[string]bool{}
	for _, p := range processes.All() {
		vars := map[string]string{}
		for _, v := range p.Env {
			name, value, _ := strings.Cut(v, "=")
			vars[name] = value
		}
		thread, fence := vars["ROTA_THREAD"], vars["ROTA_FENCE"]
		if !p.Living() || thread == "" || fence == "" || !strings.HasPrefix(vars["ROTA_WORKSPACE"], r.dir) || !strings.Contains(p.Args, "puppet") {
			continue
		}
		if found[thread] == nil {
			found[thread] = map[string]bool{}
		}
		found[thread][fence] = true
	}
	return found
}

// end fails the test when two agents were seen in one thread at once.
func (w *watchman) end() {
	w.r.t.Helper()
	close(w.stop)
	w.done.Wait()
	for text := range w.seen {
		w.r.t.Errorf("two agents at once in thread %s", text)
	}
}

// pickUps says how long runs waited from the opening of their attempt to their
// claim: the median and the longest, for the report.
func (r *rig) pickUps(list []order) string {
	var waits []time.Duration
	var slowest []turns.Entry
	for _, o := range list {
		log, err := r.store.Log(r.t.Context(), o.turn)
		if err != nil {
			r.t.Fatal(err)
		}
		for i, e := range log {
			if i > 0 && e.Verb == turns.VerbClaim {
				if waits = append(waits, e.At.Sub(log[i-1].At)); waits[len(waits)-1] == slices.Max(waits) {
					slowest = log
				}
				break
			}
		}
	}
	if len(waits) == 0 {
		return "none"
	}
	slices.Sort(waits)
	return fmt.Sprintf("p50 %s, longest %s (%s, opened %s)", waits[len(waits)/2], waits[len(waits)-1], slowest[0].Turn, slowest[0].At.Format("15:04:05.000"))
}

// cutReplica takes a node's replica off it for good, as a partition does; the node
// goes on accepting writes, which a failover then loses. mend lets nodes replicate
// again.
func (r *rig) cutReplica(node *redistest.Server, nodes []*redistest.Server) (mend func()) {
	r.t.Helper()
	replica := replicaOf(r.t, node, nodes)
	replica.ConfigSet("masterauth", "wrong-on-purpose")
	rdb := node.Client()
	if err := rdb.Do(r.t.Context(), "client", "kill", "type", "replica").Err(); err != nil {
		r.t.Fatal(err)
	}
	r.await("the replica to be cut off", func() bool {
		return strings.Contains(replica.Client().Info(r.t.Context(), "replication").Val(), "master_link_status:down")
	})
	return func() { replica.ConfigSet("masterauth", "") }
}

func replicaOf(t *testing.T, node *redistest.Server, nodes []*redistest.Server) *redistest.Server {
	t.Helper()
	_, port, _ := strings.Cut(node.Addr, ":")
	for _, other := range nodes {
		if !other.Running() {
			continue
		}
		text := other.Client().Info(t.Context(), "replication").Val()
		if strings.Contains(text, "role:slave") && strings.Contains(text, "master_port:"+port+"\r\n") {
			return other
		}
	}
	t.Fatalf("%s has no replica", node.Addr)
	return nil
}

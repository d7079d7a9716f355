package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
)

// lateTopology has an owner service that serves from the start, and one whose worker
// comes when the replica is already cut off.
var lateTopology = setup{
	roles:    map[string][]string{"owner": {"builder", "late"}, "reviewer": {"checker", "spare"}},
	limits:   "{lease: 12s, start: 20s, silence: 80s, run: 100s, grace: 1s}",
	services: map[string]string{"builder": "concurrency: 4", "late": "concurrency: 4", "checker": "concurrency: 2, credentials: [work]"},
	logins:   "{work: {file: work.login}}",
}

// failover is the story of both topologies: load, a long run, a claim that only the
// dying master knows, the failover, and the way back.
type failover struct {
	*rig
	nodes  []*redistest.Server
	master func() *redistest.Server // that will be killed
	kill   func() *redistest.Server
	rejoin func(*redistest.Server)
}

func (f failover) logins() {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, "work.login"), []byte("sk-fake-not-a-secret"), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// play plays the story on a rig whose workers are builder, checker and spare.
func (f failover) play(l *load, agents *watchman) {
	f.t.Helper()
	moves := f.follow()
	defer moves.end()
	long := f.lone("long", turns.Owner)
	f.comes(long+".1", turns.Running)
	var late []order
	for _, name := range []string{"late-0", "late-1"} {
		ask := commands.TurnAsk{Key: name, Thread: name, Text: "do it", Role: turns.Owner, Service: "late"}
		turn, err := f.give(f.t.Context(), ask, false)
		if err != nil {
			f.t.Fatal(err)
		}
		late = append(late, order{ask: ask, turn: turn})
	}
	l.more(5)

	cut := time.Now()
	mend := f.cutReplica(f.master(), f.nodes)
	f.start("late")
	f.await("the runs that only the master knows", func() bool { return len(f.runs(by("late"))) == 2 })
	l.more(5)
	before, _ := l.count()
	behind, killed := time.Since(cut), time.Now()
	old := f.kill()
	mend()
	l.more(1)
	away := time.Since(killed)
	l.more(9)
	f.await("the late runs again", func() bool {
		return len(f.runs(of("late-0"))) > 1 && len(f.runs(of("late-1"))) > 1 || f.knows(late)
	})
	f.mark("go")
	accepted := l.end()
	_, refused := l.count()

	lost := f.lost(accepted)
	for _, o := range lost {
		if o.since.Before(cut) {
			f.t.Errorf("%s was lost although it was accepted before the replica was cut off", o.turn)
		}
		turn, err := f.give(f.t.Context(), o.ask, o.pair)
		if err != nil || turn != o.turn {
			f.t.Errorf("the lost command %s given again: %s, %v", o.ask.Key, turn, err)
		}
	}
	f.allEnd(accepted)
	f.allEnd(late)
	if u := f.ends(long); u.State != turns.Completed {
		f.t.Errorf("the long run ended %s: %s", u.State, u.Error)
	}
	f.story(long, "builder initial completed")
	last := accepted[len(accepted)-1].turn
	f.await("the move to be followed", func() bool { return moves.saw(last) })
	f.rejoin(old)
	agents.end()
	runs := f.fencesGrow()
	f.t.Logf("%d commands accepted before the kill, %d of them lost with the replica %s behind; %s without a master, %d commands answered with an error;"+
		" %d accepted in all, %d runs, pick-up %s", before, len(lost), behind.Round(time.Millisecond), away.Round(time.Millisecond), refused, len(accepted), runs, f.pickUps(accepted))
}

// knows reports whether the claims of orders survived: nothing of them was lost.
func (f failover) knows(list []order) bool {
	for _, o := range list {
		if a := f.attempt(o.turn + ".1"); !a.State.Held() {
			return false
		}
	}
	return true
}

func (f failover) plan() {
	f.rules(
		rule{Thread: "long", Steps: []string{"accepted", "wait go", "result done"}},
		rule{Service: "late", Steps: []string{"accepted", "wait go", "result done"}},
		rule{Service: "checker", Times: 1, Steps: []string{"error auth the login has expired"}},
	)
}

// Three Sentinels; the master is killed with SIGKILL in the middle of load while its
// replica lags behind. Turns and asynq go on, every accepted turn ends, what was
// lost is counted and can be given again.
func TestSentinelFailoverUnderLoad(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	f := failover{rig: newTopology(t, s.URL(), s.Nodes[1], lateTopology), nodes: s.Nodes, master: s.Master, kill: s.Failover, rejoin: s.Rejoin}
	f.logins()
	f.plan()
	for _, name := range []string{"builder", "checker", "spare"} {
		f.start(name)
	}
	f.wholeCommandLine()
	agents := f.watchAgents()
	f.play(f.put(), agents)
	f.wholeCommandLineAgain()
}

// A Cluster of three masters: slots of rota and of asynq move under load, then the
// master of a shard is killed while its replica lags behind.
func TestClusterUnderLoad(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	f := failover{rig: newTopology(t, c.URL(), c.Nodes[0], lateTopology), nodes: c.Nodes}
	late := fmt.Sprintf("rota:{s%02d}:clock", f.store.ShardOf("late-0"))
	f.master = func() *redistest.Server { return c.Owner(late) }
	f.kill = func() *redistest.Server { return c.Failover(late) }
	f.rejoin = c.Rejoin
	f.logins()
	f.plan()
	for _, name := range []string{"builder", "checker", "spare"} {
		f.start(name)
	}
	f.wholeCommandLine()
	agents := f.watchAgents()
	l := f.put()
	l.more(5)
	for _, key := range []string{"rota:{s00}:clock", "rota:{s01}:clock", "asynq:{builder}:pending"} {
		c.MoveSlot(key)
		l.more(3)
	}
	f.play(l, agents)
	f.wholeCommandLineAgain()
}

// wholeCommandLineAgain asks the same of the deployment after the failover.
func (f failover) wholeCommandLineAgain() {
	f.t.Helper()
	f.says([]string{`"state": "completed"`}, "turn", "do it", "--thread", "by-hand-2", "--role", "owner", "--wait", "-o", "json")
	f.says(nil, "verify")
}

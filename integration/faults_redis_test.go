package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// redis: start [aof] [LIMIT=VALUE …] | restart | kill | pause | continue | oom |
// room | readonly | writable | slow DELAY | flush-scripts | wipe-asynq |
// refuse-done | refuse-queue SERVICE | accept | refused ERROR
func (s *stage) redis(args []string) {
	switch word := s.arg(args, 0); word {
	case "start":
		s.start(args[1:])
	case "restart":
		s.rig.redis.Restart()
	case "kill":
		s.rig.redis.Kill9()
	case "pause":
		s.rig.redis.Pause()
	case "continue":
		s.rig.redis.Continue()
	case "oom":
		s.rig.redis.ConfigSet("maxmemory", "1")
	case "room":
		s.rig.redis.ConfigSet("maxmemory", "0")
	case "readonly":
		s.rig.redis.ConfigSet("min-replicas-to-write", "5")
	case "writable":
		s.rig.redis.ConfigSet("min-replicas-to-write", "0")
	case "slow":
		s.slow(s.arg(args, 1))
	case "flush-scripts":
		s.rig.redis.ScriptFlush()
	case "wipe-asynq":
		s.wipe()
	case "refuse-done": // asynq counts what ended; its calls that end a task can't
		s.allow("~asynq:[^{]*", "~asynq:{*}:[^p]*", "~asynq:{*}:p[^r]*")
	case "refuse-queue": // nothing gets into this queue, nor out of it
		allowed := []string{"~asynq:[^{]*"}
		for _, other := range s.rig.services {
			if other != s.arg(args, 1) {
				allowed = append(allowed, "~asynq:{"+other+"*")
			}
		}
		s.allow(allowed...)
	case "refused":
		s.refusals(s.arg(args, 1))
	case "accept":
		s.rig.ok(s.rig.rdb.Do(s.t.Context(), "acl", "setuser", "default", "allkeys").Err())
	default:
		s.t.Fatalf("redis can't %s", word)
	}
}

// start starts Redis. Limits that are given replace those of shortLimits.
func (s *stage) start(args []string) {
	var options setup
	limits := map[string]string{"lease": "3s", "start": "20s", "silence": "50s", "run": "90s", "grace": "1s"}
	for _, a := range args {
		name, value, is := strings.Cut(a, "=")
		if is {
			limits[name] = value
			continue
		}
		options.redis = []redistest.Option{redistest.AppendOnly(), redistest.AppendFsync("always")}
	}
	var list []string
	for name, value := range limits {
		list = append(list, name+": "+value)
	}
	options.limits = "{" + strings.Join(list, ", ") + "}"
	s.rig = newRig(s.t, options)
}

func (s *stage) slow(delay string) {
	d, err := time.ParseDuration(delay)
	s.rig.ok(err)
	s.delay = d
	for _, l := range s.links {
		l.Delay(d)
	}
}

// wipe deletes everything of asynq's, and nothing of rota's.
func (s *stage) wipe() {
	keys, err := s.rig.rdb.Keys(s.t.Context(), "asynq:*").Result()
	s.rig.ok(err)
	if len(keys) == 0 {
		s.t.Fatal("asynq has no keys to wipe")
	}
	s.rig.ok(s.rig.rdb.Del(s.t.Context(), keys...).Err())
}

// allow refuses every key except rota's own and these.
func (s *stage) allow(patterns ...string) {
	args := []any{"acl", "setuser", "default", "resetkeys", "~rota:*"}
	for _, p := range patterns {
		args = append(args, p)
	}
	s.rig.ok(s.rig.rdb.Do(s.t.Context(), args...).Err())
}

// refusals waits until Redis has refused a call with this error from now on, so that
// a story can't pass without its fault.
func (s *stage) refusals(name string) {
	count := func() string {
		stats, err := s.rig.rdb.Info(s.t.Context(), "errorstats").Result()
		s.rig.ok(err)
		_, after, _ := strings.Cut(stats, "errorstat_"+name+":count=")
		n, _, _ := strings.Cut(after, "\r")
		return n
	}
	before := count()
	s.rig.await("a call that is refused with "+name, func() bool { return count() != before })
}

// disk: small | fill | free. The disk is the one with the workspaces.
func (s *stage) disk(args []string) {
	dir := filepath.Join(s.rig.dir, "data")
	ballast := filepath.Join(dir, "ballast")
	switch s.arg(args, 0) {
	case "small":
		s.rig.ok(os.MkdirAll(dir, 0o700))
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=4m"); err != nil {
			s.t.Skipf("a disk of its own needs the right to mount: %v", err)
		}
		s.t.Cleanup(func() {
			s.rig.stopAll()
			if err := syscall.Unmount(dir, 0); err != nil {
				s.t.Error(err)
			}
		})
	case "fill":
		f, err := os.Create(ballast)
		s.rig.ok(err)
		for err == nil {
			_, err = f.Write(make([]byte, 4096))
		}
		_ = f.Close()
	case "free":
		s.rig.ok(os.Remove(ballast))
	default:
		s.t.Fatalf("a disk can't %s", args[0])
	}
}

// unanswered opens a lone turn whose command loses its replies and is sent again.
func (s *stage) unanswered(args []string) {
	thread := s.arg(args, 0)
	loss := redistest.LostReply(redistest.And(redistest.AnyScript(), redistest.Mentions(thread)), 1).Times(2)
	rdb := redistest.WithHooks(s.t, s.rig.rdb, loss)
	c := *s.rig.commands
	var err error
	c.Store, err = store.Open(s.t.Context(), rdb, store.Options{Shards: s.rig.store.Shards(), Crew: turns.Crew{turns.Owner: {Services: []string{"codex-main"}}}})
	s.rig.ok(err)
	_, err = c.Turn(s.t.Context(), commands.TurnAsk{Thread: thread, Workdir: s.rig.repo, Text: "do it", Role: turns.Owner})
	s.rig.ok(err)
	if loss.Hits() == 0 {
		s.t.Fatal("no reply was lost")
	}
}

// lease-entry: delete ATTEMPT | shift ATTEMPT DURATION, of asynq's
func (s *stage) leaseEntry(args []string) {
	id := s.arg(args, 1)
	key := "asynq:{" + s.rig.attempt(id).Service + "}:lease"
	ctx := s.t.Context()
	switch args[0] {
	case "delete":
		s.changed(s.rig.rdb.ZRem(ctx, key, id))
	case "shift":
		by, err := time.ParseDuration(s.arg(args, 2))
		s.rig.ok(err)
		s.rig.ok(s.rig.rdb.ZScore(ctx, key, id).Err())
		s.rig.ok(s.rig.rdb.ZIncrBy(ctx, key, by.Seconds(), id).Err())
	}
}

func (s *stage) changed(c *redis.IntCmd) {
	n, err := c.Result()
	s.rig.ok(err)
	if n == 0 {
		s.t.Fatalf("nothing was there: %s", c)
	}
}

// asynq: archive | delete | run ATTEMPT, by hand; missing ATTEMPT when it has no task
func (s *stage) asynq(args []string) {
	id := s.arg(args, 1)
	queue := s.rig.attempt(id).Service
	do := map[string]func(queue, id string) error{
		"archive": s.rig.inspect.ArchiveTask, "delete": s.rig.inspect.DeleteTask, "run": s.rig.inspect.RunTask, "missing": s.missing,
	}[args[0]]
	if do == nil {
		s.t.Fatalf("asynq can't %s", args[0])
	}
	s.rig.ok(do(queue, id))
}

func (s *stage) missing(queue, id string) error {
	n, err := s.rig.rdb.Exists(s.t.Context(), "asynq:{"+queue+"}:t:"+id).Result()
	if n != 0 {
		s.t.Errorf("%s has a task", id)
	}
	return err
}

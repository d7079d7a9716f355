// Package doctor looks at a deployment and says what is wrong with it, each
// finding with its remedy. It changes nothing but a key of its own, which goes
// by itself a second later.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/config"
	"rota/internal/presence"
	"rota/turns"
	"rota/turns/store"
)

// Level says how bad a finding is.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning" // works, with a promise less
	Problem Level = "problem" // does not work, or loses work
)

// Finding is one thing that was looked at.
type Finding struct {
	Level  Level  `json:"level"`
	Check  string `json:"check"`
	Text   string `json:"text"`
	Remedy string `json:"remedy"` // what to do; empty when all is well
}

// Worst returns the worst level among findings.
func Worst(list []Finding) Level {
	worst := OK
	for _, f := range list {
		if f.Level == Problem || f.Level == Warning && worst == OK {
			worst = f.Level
		}
	}
	return worst
}

// Redis looks at the Redis that a configuration names: version, persistence,
// eviction, clock, rights and the stored number of shards. server is false for an
// embedded store in memory, which has none of a server's settings.
func Redis(ctx context.Context, rdb redis.UniversalClient, cfg config.Config, server bool) []Finding {
	err := rdb.Ping(ctx).Err()
	if config.LoginRefused(err) {
		return []Finding{{Problem, "redis", "it refuses the login: " + err.Error(), config.LoginHint}}
	}
	if err != nil && !answered(err) {
		return []Finding{{Problem, "redis", "it can't be reached: " + err.Error(),
			"start it, or name another one with redis: in the configuration, ROTA_REDIS or --redis; `worker --embedded` brings its own"}}
	}
	var list []Finding
	if server {
		list = everyMaster(ctx, rdb)
	}
	list = append(list, clock(ctx, rdb), rights(ctx, rdb), writes(ctx, rdb), shards(ctx, rdb, cfg))
	return slices.DeleteFunc(list, func(f Finding) bool { return f.Check == "" })
}

// answered reports whether an error is Redis' own word, such as a missing right.
func answered(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

func fields(info string) map[string]string {
	m := map[string]string{}
	for line := range strings.SplitSeq(info, "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}

// value reads a setting; empty when it may not be read.
func value(ctx context.Context, rdb redis.Cmdable, name string) string {
	m, err := rdb.ConfigGet(ctx, name).Result()
	if err != nil {
		return ""
	}
	return m[name]
}

func version(info map[string]string) Finding {
	v := info["redis_version"]
	if v == "" {
		return Finding{}
	}
	major, rest, _ := strings.Cut(v, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, _ := strconv.Atoi(major)
	b, _ := strconv.Atoi(minor)
	if a < 6 || a == 6 && b < 2 {
		return Finding{Problem, "version", "Redis " + v + " is too old", "use Redis 6.2 or newer"}
	}
	return Finding{OK, "version", "Redis " + v, ""}
}

func persistence(info map[string]string, fsync string) Finding {
	if info["aof_enabled"] == "" {
		return Finding{}
	}
	switch {
	case info["aof_enabled"] != "1":
		return Finding{Problem, "persistence", "there is no append-only file: a restart of Redis loses turns", "set appendonly yes"}
	case info["aof_last_write_status"] != "" && info["aof_last_write_status"] != "ok":
		return Finding{Problem, "persistence", "the append-only file can't be written (" + info["aof_last_write_status"] + ")", "look at the disk of the Redis server"}
	case fsync == "no":
		return Finding{Warning, "persistence", "the append-only file is synced when the system likes", "set appendfsync everysec or always"}
	}
	return Finding{OK, "persistence", "append-only file, synced " + named(fsync, "as configured"), ""}
}

func eviction(info map[string]string, policy string) Finding {
	if policy == "" {
		policy = info["maxmemory_policy"]
	}
	if policy == "" {
		return Finding{}
	}
	if policy != "noeviction" {
		return Finding{Problem, "eviction", "the policy is " + policy + ": Redis may throw turns away", "set maxmemory-policy noeviction"}
	}
	return Finding{OK, "eviction", "noeviction", ""}
}

// skew is how far this machine's clock may be from Redis'. Times in the store are
// Redis' own; what --at and --in of enqueue mean, and all times of asynq's, goes by
// this machine's clock.
const skew = 2 * time.Second

func clock(ctx context.Context, rdb redis.UniversalClient) Finding {
	before := time.Now()
	there, err := rdb.Time(ctx).Result()
	if err != nil {
		return Finding{Problem, "clock", "TIME is refused: " + err.Error(), "let the user of rota call TIME"}
	}
	took := time.Since(before)
	off := there.Sub(before.Add(took / 2))
	if off.Abs() > skew+took {
		return Finding{Warning, "clock", fmt.Sprintf("this machine's clock is %s away from Redis'", off.Abs().Round(time.Millisecond)), "synchronise the clocks (NTP)"}
	}
	return Finding{OK, "clock", fmt.Sprintf("%s away from Redis', round trip %s", off.Abs().Round(time.Millisecond), took.Round(10*time.Microsecond)), ""}
}

// rights runs a script that reads, which is what every move of rota is.
func rights(ctx context.Context, rdb redis.UniversalClient) Finding {
	if err := rdb.Eval(ctx, "return redis.call('EXISTS', KEYS[1])", []string{"rota:meta"}).Err(); err != nil {
		return Finding{Problem, "rights", "scripts are refused: " + err.Error(), "give the user of rota ~rota:* ~asynq:* &* +@all -@dangerous +info +config|get"}
	}
	for _, key := range []string{"rota:{doctor}", "asynq:{doctor}"} {
		if err := rdb.Exists(ctx, key).Err(); err != nil {
			return Finding{Problem, "rights", "keys like " + key + " are refused: " + err.Error(), "give the user of rota the keys rota:* and asynq:*"}
		}
	}
	return Finding{OK, "rights", "scripts and keys", ""}
}

// refusals are the words by which Redis says that it takes no writes, with what helps.
var refusals = []struct{ word, remedy string }{
	{"READONLY", "name the master: this is a replica"},
	{"NOREPLICAS", "bring the replicas back, or lower min-replicas-to-write"},
	{"OOM", "raise maxmemory, or remove what is not needed"},
	{"MISCONF", "see Redis' log: it can't write to its disk"},
}

// writes writes a key that goes by itself: whatever Redis answers now, it answers rota.
func writes(ctx context.Context, rdb redis.UniversalClient) Finding {
	err := rdb.Set(ctx, "rota:{doctor}", "1", time.Second).Err()
	if err == nil {
		return Finding{OK, "writes", "taken", ""}
	}
	remedy := "give the user of rota the right to write to rota:* and asynq:*"
	for _, r := range refusals {
		if redis.HasErrorPrefix(err, r.word) {
			remedy = r.remedy
		}
	}
	return Finding{Problem, "writes", "they are refused: " + err.Error(), remedy}
}

func shards(ctx context.Context, rdb redis.UniversalClient, cfg config.Config) Finding {
	version, err := rdb.HGet(ctx, "rota:meta", "version").Int()
	if err == nil && version > store.Version {
		return Finding{Problem, "shards", fmt.Sprintf("the stored data is of version %d, this program knows %d", version, store.Version),
			"take the version of rota that the other programs run"}
	}
	stored, err := rdb.HGet(ctx, "rota:meta", "shards").Int()
	switch {
	case errors.Is(err, redis.Nil):
		return Finding{OK, "shards", "a new store: the first program sets them", ""}
	case err != nil:
		return Finding{Problem, "shards", "rota:meta can't be read: " + err.Error(), "is another program's data in this database?"}
	case cfg.Shards != 0 && cfg.Shards != config.DefaultShards && stored != cfg.Shards:
		return Finding{Problem, "shards", fmt.Sprintf("the store has %d, the configuration says %d", stored, cfg.Shards), fmt.Sprintf("set shards: %d; the number of a store never changes", stored)}
	}
	return Finding{OK, "shards", strconv.Itoa(stored), ""}
}

// Services looks for a live worker of each configured service.
func Services(ctx context.Context, rdb redis.UniversalClient, cfg config.Config) []Finding {
	var list []Finding
	if len(cfg.Roles) == 0 {
		return []Finding{{Warning, "roles", "no role is configured here", "name the workers' configuration with --config or ROTA_CONFIG"}}
	}
	if len(cfg.Roles[turns.Arbiter].Services) == 0 {
		list = append(list, Finding{Warning, "roles", "there is no arbiter: a deadlock waits for a person", "add an arbiter under roles"})
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Services)) {
		workers, err := presence.Workers(ctx, rdb, name)
		switch {
		case err != nil:
			list = append(list, Finding{Problem, "service " + name, "can't be looked up: " + err.Error(), "see rights above"})
		case len(workers) == 0:
			list = append(list, Finding{Warning, "service " + name, "no worker serves it", "start `worker --service " + name + "`"})
		default:
			list = append(list, Finding{OK, "service " + name, "served by " + strings.Join(workers, ", "), ""})
		}
	}
	return list
}

func named(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

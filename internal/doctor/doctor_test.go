package doctor

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/internal/config"
	"rota/internal/presence"
	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

func TestSettingsOfARealServer(t *testing.T) {
	ctx := context.Background()
	rdb := redistest.Start(t).Client()
	set := func(name, value string) {
		t.Helper()
		if err := rdb.ConfigSet(ctx, name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(check string, level Level) {
		t.Helper()
		for _, f := range Redis(ctx, rdb, config.Config{Shards: 16}, true) {
			if f.Check == check && f.Level == level {
				if level != OK && f.Remedy == "" {
					t.Fatalf("no remedy: %+v", f)
				}
				return
			}
		}
		t.Fatalf("no %s of level %s in %+v", check, level, Redis(ctx, rdb, config.Config{}, true))
	}
	set("appendonly", "no")
	want("persistence", Problem)
	set("appendonly", "yes")
	set("appendfsync", "no")
	want("persistence", Warning)
	set("appendfsync", "everysec")
	want("persistence", OK)
	set("maxmemory-policy", "allkeys-lru")
	want("eviction", Problem)
	set("maxmemory-policy", "noeviction")
	want("eviction", OK)
	want("version", OK)
	want("clock", OK)
	want("rights", OK)
	want("writes", OK)
	set("min-replicas-to-write", "1")
	want("writes", Problem)
	set("min-replicas-to-write", "0")
	set("maxmemory", "1")
	want("writes", Problem)
	set("maxmemory", "0")
	want("shards", OK)
	rdb.HSet(ctx, "rota:meta", "shards", 8)
	for _, f := range Redis(ctx, rdb, config.Config{Shards: 32}, true) {
		if f.Check == "shards" && f.Level != Problem {
			t.Fatalf("%+v", f)
		}
	}
}

// A store of a newer program is named: a worker that refuses it sends people here.
func TestNewerStore(t *testing.T) {
	ctx, rdb := context.Background(), redistest.Mini(t)
	rdb.HSet(ctx, "rota:meta", "shards", 16, "version", store.Version+1)
	for _, f := range Redis(ctx, rdb, config.Config{}, false) {
		if f.Level == Problem && strings.Contains(f.Text, "version") && f.Remedy != "" {
			return
		}
	}
	t.Fatal("nothing was found")
}

func TestMissingRights(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	if err := server.Client().Do(ctx, "ACL", "SETUSER", "weak", "on", "nopass", "~*", "+@all", "-@scripting").Err(); err != nil {
		t.Fatal(err)
	}
	weak := *server.Client().Options()
	weak.Username, weak.Password = "weak", "any"
	rdb := redis.NewClient(&weak)
	defer rdb.Close()
	for _, f := range Redis(ctx, rdb, config.Config{}, true) {
		if f.Check == "rights" && f.Level == Problem && f.Remedy != "" {
			return
		}
	}
	t.Fatal("nothing was found")
}

func TestOldVersions(t *testing.T) {
	for v, level := range map[string]Level{"6.0.16": Problem, "5.0.7": Problem, "6.2.0": OK, "7.4.1": OK, "8.0.0": OK} {
		if f := version(map[string]string{"redis_version": v}); f.Level != level {
			t.Errorf("%s: %+v", v, f)
		}
	}
}

func TestServices(t *testing.T) {
	ctx := context.Background()
	rdb := redistest.Mini(t)
	cfg := config.Config{Services: map[string]config.Service{"a": {}, "b": {}}, Roles: map[turns.Role]config.RoleConfig{turns.Owner: {Services: []string{"a"}}}}
	if err := presence.Announce(ctx, rdb, "a", "w1"); err != nil {
		t.Fatal(err)
	}
	list := Services(ctx, rdb, cfg)
	if len(list) != 3 || list[0].Level != Warning || list[1].Level != OK || list[2].Level != Warning || Worst(list) != Warning {
		t.Fatalf("%+v", list)
	}
	if list := Services(ctx, rdb, config.Config{}); Worst(list) != Warning {
		t.Fatalf("%+v", list)
	}
}

// One cause is one finding.
func TestARedisThatIsAwayOrRefusesTheLogin(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	locked := *server.Client().Options()
	if err := server.Client().ConfigSet(ctx, "requirepass", "sk-fake-not-a-secret").Err(); err != nil {
		t.Fatal(err)
	}
	for want, options := range map[string]*redis.Options{
		"it can't be reached: ":  {Addr: "127.0.0.1:1"},
		"it refuses the login: ": &locked,
	} {
		rdb := redis.NewClient(options)
		defer rdb.Close()
		list := Redis(ctx, rdb, config.Config{}, true)
		if len(list) != 1 || list[0].Level != Problem || list[0].Check != "redis" || !strings.HasPrefix(list[0].Text, want) || list[0].Remedy == "" {
			t.Errorf("%+v, want one that says %q", list, want)
		}
	}
}

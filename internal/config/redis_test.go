package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestRedisClientSingle(t *testing.T) {
	for _, tt := range []struct {
		url, network, addr, user, password string
		db                                 int
		tls                                bool
	}{
		{"redis://127.0.0.1:6379/0", "tcp", "127.0.0.1:6379", "", "", 0, false},
		{"redis://host", "tcp", "host:6379", "", "", 0, false},
		{"redis://:fakepw@host:1/2", "tcp", "host:1", "", "fakepw", 2, false},
		{"rediss://me:fakepw@host:1/2", "tcp", "host:1", "me", "fakepw", 2, true},
		{"redis://me:fake%2Fpw@[::1]:1", "tcp", "[::1]:1", "me", "fake/pw", 0, false},
		{"unix:///run/redis.sock?db=3", "unix", "/run/redis.sock", "", "", 3, false},
	} {
		c, err := RedisClient(tt.url)
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		o := c.(*redis.Client).Options()
		if o.Network != tt.network || o.Addr != tt.addr || o.Username != tt.user || o.Password != tt.password || o.DB != tt.db || (o.TLSConfig != nil) != tt.tls {
			t.Errorf("%s: %s %s user %q db %d tls %t", tt.url, o.Network, o.Addr, o.Username, o.DB, o.TLSConfig != nil)
		}
		if o.DialTimeout != dialTimeout || o.ReadTimeout != ioTimeout || !o.ContextTimeoutEnabled {
			t.Errorf("%s: times %v, %v", tt.url, o.DialTimeout, o.ReadTimeout)
		}
		_ = c.Close()
	}
}

func TestRedisClientCluster(t *testing.T) {
	c, err := RedisClient("rediss-cluster://me:fake@pw@a:1,b,[::1]:3")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := c.(*redis.ClusterClient).Options()
	if !slices.Equal(o.Addrs, []string{"a:1", "b:6379", "[::1]:3"}) || o.Username != "me" || o.Password != "fake@pw" || o.TLSConfig == nil {
		t.Errorf("%v, user %q, tls %t", o.Addrs, o.Username, o.TLSConfig != nil)
	}
}

func TestRedisClientSentinel(t *testing.T) {
	c, err := RedisClient("redis-sentinel://me:fakepw@a:1,b/main/4")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := c.(*redis.Client).Options()
	if o.Addr != "FailoverClient" || o.Username != "me" || o.Password != "fakepw" || o.DB != 4 {
		t.Errorf("%s, user %q, db %d", o.Addr, o.Username, o.DB)
	}
}

func TestRedisClientRefuses(t *testing.T) {
	for _, u := range []string{
		"", "localhost:6379", "http://x", "redis://:fakepw@host:port/0", "redis://:fake pw@h:x y", "redis://h:1/many", "redis://:fakepw@h:1/0?nonsense=1",
		"redis-sentinel://:fakepw@h:1", "redis-sentinel://h:1/", "redis-sentinel://h:1/m/x", "redis-sentinel:///m", "redis-sentinel://:fakepw%zz@h/m",
		"redis-cluster://", "redis-cluster://:fakepw@a:1,,b", "redis-cluster://a:1/2", "redis-cluster://a:99999", "redis-cluster://:fakepw@a b",
	} {
		c, err := RedisClient(u)
		if err == nil {
			t.Errorf("%q was accepted", u)
			_ = c.Close()
			continue
		}
		if strings.Contains(err.Error(), "fake") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", u, err)
		}
	}
}

func FuzzParseRedis(f *testing.F) {
	for _, s := range []string{"redis://a:b@c:1/2", "redis-sentinel://a,b/m/1", "redis-cluster://[::1]:1", "unix:///x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if _, err := parseRedis(s); err != nil && (len(err.Error()) > 300 || strings.Contains(err.Error(), "\n")) {
			t.Fatalf("%q: %v", s, err)
		}
	})
}

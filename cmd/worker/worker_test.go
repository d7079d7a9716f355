package main

import (
	"io"
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"":                         "--embedded",
		"--service own --embedded": "--embedded",
		"--service own --log xml":  "text or json",
		"--embedded --redis redis://127.0.0.1:1/0": "hint: leave one of them out",
		"--service own --nosuch":                   "--help",
		"nosuch":                                   "--help",
	} {
		var said strings.Builder
		if code := New(io.Discard, &said).Run(t.Context(), strings.Fields(args)); code != exitUsage || !strings.Contains(said.String(), want) {
			t.Errorf("worker %s: exit %d: %s", args, code, said.String())
		}
	}
}

// The name of a store never has its login, and two stores never share a name: it
// tells which left-over agents are a worker's own.
func TestRedisName(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://127.0.0.1:6379/0":                         "redis://127.0.0.1:6379/0",
		"redis://user:fake-secret@db:6379/3?protocol=3":    "redis://db:6379/3",
		"redis://:fake%2Fsecret@db:6379":                   "redis://db:6379",
		"redis-cluster://user:1/fake-secret@a:1,b:2":       "redis-cluster://a:1,b:2",
		"redis-cluster://user:fake#secret@a:1,b:2":         "redis-cluster://a:1,b:2",
		"redis-sentinel://user:fake@secret@a:1,b:2/main/0": "redis-sentinel://a:1,b:2/main/0",
		"unix://user:fake-secret@/var/run/redis.sock?db=2": "unix:///var/run/redis.sock",
		"no address": "the configured address",
	} {
		if got := redisName(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
	if deployment("redis-cluster://u:a/b@a:1,b:2") == deployment("redis-cluster://u:a/b@c:1,d:2") {
		t.Error("two stores are one deployment")
	}
}

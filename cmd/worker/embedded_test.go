package main

import (
	"bytes"
	"log/slog"
	"os/exec"
	"strings"
	"testing"

	"rota/internal/config"
	"rota/internal/doctor"
)

// With every write on disk nothing is forgotten by a restart, and so nothing has to
// wait for a lease after it.
func TestEmbeddedStoreKeepsEveryWrite(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server on the PATH")
	}
	e, err := startRedis(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer e.stop()
	rdb, err := config.RedisClient(e.url)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	if got := rdb.ConfigGet(t.Context(), "appendfsync").Val()["appendfsync"]; got != "always" {
		t.Errorf("appendfsync %q", got)
	}
	for _, f := range doctor.Redis(t.Context(), rdb, config.Config{}, true) {
		if f.Level != doctor.OK {
			t.Errorf("the doctor finds %+v", f)
		}
	}
}

// A Redis that is configured beside --embedded is the one that enqueue takes.
func TestEmbeddedSaysThatTheConfiguredRedisIsNotUsed(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, named := range []bool{true, false} {
		var out bytes.Buffer
		cfg := config.Config{Data: t.TempDir(), Redis: "redis://db:6379/0", RedisExplicit: named}
		e, err := startEmbedded(t.Context(), cfg, slog.New(slog.NewTextHandler(&out, nil)))
		if err != nil {
			t.Fatal(err)
		}
		e.stop()
		if got := strings.Contains(out.String(), "--embedded does not use it") && strings.Contains(out.String(), "configured=redis://db:6379/0"); got != named {
			t.Errorf("configured %t: %s", named, out.String())
		}
	}
}

package main

import (
	"log/slog"
	"os/exec"
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

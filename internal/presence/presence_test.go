package presence_test

import (
	"context"
	"testing"
	"time"

	"rota/internal/presence"
	"rota/internal/redistest"
)

func TestPresenceEnds(t *testing.T) {
	ctx := context.Background()
	mini, rdb := redistest.MiniServer(t)
	now := time.Now()
	mini.SetTime(now)
	if err := presence.Announce(ctx, rdb, "claude", "w1"); err != nil {
		t.Fatal(err)
	}
	if ok, err := presence.Served(ctx, rdb, "claude"); err != nil || !ok {
		t.Fatal(ok, err)
	}
	mini.SetTime(now.Add(presence.Life + time.Second))
	if ok, err := presence.Served(ctx, rdb, "claude"); err != nil || ok {
		t.Fatal("still present", err)
	}
	mini.SetTime(now)
	if err := presence.Announce(ctx, rdb, "claude", "w2"); err != nil {
		t.Fatal(err)
	}
	if err := presence.Leave(ctx, rdb, "claude", "w2"); err != nil {
		t.Fatal(err)
	}
	if names, err := presence.Workers(ctx, rdb, "claude"); err != nil || len(names) != 1 || names[0] != "w1" {
		t.Fatal(names, err)
	}
}

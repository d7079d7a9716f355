package credentials

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
)

// A login asked for before there is a run is the one that Pick would choose, and only
// while nothing rests: it takes no probe, and leaves the order of use alone then.
func TestAhead(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb)
		ctx := context.Background()
		ahead := func(service string) (Choice, bool) {
			t.Helper()
			a := f.Ahead(ctx, service, turns.NewToken())
			if a == nil {
				return Choice{}, false
			}
			_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Get(ctx, "nothing")
				a.Along(p)
				return nil
			})
			return a.Choice()
		}
		if _, ok := ahead("claude"); ok {
			t.Error("chosen although Redis did not know the script")
		}
		first := f.take("claude") // loads the script
		second, ok := ahead("claude")
		if !ok || second.Credential == first.Credential || second.Probe || second.Picked.Before(first.Picked) {
			t.Fatalf("%+v %v after %+v", second, ok, first)
		}
		if env, err := second.Load(ctx); err != nil || len(env) == 0 {
			t.Errorf("its login: %v %v", env, err)
		}
		if third := f.take("claude"); third.Credential != first.Credential {
			t.Errorf("%s was used last and is chosen again", third.Credential)
		}
		if own, ok := ahead("own"); !ok || own.Credential == "" {
			t.Errorf("the program's own login: %+v %v", own, ok)
		}
		if _, ok := ahead("nowhere"); ok {
			t.Error("chosen for a service that does not exist")
		}

		f.fail(second, unauthorized)
		used, err := rdb.ZRangeWithScores(ctx, usedKey, 0, -1).Result()
		must(t, err)
		if c, ok := ahead("claude"); ok {
			t.Errorf("%+v was chosen while a login rests: that is for Pick", c)
		}
		after, err := rdb.ZRangeWithScores(ctx, usedKey, 0, -1).Result()
		must(t, err)
		if !slices.Equal(used, after) {
			t.Errorf("the order of use changed from %v to %v", used, after)
		}
		if prober, err := rdb.HGet(ctx, restKey("credential/"+second.Credential), "prober").Result(); err == nil && prober != "" {
			t.Errorf("a probe was taken by %q", prober)
		}
	})
}

// Where more than a look is needed, only Pick can choose.
func TestNothingAhead(t *testing.T) {
	rdb := redistest.Mini(t)
	c, err := New(rdb, Config{
		Services: map[string]Service{
			"printed":  {Agent: "claude", Credentials: []string{"command"}},
			"unloaded": {Agent: "claude", Credentials: []string{"missing"}},
		},
		Credentials: map[string]Source{"command": {Command: []string{"echo", secret}}, "missing": {File: t.TempDir() + "/none"}},
	})
	must(t, err)
	for _, service := range []string{"printed", "unloaded"} {
		if c.Ahead(t.Context(), service, "run") != nil {
			t.Errorf("%s: chosen ahead", service)
		}
	}
	if _, err := c.Pick(t.Context(), "printed", "run"); err != nil {
		t.Fatal(err)
	}
	if c.Ahead(t.Context(), "printed", "run") == nil {
		t.Error("what a command printed a moment ago has to be asked for again")
	}
}

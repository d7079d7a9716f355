package store

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Scripts are the embedded scripts by name, for tests that aim at one of them.
var Scripts = func() map[string]*redis.Script {
	scripts := map[string]*redis.Script{}
	entries, err := scriptFiles.ReadDir("scripts")
	if err != nil {
		panic(err)
	}
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), ".lua"); ok {
			scripts[name] = redis.NewScript(source(name))
		}
	}
	return scripts
}()

// The bounds of closing, for tests that cross them.
const (
	CloseAtOnce = closeAtOnce
	SweepStep   = sweepStep
	MaxAsks     = maxAsks
)

// LookQuickly makes Verify look again without a pause, where nothing moves.
func LookQuickly(t *testing.T) {
	before := looks
	looks = []time.Duration{0}
	t.Cleanup(func() { looks = before })
}

// Key spells a key as the store does, for tests that corrupt or count it.
func (s *Store) Key(kind, id string) string {
	k := s.of(id)
	switch kind {
	case "outbox", "leases", "open", "threads", "ended", "sweeps", "due", "clock", "stream":
		return k.tag + kind
	case "items", "links", "live":
		return map[string]func(string) string{"items": k.items, "links": k.links, "live": k.live}[kind](id)
	}
	return k.tag + kind + ":" + id
}

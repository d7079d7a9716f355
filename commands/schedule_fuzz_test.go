package commands

import (
	"testing"
	"time"
)

// FuzzTicks reads any schedule in any zone: it refuses or gives ticks that lie in
// the future and go forward, so that a schedule never fires twice for one tick and
// counting missed ticks comes to an end.
func FuzzTicks(f *testing.F) {
	for _, spec := range []string{"0 7 * * 1-5", "@every 2h", "@daily", "*/5 * * * *", "30 2 29 2 *", "0 0 31 2 *", "@every 1ns", "@every -1h", "", "TZ=UTC 0 0 * * *", "0 2 * * SUN"} {
		for _, zone := range []string{"", "Europe/Berlin", "America/Lord_Howe", "Nowhere/Land"} {
			f.Add(spec, zone, int64(1_774_746_000))
		}
	}
	f.Fuzz(func(t *testing.T, spec, zone string, unix int64) {
		unix = unix % 4_000_000_000
		ticks, err := schedule{Spec: spec, Zone: zone}.ticks()
		if err != nil {
			return
		}
		now := time.Unix(unix, 0)
		for range 3 {
			next := ticks(now)
			if next.IsZero() {
				return // it has no further tick
			}
			if !next.After(now) {
				t.Fatalf("%q in %q: after %s comes %s", spec, zone, now, next)
			}
			now = next
		}
	})
}

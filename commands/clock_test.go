package commands_test

import (
	"testing"
	"time"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
)

// Whoever carries a command out may have a clock that is minutes off: what is
// stored for later is due by Redis' clock, and a hold lives by it.
func TestAWrongClockChangesNothing(t *testing.T) {
	for name, off := range map[string]time.Duration{"behind": 5 * time.Minute, "ahead": -5 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			server, rdb := redistest.MiniServer(t)
			d := newDesk(t, rdb)
			now := time.Now().Add(off) // Redis' time, by the clock of this process
			server.SetTime(now)

			d.must(d.c.Later(d.ctx, commands.Order{Thread: "soon", Text: "do it", Role: turns.Owner}, now.Add(time.Minute)))
			id := d.planned()[0].ID
			if f := d.fire(id); f.Turn != "" {
				t.Errorf("%s was opened a minute too early", f.Turn)
			}
			server.SetTime(now.Add(time.Minute + time.Second))
			if f := d.fire(id); f.Turn != "soon/1" {
				t.Errorf("a second after its time: %+v", f)
			}

			d.claim("soon")
			if _, err := d.c.Rollback(d.ctx, "k", "soon", "1"); commands.KindOf(err) != commands.Conflict {
				t.Errorf("a rollback under an agent: %v", err)
			}
		})
	}
}

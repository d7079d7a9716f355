package model

import (
	"strings"
	"testing"
)

// hunts are small explorations, each for one kind of trouble.
var hunts = []Bound{
	{Name: "no fault"},
	{Name: "kills", Faults: 1, Kinds: Kill | Stop | CutLink},
	{Name: "writes", Faults: 1, Kinds: LostReply | TwiceWrite | LateWrite},
	{Name: "asynq", Faults: 1, Kinds: LostTask | DoubleTask | WrongQueue | DeadTask | TakenTask},
	{Name: "failover", Faults: 1, Kinds: Failover},
	{Name: "hand", Faults: 1, Kinds: HandInStore},
	{Name: "person", Ops: 1},
	{Name: "person, twice", Ops: 1, Faults: 1, Kinds: TwiceWrite, Cmds: Retry},
}

// TestMutations takes each guard away and wants to see it missed.
func TestMutations(t *testing.T) {
	for m := None + 1; m < mutations; m++ {
		t.Run(strings.ReplaceAll(m.String(), " ", "-"), func(t *testing.T) {
			for _, b := range hunts {
				b.States = 120_000
				if r := Explore(b, m); r.Broken != "" && !strings.HasPrefix(r.Broken, tooMany) {
					t.Logf("%s: after %d states, %d steps: %s", b.Name, r.States, len(r.Trace), strings.SplitN(r.Broken, "\n", 2)[0])
					return
				}
			}
			t.Errorf("%q survives: nothing notices that the guard is gone", m)
		})
	}
}

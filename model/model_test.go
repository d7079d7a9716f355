package model

import (
	"os"
	"testing"
)

// bounds are what every run of the tests explores to the end.
var bounds = append([]Bound{
	{Name: "a kill and a cancel", Faults: 1, Kinds: Kill | KillBoth, Ops: 1, Cmds: Cancel},
}, hunts...)

// wide are explored too with ROTA_MODEL=wide: minutes, and a gigabyte or two.
var wide = []Bound{
	{Name: "a person twice", Ops: 2},
	{Name: "two faults of asynq or a failover", Faults: 2, Kinds: LostTask | DoubleTask | WrongQueue | DeadTask | TakenTask | Failover},
	{Name: "two kills", Faults: 2, Kinds: Kill | KillBoth},
}

// TestInvariantsHold visits every state within the bounds: the ten invariants hold
// in each, and without further faults every path comes to an end.
func TestInvariantsHold(t *testing.T) {
	list := bounds
	if os.Getenv("ROTA_MODEL") == "wide" {
		list = append(list, wide...)
	}
	states := 0
	for _, b := range list {
		r := Explore(b, None)
		if r.Broken != "" {
			t.Fatalf("%s: %s", b.Name, r)
		}
		t.Logf("%s: %s", b.Name, r)
		states += r.States
	}
	t.Logf("%d states in all", states)
}

// TestWindowAfterFailover shows why a claim must notice by itself that Redis is
// another server: between a failover and the first pass, a claim that was lost with
// the old server leaves an agent that no hold stands for.
func TestWindowAfterFailover(t *testing.T) {
	r := Explore(Bound{Faults: 1, Kinds: Failover, Window: true}, None)
	if r.Broken == "" {
		t.Fatalf("nothing found: %s", r)
	}
	t.Log(r)
}

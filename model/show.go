package model

import (
	"fmt"
	"strings"
)

// String is a state as a counterexample shows it.
func (s *state) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  paired %s, open %d, hold %d over %v, fence %d, messages %d, amnesty %v, held %v, other %v\n",
		statusOf[s.Store.Status], s.Store.Open, s.Store.Hold, s.Store.Over, s.Store.Fence, s.Store.Messages, s.Store.Amnesty, s.Store.Held, s.Other)
	for t := uint8(1); t <= s.Store.Counter; t++ {
		u := s.turn(t)
		fmt.Fprintf(&b, "  turn %d %s %s %s\n", t, roleOf[u.Role], intentOf[u.Intent], stateOf[u.State])
		for n := uint8(1); n <= u.Attempt; n++ {
			a := s.attempt(t, n)
			fmt.Fprintf(&b, "    %d.%d %s on %s: run %d fence %d deliveries %d box %d lease %v tasks %v\n",
				t, n, stateOf[a.State], serviceOf[a.Service], a.Run, a.Fence, a.Deliveries, a.Box, a.Lease, s.Tasks[t-1][n-1])
		}
	}
	for i := range s.Workers {
		if w := &s.Workers[i]; w.PC != pcIdle {
			fmt.Fprintf(&b, "  worker %+v\n", *w)
		}
	}
	for i := range s.Guards {
		if g := &s.Guards[i]; g.Turn != 0 {
			fmt.Fprintf(&b, "  orphan guard %+v\n", *g)
		}
	}
	if s.Flight.Verb != 0 {
		fmt.Fprintf(&b, "  on its way %+v\n", s.Flight)
	}
	return b.String()
}

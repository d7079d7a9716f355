package model

// timeSteps are what happens because time passes.
func (m *model) timeSteps(pre *state) {
	if pre.Store.Hold != 0 && !pre.Store.Over && m.m != LeaseNeverExpires && !m.renewed(pre, pre.Store.Hold) {
		x := m.begin(pre, "time", "the lease and hold run out")
		x.s.Store.Over, x.kind = true, "expire"
		for i := range x.s.Workers {
			if w := &x.s.Workers[i]; w.Fence == pre.Store.Hold {
				w.Late = true
			}
		}
		m.emit(x)
	}
	if pre.Store.Amnesty && m.m != HoldNeverExpires && !m.ghostAlive(pre) {
		x := m.begin(pre, "time", "the amnesty ends")
		x.s.Store.Amnesty, x.s.Store.Held, x.kind = false, false, "pardon"
		for i := range x.s.Workers {
			if w := &x.s.Workers[i]; w.Ghost {
				w.Late = true
			}
		}
		m.emit(x)
	}
}

// renewed reports whether a fence's lease or hold can't run out now: somebody
// renews it, or an agent lives that would be ended before.
func (m *model) renewed(s *state, fence uint8) bool {
	for i := range s.Workers {
		w := &s.Workers[i]
		if w.Fence != fence || w.PC < pcClaimed {
			continue
		}
		renews := !w.Paused && w.PC <= pcRelease && !(w.PC == pcEnded && w.Outcome == outLost)
		if renews || w.Agent == agentAlive {
			return true
		}
	}
	for i := range s.Guards {
		if g := &s.Guards[i]; g.Fence == fence && g.Agent == agentAlive {
			return true
		}
	}
	return false
}

func (m *model) ghostAlive(s *state) bool {
	for i := range s.Workers {
		if w := &s.Workers[i]; w.Ghost && !w.Late && w.Agent == agentAlive {
			return true
		}
	}
	for i := range s.Guards {
		if g := &s.Guards[i]; g.Ghost && g.Agent == agentAlive {
			return true
		}
	}
	return false
}

package model

import (
	"fmt"
	"strings"

	"rota/turns"
)

// Result is what an exploration came to.
type Result struct {
	States int
	Steps  int
	Ends   int    // states in which everything has come to its end
	Broken string // what is broken, "" for nothing
	Trace  []string
}

// String is a counterexample, or the size of what was seen.
func (r Result) String() string {
	if r.Broken == "" {
		return fmt.Sprintf("%d states, %d steps, %d ends", r.States, r.Steps, r.Ends)
	}
	return fmt.Sprintf("%s\nafter %d states, by\n  %s", r.Broken, r.States, strings.Join(r.Trace, "\n  "))
}

// Explore visits every state that can be reached within the bound, breadth first,
// and stops at the first that is broken, with the shortest way to it.
func Explore(b Bound, mutation Mutation) Result {
	if b.States == 0 {
		b.States = 20_000_000
	}
	m := &model{bound: b, m: mutation, j: newJudge()}
	e := &explorer{m: m, seen: map[uint64]uint32{}}
	first := initial(b)
	first.canonical()
	e.visit(first, none, 0)
	for at := 0; at < len(e.queue) && e.result.Broken == ""; at++ {
		e.expand(uint32(at))
		if len(e.queue) > b.States {
			e.result.Broken = fmt.Sprintf("%s %d states", tooMany, b.States)
		}
	}
	if e.result.Broken == "" {
		e.liveness()
	}
	e.result.States = len(e.parent)
	return e.result
}

// initial is a thread with a paired task whose owner's turn was just opened.
func initial(b Bound) state {
	s := state{Faults: uint8(b.Faults), Ops: uint8(b.Ops)}
	s.Store.Status = numberOf(statusOf, turns.Active)
	s.Store.Turned = 1
	x := scripts{s: &s}
	x.writeTurn(numberOf(roleOf, turns.Owner), numberOf(intentOf, turns.Work), boxDue)
	return s
}

// tooMany begins the text of an exploration that was not finished.
const tooMany = "more than"

const none = ^uint32(0)

type explorer struct {
	m      *model
	seen   map[uint64]uint32
	queue  []*state // dropped once expanded
	parent []uint32
	nth    []uint16 // the step of the parent that led here
	calm   [][]uint32
	result Result
}

// visit notes a state and returns its number.
func (e *explorer) visit(s state, parent uint32, nth int) uint32 {
	h := s.hash()
	if id, ok := e.seen[h]; ok {
		return id
	}
	id := uint32(len(e.parent))
	e.seen[h] = id
	kept := s
	e.queue = append(e.queue, &kept)
	e.parent = append(e.parent, parent)
	e.nth = append(e.nth, uint16(nth))
	e.calm = append(e.calm, nil)
	return id
}

// expand makes every step of a state and checks where it leads.
func (e *explorer) expand(id uint32) {
	pre := e.queue[id]
	e.queue[id] = nil
	n, free := 0, 0
	var calm []uint32
	e.m.out = func(x *step) {
		if e.result.Broken != "" {
			return
		}
		e.result.Steps++
		bad := x.bad
		if bad == "" {
			bad = e.m.check(&x.s)
		}
		if bad != "" {
			e.broken(id, n, bad)
			return
		}
		next := x.s
		next.canonical()
		to := e.visit(next, id, n)
		n++
		if !x.fault && !x.act {
			free++
			calm = append(calm, to)
		}
	}
	e.m.steps(pre)
	e.calm[id] = calm
	if free == 0 && e.result.Broken == "" {
		e.result.Ends++
		if bad := checkRest(pre); bad != "" {
			e.broken(id, -1, bad)
		}
	}
}

// liveness: without faults and commands no path goes in a circle. Together with
// checkRest this says that every path comes to an end of every turn.
func (e *explorer) liveness() {
	degree := make([]uint32, len(e.calm))
	for _, next := range e.calm {
		for _, to := range next {
			degree[to]++
		}
	}
	var ready []uint32
	for id, d := range degree {
		if d == 0 {
			ready = append(ready, uint32(id))
		}
	}
	done := 0
	for ; len(ready) > 0; done++ {
		id := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, to := range e.calm[id] {
			if degree[to]--; degree[to] == 0 {
				ready = append(ready, to)
			}
		}
	}
	if done == len(degree) {
		return
	}
	for id, d := range degree {
		if d > 0 {
			e.broken(e.circle(uint32(id), degree), -1, "invariant 10: a path without faults goes in a circle")
			return
		}
	}
}

// circle finds a state that is on a circle, not only behind one.
func (e *explorer) circle(id uint32, degree []uint32) uint32 {
	before := map[uint32]uint32{}
	for from, next := range e.calm {
		if degree[from] > 0 {
			for _, to := range next {
				if degree[to] > 0 {
					before[to] = uint32(from)
				}
			}
		}
	}
	been := map[uint32]bool{}
	for !been[id] {
		been[id] = true
		id = before[id]
	}
	return id
}

// broken tells the way to a state, with its nth step more if that is not negative.
func (e *explorer) broken(id uint32, nth int, bad string) {
	var way []uint16
	if nth >= 0 {
		way = append(way, uint16(nth))
	}
	for at := id; e.parent[at] != none; at = e.parent[at] {
		way = append([]uint16{e.nth[at]}, way...)
	}
	s := initial(e.m.bound)
	s.canonical()
	replay := &model{bound: e.m.bound, m: e.m.m, j: e.m.j}
	for _, n := range way {
		var taken *step
		i := 0
		replay.out = func(x *step) {
			if i == int(n) {
				taken = x
			}
			i++
		}
		replay.steps(&s)
		if taken == nil {
			e.result.Trace = append(e.result.Trace, "(a step that can't be replayed)")
			break
		}
		e.result.Trace = append(e.result.Trace, taken.String())
		s = taken.s
		s.canonical()
	}
	e.result.Broken = bad + "\n" + s.String()
}

package web

import (
	"fmt"
	"math"
	"slices"
	"time"

	"rota/commands"
	"rota/turns"
)

// Sizes of the timeline, in pixels.
const (
	lanesRoom = 880 // what a desktop leaves to the lanes
	laneMost  = 210
	laneLeast = 164
	laneGap   = 8
	barHeight = 24
	barStep   = 36
	barTop    = 8
)

// timeline is turns as rows and their attempts as bars on lanes, one lane a
// service, drawn from top to bottom in the order things happened.
type timeline struct {
	Lanes []lane
	Width int
	Lane  int       // width of one lane
	Rows  []turnRow // oldest first
	Now   time.Time
}

type lane struct {
	Service string
	X       int
}

// turnRow is one turn with what its attempts look like.
type turnRow struct {
	Turn   turns.Turn
	Height int
	Bars   []bar
	Arrows []arrow
	Dead   string // how it became a dead letter; empty when it did not
	Losses int
}

// bar is one attempt.
type bar struct {
	Attempt turns.Attempt
	X, Y, W int
	Fill    int    // width of the part that stands for its length of time
	Word    string // what became of it
	Mark    string // the sign in front of it
	Kind    string // class of its looks
	Took    time.Duration
	Since   time.Time // of a live one: its length of time counts on
	Title   string
}

// End is where its length of time is written.
func (b bar) End() int { return b.W - 8 }

// arrow leads from an attempt to its successor: a handoff to another lane, or
// the next attempt on the same one.
type arrow struct {
	Path  string
	Kind  string // handoff, lost or next
	Title string
}

// lay draws turns with their attempts. Services that are known come first, in
// their order.
func lay(known []string, list []turns.Turn, attempts map[string][]turns.Attempt, now time.Time) timeline {
	tl := timeline{Now: now}
	x := map[string]int{}
	order := laneOrder(known, list, attempts)
	tl.Lane = max(laneLeast, min(laneMost, lanesRoom/max(1, len(order))-laneGap))
	for i, service := range order {
		x[service] = i*(tl.Lane+laneGap) + laneGap
		tl.Lanes = append(tl.Lanes, lane{service, x[service]})
	}
	tl.Width = len(order)*(tl.Lane+laneGap) + laneGap
	for _, t := range list {
		tl.Rows = append(tl.Rows, layTurn(t, attempts[t.ID], x, tl.Lane, now))
	}
	return tl
}

func laneOrder(known []string, list []turns.Turn, attempts map[string][]turns.Attempt) []string {
	used := map[string]bool{}
	var others []string
	for _, t := range list {
		for _, a := range attempts[t.ID] {
			if !used[a.Service] && !slices.Contains(known, a.Service) {
				others = append(others, a.Service)
			}
			used[a.Service] = true
		}
	}
	order := slices.DeleteFunc(slices.Clone(known), func(s string) bool { return !used[s] })
	return append(order, others...)
}

func layTurn(t turns.Turn, attempts []turns.Attempt, x map[string]int, width int, now time.Time) turnRow {
	row := turnRow{Turn: t, Height: max(1, len(attempts))*barStep + barTop/2}
	for i, a := range attempts {
		row.Bars = append(row.Bars, layBar(a, x[a.Service], barTop+i*barStep, width, now))
		if how := commands.DeadLetter(a); how != "" {
			row.Dead = how
		}
		if a.State == turns.Lost {
			row.Losses++
		}
	}
	for i := 1; i < len(row.Bars); i++ {
		row.Arrows = append(row.Arrows, layArrow(row.Bars[i-1], row.Bars[i]))
	}
	return row
}

func layBar(a turns.Attempt, x, y, width int, now time.Time) bar {
	b := bar{Attempt: a, X: x, Y: y, W: width, Took: took(a, now)}
	b.Word, b.Mark, b.Kind = looks(a)
	// The logarithm shows milliseconds and hours in one picture.
	part := math.Log1p(b.Took.Seconds()*10) / math.Log1p((2*time.Hour).Seconds()*10)
	b.Fill = min(width, max(3, int(part*float64(width))))
	if a.State.Open() {
		b.Since = now.Add(-b.Took)
	}
	b.Title = fmt.Sprintf("%s on %s: %s, opened by %s", a.ID, a.Service, a.State, a.Cause)
	if a.Error != "" {
		b.Title += "\n" + clip(a.Error, 300)
	}
	return b
}

// looks says in a word what became of an attempt, with a sign that needs no colour.
func looks(a turns.Attempt) (word, mark, kind string) {
	class := string(a.Class)
	switch {
	case commands.DeadLetter(a) != "":
		return "dead letter", "✕", "dead"
	case a.State == turns.Completed:
		return "completed", "✓", "completed"
	case a.State == turns.Delegated:
		return orElse(class, "handed off"), "↪", "delegated"
	case a.State == turns.Lost:
		return "lost", "⚡", "lost"
	case a.State == turns.Failed:
		return orElse(class, "failed"), "✕", "failed"
	case a.State == turns.Cancelled:
		return "cancelled", "–", "cancelled"
	case a.State == turns.Queued && a.Cause == turns.CauseWait:
		return "waits", "◷", "queued"
	case a.State == turns.Queued:
		return "queued", "○", "queued"
	case a.State == turns.Starting:
		return "starting", "◔", "starting"
	}
	return "running", "●", "running"
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// layArrow leads out of the side of a bar and down to its successor in another
// lane, or straight down in the same one.
func layArrow(from, to bar) arrow {
	a := arrow{Kind: "next", Title: fmt.Sprintf("%s → %s: %s", numberOf(from.Attempt.ID), numberOf(to.Attempt.ID), to.Attempt.Cause)}
	if from.Attempt.State == turns.Lost {
		a.Kind = "lost"
	}
	end := to.Y - 2
	if from.X == to.X {
		a.Path = fmt.Sprintf("M%d %dV%d", from.X+16, from.Y+barHeight, end)
		return a
	}
	a.Kind = "handoff"
	a.Title = fmt.Sprintf("handed from %s to %s", from.Attempt.Service, to.Attempt.Service)
	side, x, bend := from.X+from.W, to.X+16, 8
	if to.X < from.X {
		side, x, bend = from.X, to.X+to.W-16, -8
	}
	middle := from.Y + barHeight/2
	a.Path = fmt.Sprintf("M%d %dH%dQ%d %d %d %dV%d", side, middle, x-bend, x, middle, x, middle+8, end)
	return a
}

package main

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// line is one line of a graph: its points by the number on the x axis.
type line struct {
	name   string
	points map[int]spread
}

// The size of one graph, and the room around its lines.
const (
	graphWidth, graphHeight = 340.0, 220.0
	left, right, top, foot  = 52.0, 14.0, 34.0, 34.0
)

var colours = []string{"#2563eb", "#d97706", "#059669"}

// graphs draws one graph of rounds per second by workers, by nodes and by stored
// turns, and one of the pass.
func (r *report) graphs() string {
	rate := func(v growthRun) float64 { return v.Rate }
	pass := func(v growthRun) float64 { return v.Pass }
	charts := []string{
		graph("rounds/s by worker processes", r.lines("workers", rate)),
		graph("rounds/s by Redis nodes", r.lines("nodes", rate)),
		graph("rounds/s by stored open turns", r.lines("stored", rate)),
		graph("ms of Redis' time for a pass, by stored open turns", r.lines("stored", pass)),
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="11">`+"\n", 2*graphWidth, 2*graphHeight)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="#ffffff"/>`+"\n", 2*graphWidth, 2*graphHeight)
	for i, chart := range charts {
		fmt.Fprintf(&b, `<g transform="translate(%.0f %.0f)">`+"\n%s</g>\n", float64(i%2)*graphWidth, float64(i/2)*graphHeight, chart)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (r *report) lines(what string, of func(growthRun) float64) []line {
	all := map[string]map[int][]float64{}
	var names []string
	for _, v := range r.Growth {
		if v.What != what {
			continue
		}
		if all[v.Peer] == nil {
			all[v.Peer] = map[int][]float64{}
			names = append(names, v.Peer)
		}
		all[v.Peer][v.Number] = append(all[v.Peer][v.Number], of(v))
	}
	var lines []line
	for _, name := range names {
		l := line{name, map[int]spread{}}
		for n, values := range all[name] {
			l.points[n] = spreadOf(values)
		}
		lines = append(lines, l)
	}
	return lines
}

// graph draws lines with the range of each point; x is spaced by its order, y
// begins at zero.
func graph(title string, lines []line) string {
	var xs []int
	most := 0.0
	for _, l := range lines {
		for x, p := range l.points {
			xs = append(xs, x)
			most = math.Max(most, p.High)
		}
	}
	sort.Ints(xs)
	xs = slices.Compact(xs)
	place := map[int]float64{}
	for i, x := range xs {
		place[x] = float64(i)
	}
	step := (graphWidth - left - right) / math.Max(1, float64(len(place)))
	px := func(x int) float64 { return left + step*(place[x]+0.5) }
	py := func(v float64) float64 {
		return graphHeight - foot - (graphHeight-top-foot)*v/math.Max(most, 1e-9)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<text x="%.0f" y="16" font-weight="bold">%s</text>`+"\n", left, title)
	for i := range 5 {
		v := most * float64(i) / 4
		fmt.Fprintf(&b, `<line x1="%.0f" y1="%.1f" x2="%.0f" y2="%.1f" stroke="#e5e7eb"/><text x="%.0f" y="%.1f" text-anchor="end" fill="#555">%s</text>`+"\n",
			left, py(v), graphWidth-right, py(v), left-5, py(v)+4, short(v))
	}
	for _, x := range xs {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.0f" text-anchor="middle" fill="#555">%s</text>`+"\n", px(x), graphHeight-foot+16, count(x))
	}
	for i, l := range lines {
		colour := colours[i%len(colours)]
		var own []int
		for x := range l.points {
			own = append(own, x)
		}
		sort.Ints(own)
		var path []string
		for _, x := range own {
			p := l.points[x]
			path = append(path, fmt.Sprintf("%.1f,%.1f", px(x), py(p.Median)))
			fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" opacity="0.4"/><circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n",
				px(x), py(p.Low), px(x), py(p.High), colour, px(x), py(p.Median), colour)
		}
		fmt.Fprintf(&b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/><text x="%.0f" y="%d" fill="%s">%s</text>`+"\n",
			strings.Join(path, " "), colour, left+4+90*float64(i), 28, colour, l.name)
	}
	return b.String()
}

// count writes a round number short: 100k, 1M.
func count(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 1000 && n%1000 == 0:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

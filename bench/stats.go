package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

// commandTimes are what the Redis servers of a house say about their commands.
type commandTimes map[string]redistest.CommandTime

func (h *house) commandTimes(ctx context.Context) (commandTimes, error) {
	sum := commandTimes{}
	for _, addr := range h.nodes {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		times, err := redistest.CommandTimes(ctx, rdb)
		rdb.Close()
		if err != nil {
			return nil, err
		}
		for name, t := range times {
			sum[name] = redistest.CommandTime{Calls: sum[name].Calls + t.Calls, Micros: sum[name].Micros + t.Micros}
		}
	}
	return sum, nil
}

func (c commandTimes) since(before commandTimes) commandTimes {
	d := commandTimes{}
	for name, t := range c {
		d[name] = redistest.CommandTime{Calls: t.Calls - before[name].Calls, Micros: t.Micros - before[name].Micros}
	}
	return d
}

// byClient are commands that scripts call seldom or never: what the server says
// about them is what clients asked.
var byClient = map[string]bool{
	"evalsha": true, "eval": true, "hgetall": true, "get": true, "publish": true, "smembers": true, "sadd": true, "llen": true,
	"xreadgroup": true, "xautoclaim": true, "xack": true, "ping": true, "info": true,
}

// perTurn returns the commands and the server's time for one turn, and the calls
// by name. The time is that of scripts and of what clients ask outside of them; a
// command that both use counts whole, so the time is rather too high.
func (c commandTimes) perTurn(n float64) (commands, micros float64, calls string) {
	var names []string
	for name, t := range c {
		if t.Calls == 0 || name == "info" || strings.HasPrefix(name, "config") {
			continue
		}
		commands += float64(t.Calls) / n
		if byClient[name] {
			micros += float64(t.Micros) / n
		}
		if float64(t.Calls)/n >= 0.05 {
			names = append(names, name)
		}
	}
	sort.Slice(names, func(i, j int) bool { return c[names[i]].Micros > c[names[j]].Micros })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %.1f (%.1f µs)", name, float64(c[name].Calls)/n, float64(c[name].Micros)/n)
	}
	return commands, micros, strings.Join(names, ", ")
}

// spread is the middle and the ends of some measurements.
type spread struct {
	Median float64   `json:"median"`
	Low    float64   `json:"low"`
	High   float64   `json:"high"`
	All    []float64 `json:"all"`
}

func spreadOf(all []float64) spread {
	s := slices.Clone(all)
	slices.Sort(s)
	if len(s) == 0 {
		return spread{}
	}
	return spread{quantile(s, 0.5), s[0], s[len(s)-1], all}
}

// quantile returns the q-th value of a sorted list.
func quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s–%s)", short(s.Median), short(s.Low), short(s.High))
}

// short writes a number with three digits that count.
func short(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

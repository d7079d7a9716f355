package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// report is everything that was measured.
type report struct {
	Machine map[string]string `json:"machine"`
	Skipped []string          `json:"skipped,omitempty"`
	Profile []profileRun      `json:"profile,omitempty"`
	Rounds  []roundsRun       `json:"rounds,omitempty"`
	Latency []latencyRun      `json:"latency,omitempty"`
	Idle    []idleRun         `json:"idle,omitempty"`
	Memory  []memoryRun       `json:"memory,omitempty"`
	Growth  []growthRun       `json:"growth,omitempty"`
}

func (r *report) write(o options) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if o.json != "" {
		if err := os.WriteFile(o.json, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	text := r.tables()
	fmt.Print(text)
	if o.docs == "" {
		return nil
	}
	return r.publish(o.docs, text)
}

// render writes tables and graphs from files of earlier runs; of a kind that several
// files have, the last one counts.
func render(docs string, files []string) error {
	var all report
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var r report
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all.take(r)
	}
	return all.publish(docs, all.tables())
}

// take puts what another report has in the place of one's own.
func (r *report) take(other report) {
	if r.Machine == nil {
		r.Machine = other.Machine
	}
	r.Skipped = append(r.Skipped, other.Skipped...)
	replace(&r.Profile, other.Profile)
	replace(&r.Rounds, other.Rounds)
	replace(&r.Latency, other.Latency)
	replace(&r.Idle, other.Idle)
	replace(&r.Memory, other.Memory)
	r.Growth = append(slices.DeleteFunc(r.Growth, func(old growthRun) bool {
		return slices.ContainsFunc(other.Growth, func(g growthRun) bool { return g.What == old.What && g.Number == old.Number })
	}), other.Growth...)
}

func replace[T any](own *[]T, other []T) {
	if len(other) > 0 {
		*own = other
	}
}

// The marks between which the tables stand in performance.md.
const (
	markBegin = "<!-- bench: begin -->\n"
	markEnd   = "<!-- bench: end -->\n"
)

// publish writes the graphs, and the tables between their marks.
func (r *report) publish(docs, text string) error {
	if err := os.WriteFile(filepath.Join(docs, "growth.svg"), []byte(r.graphs()), 0o644); err != nil {
		return err
	}
	path := filepath.Join(docs, "performance.md")
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok1 := strings.Cut(string(page), markBegin)
	_, after, ok2 := strings.Cut(rest, markEnd)
	if !ok1 || !ok2 {
		return fmt.Errorf("%s has no marks for the tables", path)
	}
	return os.WriteFile(path, []byte(before+markBegin+text+markEnd+after), 0o644)
}

// group gathers numbers by a key, keys in the order of their first number.
type group struct {
	keys   []string
	values map[string][]float64
}

func (g *group) add(key string, v float64) {
	if g.values == nil {
		g.values = map[string][]float64{}
	}
	if _, ok := g.values[key]; !ok {
		g.keys = append(g.keys, key)
	}
	g.values[key] = append(g.values[key], v)
}

func (g *group) median(key string) float64 { return spreadOf(g.values[key]).Median }

func (g *group) cell(key string) string {
	if len(g.values[key]) == 0 {
		return "–"
	}
	return spreadOf(g.values[key]).String()
}

func row(b *strings.Builder, cells ...string) { fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | ")) }

func head(b *strings.Builder, cells ...string) {
	row(b, cells...)
	row(b, strings.Split(strings.Repeat("---,", len(cells)-1)+"---", ",")...)
}

// tables are the numbers for people: medians, with the lowest and the highest.
func (r *report) tables() string {
	var b strings.Builder
	b.WriteString("\n")
	for _, key := range []string{"date", "cpu", "cores", "os", "go", "redis", "postgres", "redis persistence", "postgres persistence", "load before"} {
		if v := r.Machine[key]; v != "" {
			fmt.Fprintf(&b, "- %s: %s\n", key, v)
		}
	}
	for _, p := range peers {
		fmt.Fprintf(&b, "- %s: %s%s\n", p.name, r.version(p.name), p.about)
	}
	for _, line := range r.Skipped {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	r.roundsTable(&b)
	r.timesTable(&b)
	r.memoryTable(&b)
	r.growthTable(&b)
	b.WriteString("\n")
	return b.String()
}

var moduleOf = map[string]string{
	"asynq": "github.com/hibiken/asynq", "asynq-1s": "github.com/hibiken/asynq", "river": "github.com/riverqueue/river", "dbos": "github.com/dbos-inc/dbos-transact-golang",
	"go-workflows": "github.com/cschleiden/go-workflows",
}

func (r *report) version(peer string) string {
	if v := r.Machine[moduleOf[peer]]; v != "" {
		return v + "; "
	}
	return ""
}

func (r *report) roundsTable(b *strings.Builder) {
	if len(r.Rounds) == 0 {
		return
	}
	var rate, client, server, commands group
	key := func(peer string, n int) string { return fmt.Sprintf("%s %d", peer, n) }
	for _, v := range r.Rounds {
		k := key(v.Peer, v.Processes)
		rate.add(k, v.Rate)
		client.add(k, v.ClientCPU)
		server.add(k, v.StoreCPU)
		if v.Commands > 0 {
			commands.add(k, v.Commands)
		}
	}
	b.WriteString("\n**Paired rounds** (three steps), everything checked afterwards. CPU time is that of all processes.\n\n")
	head(b, "", "processes", "rounds/s", "of asynq", "client CPU µs/round", "store CPU µs/round", "CPU of asynq", "Redis commands/turn")
	for _, n := range []int{1, 2, 4} {
		base := key("asynq", n)
		for _, p := range peers {
			k := key(p.name, n)
			if len(rate.values[k]) == 0 {
				continue
			}
			row(b, p.name, fmt.Sprint(n), rate.cell(k), ratio(rate.median(k), rate.median(base)), client.cell(k), server.cell(k),
				ratio(client.median(k)+server.median(k), client.median(base)+server.median(base)), commands.cell(k))
		}
	}
}

func ratio(a, b float64) string {
	if b == 0 {
		return "–"
	}
	return short(a / b)
}

func (r *report) timesTable(b *strings.Builder) {
	if len(r.Latency)+len(r.Idle) == 0 {
		return
	}
	var p50, p99, core, commands group
	for _, v := range r.Latency {
		p50.add(v.What+"|"+v.Peer, v.P50)
		p99.add(v.What+"|"+v.Peer, v.P99)
	}
	b.WriteString("\n**Times**, in milliseconds.\n\n")
	head(b, "", "", "p50", "p99")
	for _, k := range p50.keys {
		what, peer, _ := strings.Cut(k, "|")
		row(b, what, peer, p50.cell(k), p99.cell(k))
	}
	for _, v := range r.Idle {
		core.add(v.Peer, v.Core)
		commands.add(v.Peer, v.Commands)
	}
	b.WriteString("\n**A process that has nothing to do.** The commands are all that Redis carries out, those of scripts included.\n\n")
	head(b, "", "% of a core", "Redis commands/s")
	for _, k := range core.keys {
		row(b, k, core.cell(k), commands.cell(k))
	}
}

func (r *report) memoryTable(b *strings.Builder) {
	if len(r.Memory) == 0 {
		return
	}
	var bytes group
	for _, v := range r.Memory {
		bytes.add(v.What+"|"+v.Peer, v.Bytes)
	}
	b.WriteString("\n**Growth of the store** by one round that is open at its first step, in bytes; rota's log and index entries included.\n\n")
	head(b, "", "", "bytes")
	for _, k := range bytes.keys {
		what, peer, _ := strings.Cut(k, "|")
		row(b, what, peer, bytes.cell(k))
	}
}

func (r *report) growthTable(b *strings.Builder) {
	if len(r.Growth) == 0 {
		return
	}
	var rate, pass, wall, size group
	for _, v := range r.Growth {
		k := fmt.Sprintf("%s|%d|%s", v.What, v.Number, v.Peer)
		rate.add(k, v.Rate)
		if v.Pass > 0 {
			pass.add(k, v.Pass)
			wall.add(k, v.Wall)
			size.add(k, v.GB)
		}
	}
	b.WriteString("\n**Growth.** A pass is one look of one worker at everything; workers make one a second.\n\n")
	head(b, "", "number", "", "rounds/s", "Redis' time for a pass, ms", "whole pass, ms", "Redis, GB")
	for _, k := range rate.keys {
		f := strings.Split(k, "|")
		row(b, f[0], f[1], f[2], rate.cell(k), pass.cell(k), wall.cell(k), size.cell(k))
	}
	b.WriteString("\n![graphs of the growth](growth.svg)\n")
}

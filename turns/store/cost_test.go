package store_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// The price of a turn's life: commands, scripts and round trips, as the caller
// asks for them, step by step.
func TestCommandsPerTurn(t *testing.T) {
	rdb := redistest.Start(t).Client()
	var counter redistest.Counter
	rdb.AddHook(&counter)
	w := plain(t, rdb)
	life := func(thread string, count func(step string)) {
		e := w.paired(thread)
		count("open")
		r := w.claim(e)
		count("claim")
		w.start(r)
		count("start")
		w.renew(store.Renewal{Run: r, Lease: time.Minute})
		count("renew")
		_, err := w.s.Settle(w.ctx, r, done())
		w.must(err)
		count("settle")
	}
	life("warm", func(string) {}) // loads the scripts
	counter.Reset()
	total := map[string]int{}
	most := map[string][2]int{"open": {2, 2}, "claim": {1, 1}, "start": {1, 1}, "renew": {1, 1}, "settle": {7, 3}} // commands, round trips
	life("fix", func(step string) {
		commands, trips := counter.Commands(), counter.RoundTrips()
		names := counter.ByName()
		t.Logf("%-6s %d commands in %d round trips: %v", step, commands, trips, names)
		if commands > most[step][0] || trips > most[step][1] || names["evalsha"] != 1 {
			t.Errorf("%s: %d commands in %d round trips, want at most %v, one of them a script", step, commands, trips, most[step])
		}
		total["commands"] += commands
		total["scripts"] += names["evalsha"]
		total["round trips"] += trips
		counter.Reset()
	})
	t.Logf("a turn's life: %v", total)
}

// Redis' own time for a turn's life, by its own account. It is printed, not
// asserted: the machine may be busy.
func TestRedisTimePerTurn(t *testing.T) {
	rdb := redistest.Start(t).Client()
	w := plain(t, rdb)
	const lives = 500
	before, err := redistest.CommandTimes(w.ctx, rdb)
	w.must(err)
	for i := range lives {
		r := w.runs(w.lone(fmt.Sprintf("t%d", i), turns.Owner))
		w.renew(store.Renewal{Run: r, Lease: time.Minute})
		_, err := w.s.Settle(w.ctx, r, completed())
		w.must(err)
	}
	after, err := redistest.CommandTimes(w.ctx, rdb)
	w.must(err)
	var micros, inner int64
	for name, now := range after {
		spent := now.Micros - before[name].Micros
		switch name {
		case "evalsha", "eval", "hgetall", "llen":
			micros += spent
		}
		if calls := now.Calls - before[name].Calls; calls > 0 && name != "info" {
			inner += calls
		}
	}
	t.Logf("%d µs and %d commands, those of scripts included, per turn", micros/lives, inner/lives)
}

// maxOpenTurn is the memory of an open turn with its log: 1.5 KiB.
const maxOpenTurn = 1536

// Memory of an open turn with its thread, attempt, log and index entries, without
// prompt and answer, as Redis accounts for it: a lone turn, and the reviewer's turn
// of a paired task.
func TestMemoryOfAnOpenTurn(t *testing.T) {
	for name, run := range map[string]func(w *world, thread string) string{
		"lone": func(w *world, thread string) string {
			r := w.runs(w.lone(thread, turns.Reviewer))
			w.renew(store.Renewal{Run: r, Lease: time.Minute, Progress: turns.ProgressTools, Session: "0f9c1d6e-8a55-4a0c-9a3f-2f1f6f1f0001"})
			return r.Turn
		},
		"paired": func(w *world, thread string) string {
			ended, err := w.s.Settle(w.ctx, w.runs(w.paired(thread)), done())
			w.must(err)
			r := w.runs(ended.Outbox)
			w.renew(store.Renewal{Run: r, Lease: time.Minute, Progress: turns.ProgressTools, Session: "0f9c1d6e-8a55-4a0c-9a3f-2f1f6f1f0001"})
			return r.Turn
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := plain(t, redistest.Start(t).Client())
			const count = 1000
			usage := map[string]int64{}
			var total int64
			add := func(kind, id string, parts int64) {
				bytes, err := w.rdb.MemoryUsage(w.ctx, w.s.Key(kind, id), 0).Result()
				if err == nil {
					usage[kind] += bytes / parts
					total += bytes / parts
				}
			}
			var last string
			for i := range count {
				last = run(w, fmt.Sprintf("fix-login-%d", i))
				for _, kind := range []string{"turn", "log", "asks", "steers", "answers", "done"} {
					add(kind, last, 1)
				}
				add("attempt", last+".1", 1)
				add("thread", turns.ThreadOf(last), 1)
				if live := w.rdb.Exists(w.ctx, w.s.Key("live", last)).Val(); live != 0 {
					add("live", last, 1)
				}
			}
			for shard := range w.s.Shards() {
				for _, index := range []string{"outbox", "leases", "open", "threads"} {
					bytes := w.rdb.MemoryUsage(w.ctx, fmt.Sprintf("rota:{s%02d}:%s", shard, index), 0).Val()
					usage[index] += bytes
					total += bytes
				}
			}
			for key := range w.dump() {
				if strings.Contains(key, ":command:") && name == "lone" { // the turn's own; a paired task's belongs to its first turn
					bytes := w.rdb.MemoryUsage(w.ctx, key, 0).Val()
					usage["command"] += bytes
					total += bytes
				}
			}
			for _, kind := range slices.SortedFunc(maps.Keys(usage), func(a, b string) int { return int(usage[b] - usage[a]) }) {
				t.Logf("%-8s %5d bytes", kind, usage[kind]/count)
			}
			t.Logf("an open turn: %d bytes", total/count)
			if total/count > maxOpenTurn {
				t.Errorf("%d bytes, at most %d", total/count, maxOpenTurn)
			}
		})
	}
}

// The largest compensation that is made in one write: 2,000 open items in 50 child
// threads. Its time is printed, not asserted.
func TestTimeOfALargeCompensation(t *testing.T) {
	rdb := redistest.Start(t).Client()
	w := plain(t, rdb)
	r := w.claim(w.lone("fix", turns.Owner))
	children := []string{"fix"}
	for i := range 50 {
		children = append(children, w.subAgent(r, "fix", fmt.Sprint("a", i)))
	}
	rows := make([]any, 0, 2*store.CloseAtOnce)
	for i := range store.CloseAtOnce - 50 {
		child := children[1+i%50]
		rows = append(rows, fmt.Sprintf("%s|i%d", child, i), fmt.Sprintf(`{"id":"i%d","kind":"tool","state":"open","title":"go test ./...","thread":"%s","attempt":"fix/1.1"}`, i, child))
	}
	hset("items", "fix", rows...)(w)
	before, err := redistest.CommandTimes(w.ctx, rdb)
	w.must(err)
	ended, err := w.s.Compensate(w.ctx, r, failed())
	w.must(err)
	after, err := redistest.CommandTimes(w.ctx, rdb)
	w.must(err)
	calls := after["hdel"].Calls - before["hdel"].Calls
	spent := after["evalsha"].Micros + after["eval"].Micros - before["evalsha"].Micros - before["eval"].Micros
	t.Logf("%d items in %d threads closed in %.1f ms, %d calls of HDEL", store.CloseAtOnce, len(children), float64(spent)/1000, calls)
	if ended.Left || w.openItems("fix") != "" {
		t.Errorf("left %v, open %.100q", ended.Left, w.openItems("fix"))
	}
	if calls > 10 {
		t.Errorf("%d calls of HDEL: items are not closed in chunks", calls)
	}
}

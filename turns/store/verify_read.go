package store

import (
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"rota/turns"
)

// readThreads reads the threads, then the paired tasks that they are at.
func readThreads(r *reader, k keys, views map[string]*threadView) error {
	type row struct {
		record *redis.MapStringStringCmd
		live   *redis.StringCmd
	}
	rows := map[string]*row{}
	indexed := r.among(k.threads(), slices.Collect(maps.Keys(views)))
	for name := range views {
		rows[name] = &row{}
		r.add(func(p redis.Pipeliner) { rows[name].record = p.HGetAll(r.ctx, k.thread(name)) })
		r.add(func(p redis.Pipeliner) { rows[name].live = p.HGet(r.ctx, k.live(name), name) })
	}
	if err := r.send(); err != nil {
		return err
	}
	pairs := map[string]*redis.MapStringStringCmd{}
	for name, view := range views {
		row := rows[name]
		view.exists, view.thread = len(row.record.Val()) > 0, decodeThread(name, row.record.Val())
		view.live, view.indexed = row.live.Val(), indexed(name)
		if id := view.thread.Paired; id != "" {
			r.add(func(p redis.Pipeliner) { pairs[name] = p.HGetAll(r.ctx, k.paired(id)) })
		}
	}
	if err := r.send(); err != nil {
		return err
	}
	for name, record := range pairs {
		if len(record.Val()) > 0 {
			views[name].paired = decodePaired(views[name].thread.Paired, record.Val())
		}
	}
	return nil
}

// readTurns reads all turns that are still stored, with their logs.
func readTurns(r *reader, k keys, views map[string]*threadView) error {
	type row struct {
		view   *threadView
		id     string
		record *redis.MapStringStringCmd
		log    *redis.StringSliceCmd
	}
	var rows []*row
	var ids []string
	for name, view := range views {
		for n := 1; n <= view.thread.Turns; n++ {
			w := &row{view: view, id: turns.TurnID(name, n)}
			rows, ids = append(rows, w), append(ids, w.id)
			r.add(func(p redis.Pipeliner) { w.record = p.HGetAll(r.ctx, k.turn(w.id)) })
			r.add(func(p redis.Pipeliner) { w.log = p.LRange(r.ctx, k.log(w.id), 0, -1) })
		}
	}
	indexed := r.among(k.open(), ids)
	if err := r.send(); err != nil {
		return err
	}
	for _, w := range rows {
		h := w.record.Val()
		if len(h) == 0 {
			continue
		}
		v := &turnView{turn: decodeTurn(w.id, h), next: h["next"], indexed: indexed(w.id), attempts: map[int]*attemptView{}}
		for _, line := range w.log.Val() {
			v.log = append(v.log, decodeEntry(w.id, line))
		}
		w.view.turns = append(w.view.turns, v)
	}
	return nil
}

// readAttempts reads the attempts of the turns with their nets, one number beyond
// the current one, and whether what the indexes mention without a record is still there.
func readAttempts(r *reader, k keys, views map[string]*threadView, named mentions) error {
	var rows []*attemptRow
	var ids []string
	var beyond []*attemptRow
	for _, view := range views {
		for _, t := range view.turns {
			last := min(t.turn.Attempt, turns.AttemptCap)
			for n := 1; n <= last+1; n++ {
				w := &attemptRow{view: t, n: n, id: turns.AttemptID(t.turn.ID, n)}
				rows, ids = append(rows, w), append(ids, w.id)
				if n <= last {
					w.read(r, k)
				} else {
					beyond = append(beyond, w)
				}
			}
		}
	}
	queued, leased := r.among(k.outbox(), ids), r.among(k.leases(), ids)
	loose := r.loose(views, named, ids)
	unexpected := r.existing(beyond, func(w *attemptRow) string { return k.attempt(w.id) })
	if err := r.send(); err != nil {
		return err
	}
	for _, w := range unexpected() {
		w.read(r, k)
	}
	if err := r.send(); err != nil {
		return err
	}
	for _, w := range rows {
		v := &attemptView{queued: queued(w.id), leased: leased(w.id)}
		if w.record != nil && len(w.record.Val()) > 0 {
			v.attempt = decodeAttempt(w.id, w.record.Val())
		}
		if v.attempt.ID != "" || v.queued || v.leased || w.n <= w.view.turn.Attempt {
			w.view.attempts[w.n] = v
		}
	}
	loose()
	return nil
}

// attemptRow is an attempt while it is read.
type attemptRow struct {
	view   *turnView
	n      int
	id     string
	record *redis.MapStringStringCmd
}

func (w *attemptRow) read(r *reader, k keys) {
	r.add(func(p redis.Pipeliner) { w.record = p.HGetAll(r.ctx, k.attempt(w.id)) })
}

// among asks an index for members, many in a command. The answer, which says whether
// one of them is there, is known when the reads have been sent.
func (r *reader) among(index string, members []string) func(member string) bool {
	var parts [][]string
	var replies []*redis.Cmd
	for part := range slices.Chunk(members, membersOnce) {
		n := len(parts)
		parts, replies = append(parts, part), append(replies, nil)
		args := []any{"ZMSCORE", index} // the client's own call takes what is missing for 0
		for _, member := range part {
			args = append(args, member)
		}
		r.add(func(p redis.Pipeliner) { replies[n] = p.Do(r.ctx, args...) })
	}
	var there map[string]bool
	return func(member string) bool {
		if there == nil {
			there = map[string]bool{}
			for n, reply := range replies {
				scores, _ := reply.Slice() // an index that holds something else has no members
				for i, score := range scores {
					there[parts[n][i]] = score != nil
				}
			}
		}
		return there[member]
	}
}

// existing asks which of the rows have a key. Few should: a command counts many, and
// only the rows of a count are returned, once the reads have been sent.
func (r *reader) existing(rows []*attemptRow, key func(*attemptRow) string) func() []*attemptRow {
	var parts [][]*attemptRow
	var replies []*redis.IntCmd
	for part := range slices.Chunk(rows, membersOnce) {
		n := len(parts)
		parts, replies = append(parts, part), append(replies, nil)
		names := make([]string, len(part))
		for i, w := range part {
			names[i] = key(w)
		}
		r.add(func(p redis.Pipeliner) { replies[n] = p.Exists(r.ctx, names...) })
	}
	return func() []*attemptRow {
		var some []*attemptRow
		for n, reply := range replies {
			if reply.Val() > 0 {
				some = append(some, parts[n]...)
			}
		}
		return some
	}
}

// loose asks again for the mentions of threads that no record explains. The function
// it returns puts those that are still there into the views.
func (r *reader) loose(views map[string]*threadView, named mentions, attempts []string) func() {
	known := map[string]bool{}
	for _, id := range attempts {
		known[id] = true
	}
	byIndex := map[string][]string{}
	for name, view := range views {
		known[name] = true
		for _, t := range view.turns {
			known[t.turn.ID] = true
		}
		for _, at := range named[name] {
			if !known[at.member] {
				byIndex[at.index] = append(byIndex[at.index], at.member)
			}
		}
	}
	there := map[string]func(string) bool{}
	for index, members := range byIndex {
		there[index] = r.among(index, members)
	}
	return func() {
		for index, members := range byIndex {
			for _, member := range members {
				if there[index](member) {
					view := views[turns.ThreadOf(member)]
					view.loose = append(view.loose, mention{index, member})
				}
			}
		}
	}
}

package store

import (
	"fmt"
	"hash/fnv"

	"rota/turns"
)

// keys spells the keys of one shard.
type keys struct{ tag string }

const metaKey = "rota:meta"

func shardKeys(shard int) keys { return keys{fmt.Sprintf("rota:{s%02d}:", shard)} }

// ShardOf returns the shard of a thread: all threads below one root share it.
func (s *Store) ShardOf(thread string) int {
	h := fnv.New32a()
	h.Write([]byte(turns.Root(thread)))
	return int(h.Sum32() % uint32(s.shards))
}

// of returns the keys of the shard that holds a thread, turn or attempt.
func (s *Store) of(id string) keys { return shardKeys(s.ShardOf(turns.ThreadOf(id))) }

func (k keys) thread(name string) string       { return k.tag + "thread:" + name }
func (k keys) messages(thread string) string   { return k.tag + "messages:" + thread }
func (k keys) turn(id string) string           { return k.tag + "turn:" + id }
func (k keys) prompt(turn string) string       { return k.tag + "prompt:" + turn }
func (k keys) said(turn string) string         { return k.tag + "said:" + turn }
func (k keys) text(turn string) string         { return k.tag + "text:" + turn }
func (k keys) log(turn string) string          { return k.tag + "log:" + turn }
func (k keys) done(turn string) string         { return k.tag + "done:" + turn }
func (k keys) asks(turn string) string         { return k.tag + "asks:" + turn }
func (k keys) steers(turn string) string       { return k.tag + "steers:" + turn }
func (k keys) answers(turn string) string      { return k.tag + "answers:" + turn }
func (k keys) attempt(id string) string        { return k.tag + "attempt:" + id }
func (k keys) paired(id string) string         { return k.tag + "paired:" + id }
func (k keys) command(thread, c string) string { return k.tag + "command:" + thread + ":" + c }
func (k keys) items(id string) string          { return k.tag + "items:" + rootOf(id) }
func (k keys) links(id string) string          { return k.tag + "links:" + rootOf(id) }
func (k keys) live(id string) string           { return k.tag + "live:" + rootOf(id) }
func (k keys) outbox() string                  { return k.tag + "outbox" }
func (k keys) leases() string                  { return k.tag + "leases" }
func (k keys) open() string                    { return k.tag + "open" }
func (k keys) threads() string                 { return k.tag + "threads" }
func (k keys) ended() string                   { return k.tag + "ended" }
func (k keys) sweeps() string                  { return k.tag + "sweeps" }
func (k keys) due() string                     { return k.tag + "due" }
func (k keys) later(id string) string          { return k.tag + "later:" + id }
func (k keys) clock() string                   { return k.tag + "clock" }
func (k keys) stream() string                  { return k.tag + "stream" }

// rootOf returns the root thread of a thread, turn or attempt.
func rootOf(id string) string { return turns.Root(turns.ThreadOf(id)) }

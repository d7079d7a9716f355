// Package store keeps the domain in Redis: one Go verb a move, one Lua script a
// verb. Rules live in Go (package turns says which moves are legal, a
// turns.Planner says what the end of a turn means), atomicity lives in Lua: each
// script reads, checks the origins it is given, and writes state, indexes, outbox
// and log together.
//
// # Keys
//
// All keys of a shard share the tag {sNN}; a thread's shard is chosen by its root
// thread, so one script can change a thread, its child threads and the indexes.
// keys.go is the only place that spells a key.
//
//	rota:meta                          hash    number of shards, version of the stored data; written once
//	rota:{sNN}:thread:NAME             hash    counter of turns, open turn, hold, fence, sessions; until rm
//	rota:{sNN}:messages:NAME           list    human messages that wait; written by say, taken by the write that opens a turn
//	rota:{sNN}:turn:ID                 hash    role, intent, state, counters, outcome; until its retention ends
//	rota:{sNN}:prompt:ID               string  what the turn was asked, when a command opened it
//	rota:{sNN}:said:ID                 string  JSON list of the human messages in the turn
//	rota:{sNN}:text:ID                 string  the final answer
//	rota:{sNN}:log:ID                  list    every move of the turn
//	rota:{sNN}:done:ID                 list    closed items of the turn
//	rota:{sNN}:asks:ID                 list    a person's requests to the live run, in order; only grows
//	rota:{sNN}:steers:ID               list    steered texts that no run has taken yet
//	rota:{sNN}:answers:ID              hash    what came of each request
//	rota:{sNN}:attempt:ID              hash    one carrying of the turn: service, state, run, fence, error
//	rota:{sNN}:paired:ID               hash    the paired task: version, status, counters
//	rota:{sNN}:command:THREAD:KEY      string  what a command id was answered, or is about; expires
//	rota:{sNN}:items:ROOT              hash    open items of a root thread and all below it
//	rota:{sNN}:links:ROOT              hash    sub-agent links to child threads
//	rota:{sNN}:live:ROOT               hash    open turn of each child thread
//	rota:{sNN}:outbox                  zset    queued attempts by when the relay must look next
//	rota:{sNN}:leases                  zset    starting and running attempts by the end of their lease
//	rota:{sNN}:open                    zset    open turns by opening
//	rota:{sNN}:threads                 zset    threads by last change
//	rota:{sNN}:ended                   zset    paired tasks and lone turns by the end of their retention
//	rota:{sNN}:sweeps                  zset    ended turns below which something is still open
//	rota:{sNN}:due                     zset    stored commands by when they are due
//	rota:{sNN}:later:ID                hash    a stored command or schedule: body, revision; until it is taken
//	rota:{sNN}:clock                   hash    the shard's time, amnesty, and the Redis it was seen on
//	rota:{sNN}:stream                  stream  the last moves, for watch and the board
//
// # Writing twice
//
// go-redis sends a script again when its reply was lost, so every script may run
// twice. The caller chooses the ids: a claim carries a random run id, a creating
// command its command id and the ids of what it creates. A repeat is answered
// "already" with the same ids. When ids are no longer the next ones, the script
// answers "moved", and the verb reads and decides again.
package store

// Package scheduler is what happens because time passes: the relay hands queued
// attempts to asynq and looks after them until they are claimed, the reconciler
// finds and mends what no hook saw. Any number of workers run both at once; no
// leader is needed, because every repair is a guarded move.
//
// One pass looks at all shards in one round trip and is answered what is due;
// its cost grows with what is due, not with what exists. What a finding means is
// decided in drift.go, by pure functions.
package scheduler

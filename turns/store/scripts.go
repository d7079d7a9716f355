package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"

	"rota/internal/pipeline"
)

//go:embed scripts/*.lua scripts/lib/*.lua
var scriptFiles embed.FS

// The scripts, one a file.
var (
	scriptOpen       = load("open")
	scriptClaim      = load("claim")
	scriptStart      = load("start")
	scriptRenew      = load("renew")
	scriptRequeue    = load("requeue")
	scriptReplace    = load("replace")
	scriptDelegate   = load("delegate")
	scriptLose       = load("lose")
	scriptLoseLast   = load("lose_last")
	scriptSettle     = load("settle")
	scriptCompensate = load("compensate")
	scriptEnd        = load("end")
	scriptCancel     = load("cancel")
	scriptLook       = load("look")
	scriptDefer      = load("defer")
	scriptDrop       = load("drop")
	scriptDueNow     = load("due_now")
	scriptRelease    = load("release")
	scriptHold       = load("hold")
	scriptSay        = load("say")
	scriptPark       = load("park")
	scriptItem       = load("item")
	scriptSweep      = load("sweep")
	scriptAsk        = load("ask")
	scriptTaken      = load("taken")
	scriptRemove     = load("remove")
	scriptShards     = load("shards")
)

// script is a Lua script with the pieces it includes put in front of it.
type script struct {
	name string
	lua  *redis.Script
}

var includes = regexp.MustCompile(`(?m)^-- @include (.*)$`)

func source(name string) string {
	body, err := scriptFiles.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic("store: " + err.Error())
	}
	return includes.ReplaceAllStringFunc(string(body), func(line string) string {
		var pieces strings.Builder
		for _, piece := range strings.Fields(strings.TrimPrefix(line, "-- @include ")) {
			lib, err := scriptFiles.ReadFile("scripts/lib/" + piece + ".lua")
			if err != nil {
				panic("store: " + name + ".lua: " + err.Error())
			}
			pieces.Write(lib)
		}
		return pieces.String()
	})
}

func load(name string) *script {
	return &script{name: name, lua: redis.NewScript(source(name))}
}

// answer is what a script says: a word and what belongs to it.
type answer struct {
	word string
	rest []string
}

func (a answer) at(i int) string {
	if i < len(a.rest) {
		return a.rest[i]
	}
	return ""
}

// run runs a script and returns its answer. Any error is of the connection or of
// Redis itself: nothing is known about the write, and the caller reads before it
// acts.
func (s *Store) run(ctx context.Context, sc *script, keys []string, args ...any) (answer, error) {
	reply, err := s.call(ctx, sc, keys, args...)
	return s.heard(sc, reply, err)
}

// runAlong is run with further commands in the same round trip, after the script's.
// How those went only they know.
func (s *Store) runAlong(ctx context.Context, along []func(redis.Pipeliner), sc *script, keys []string, args ...any) (answer, error) {
	send := func(eval func(redis.Pipeliner) *redis.Cmd) (any, error) {
		var cmd *redis.Cmd
		_, _ = pipeline.Send(ctx, s.rdb, func(p redis.Pipeliner) {
			cmd = eval(p)
			for _, add := range along {
				add(p)
			}
		})
		return cmd.Result()
	}
	reply, err := send(func(p redis.Pipeliner) *redis.Cmd { return p.EvalSha(ctx, sc.lua.Hash(), keys, args...) })
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		// What goes along is asked again too: it stands behind the script.
		reply, err = send(func(p redis.Pipeliner) *redis.Cmd { return sc.lua.Eval(ctx, p, keys, args...) })
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", sc.name, err)
	}
	return s.heard(sc, reply, err)
}

func (s *Store) heard(sc *script, reply any, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	list, ok := reply.([]any)
	if !ok || len(list) == 0 {
		return answer{}, fmt.Errorf("%s: unexpected reply %T", sc.name, reply)
	}
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = fmt.Sprint(v)
	}
	if s.rejected != nil && refusals[words[0]] {
		s.rejected(sc.name, words[0])
	}
	return answer{words[0], words[1:]}, nil
}

// refusals are the answers that a fence or a guard gives to a write that came too late.
var refusals = map[string]bool{"stale": true, "mismatch": true, "wrong_service": true, "superseded": true, "final": true}

func (s *Store) call(ctx context.Context, sc *script, keys []string, args ...any) (any, error) {
	reply, err := sc.lua.EvalSha(ctx, s.rdb, keys, args...).Result()
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		reply, err = sc.lua.Eval(ctx, s.rdb, keys, args...).Result()
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("%s: %w", sc.name, err)
	}
	return reply, nil
}

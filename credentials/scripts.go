package credentials

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

// The scripts, one a file.
var (
	saltScript    = load("salt")
	pickScript    = load("pick")
	failScript    = load("fail")
	succeedScript = load("succeed")
	clearScript   = load("clear")
	changedScript = load("changed")
	readScript    = load("read")
	lockScript    = load("lock")
	unlockScript  = load("unlock")
)

const (
	prefixKey = "rota:{credentials}:"
	saltKey   = prefixKey + "salt"
	usedKey   = prefixKey + "used"
	restsKey  = prefixKey + "rests"
)

func restKey(name string) string  { return prefixKey + "rest:" + name }
func refreshKey(id string) string { return prefixKey + "refresh:" + id }

type script struct {
	name string
	lua  *redis.Script
}

func load(name string) *script {
	text, err := scriptFiles.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic("credentials: " + err.Error())
	}
	return &script{name, redis.NewScript(string(text))}
}

// run runs a script and returns its answer: a word and what belongs to it.
func (c *Credentials) run(ctx context.Context, s *script, keys []string, args ...any) ([]string, error) {
	answer, err := s.lua.Run(ctx, c.rdb, keys, args...).StringSlice()
	if err != nil {
		return nil, redisError(s.name, err)
	}
	return answer, nil
}

// errRedis marks failures of Redis, as opposed to those of a login.
var errRedis = errors.New("redis")

func redisError(what string, err error) error {
	return fmt.Errorf("credentials: %s: %w: %w", what, errRedis, err)
}

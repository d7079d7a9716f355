package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/config"
)

func reachable(ctx context.Context, rdb redis.UniversalClient) error {
	bound, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return rdb.Ping(bound).Err()
}

// unreached is the error of a Redis that can't be used, with what helps. The hint is
// that of a Redis that does not answer.
func unreached(redisURL string, err error, hint string) error {
	code, what := exitUnavailable, "redis at "+redisName(redisURL)
	switch {
	case config.LoginRefused(err):
		what, hint = what+" refuses the login", config.LoginHint
	case config.DatabaseRefused(err):
		code, what, hint = exitConfig, what+" has no such database", config.DatabaseHint
	}
	return &codedError{code, fmt.Errorf("%s: %w", what, err), hint}
}

// deployment names the store without its login, for the marks of agents.
func deployment(redisURL string) string {
	sum := sha256.Sum256([]byte(redisName(redisURL)))
	return hex.EncodeToString(sum[:8])
}

// redisName is the URL without its login and its query. A password may hold
// anything, also what ends the host in other URLs.
func redisName(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return "the configured address"
	}
	rest = rest[strings.LastIndexByte(rest, '@')+1:]
	rest, _, _ = strings.Cut(rest, "?")
	return scheme + "://" + rest
}

package redistest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Counter is a hook that counts what a caller asks of Redis. Re-sends after an
// error and the set-up of connections don't count. The zero value is ready.
type Counter struct {
	mu     sync.Mutex
	trips  int
	byName map[string]int
}

// Commands returns the number of commands, those in pipelines included.
func (c *Counter) Commands() int {
	total := 0
	for _, n := range c.ByName() {
		total += n
	}
	return total
}

// RoundTrips returns the number of waits for an answer: a command or a whole
// pipeline is one.
func (c *Counter) RoundTrips() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trips
}

// ByName returns the number of commands by their name in lower case.
func (c *Counter) ByName() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byName)
}

// Reset counts from zero again.
func (c *Counter) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trips, c.byName = 0, nil
}

func (c *Counter) count(cmds ...redis.Cmder) {
	if !slices.ContainsFunc(cmds, func(cmd redis.Cmder) bool { return !setsUp(words(cmd)) }) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName == nil {
		c.byName = map[string]int{}
	}
	c.trips++
	for _, cmd := range cmds {
		c.byName[strings.ToLower(cmd.Name())]++
	}
}

// DialHook changes nothing.
func (c *Counter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a command.
func (c *Counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook counts a pipeline.
func (c *Counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		return next(ctx, cmds)
	}
}

// CommandTime is what the server itself says about a command since it started.
type CommandTime struct {
	Calls  int64
	Micros int64
}

// CommandTimes reads INFO commandstats of a real server, by command name.
// Commands called by a script count in their own rows and in the script's.
func CommandTimes(ctx context.Context, rdb redis.UniversalClient) (map[string]CommandTime, error) {
	text, err := rdb.Info(ctx, "commandstats").Result()
	if err != nil {
		return nil, err
	}
	times := map[string]CommandTime{}
	for line := range strings.Lines(text) {
		name, fields, ok := strings.Cut(strings.TrimSpace(line), ":")
		if name, ok2 := strings.CutPrefix(name, "cmdstat_"); ok && ok2 {
			times[name] = CommandTime{Calls: number(fields, "calls"), Micros: number(fields, "usec")}
		}
	}
	return times, nil
}

package tasks

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/pipeline"
)

// WakeChannel is the channel on which is said that a queue has something new.
func WakeChannel(queue string) string { return "rota:wake:" + queue }

// quietFor is how long a subscription hears nothing before it asks whether the
// connection still lives. What is published only hurries, so that may be long.
const quietFor = 15 * time.Second

// Listen calls a channel's function for each message on it until ctx ends, all over
// one connection. It subscribes again by itself when the connection was lost.
func Listen(ctx context.Context, rdb redis.UniversalClient, heard map[string]func()) error {
	sub := rdb.Subscribe(ctx, slices.Collect(maps.Keys(heard))...)
	defer sub.Close()
	messages := sub.Channel(redis.WithChannelHealthCheckInterval(quietFor))
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m, ok := <-messages:
			if !ok {
				return errors.New("wake-ups ended")
			}
			heard[m.Channel]()
		}
	}
}

// Waking returns a client for asynq's Client that sends the wake-up of a queue
// together with the enqueue into it, in one round trip. Where the call is not
// recognised (another asynq version) no wake-up is sent and plain polling remains.
// A lost wake-up only delays.
func Waking(rdb redis.UniversalClient) redis.UniversalClient { return waking{rdb} }

type waking struct{ redis.UniversalClient }

// EvalSha sends a script, and behind asynq's enqueue the wake-up.
func (w waking) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	queue, ok := enqueuesInto(keys)
	if !ok {
		return w.UniversalClient.EvalSha(ctx, sha, keys, args...)
	}
	return w.withWakeUp(ctx, queue, func(p redis.Pipeliner) *redis.Cmd { return p.EvalSha(ctx, sha, keys, args...) })
}

// Eval is EvalSha with the script's text.
func (w waking) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	queue, ok := enqueuesInto(keys)
	if !ok {
		return w.UniversalClient.Eval(ctx, script, keys, args...)
	}
	return w.withWakeUp(ctx, queue, func(p redis.Pipeliner) *redis.Cmd { return p.Eval(ctx, script, keys, args...) })
}

func (w waking) withWakeUp(ctx context.Context, queue string, call func(redis.Pipeliner) *redis.Cmd) *redis.Cmd {
	var cmd *redis.Cmd
	// An error of the enqueue is the command's own.
	_, _ = pipeline.Send(ctx, w, func(p redis.Pipeliner) {
		cmd = call(p)
		p.Publish(ctx, WakeChannel(queue), "")
	})
	return cmd
}

// enqueuesInto recognises asynq's enqueue script by its two keys: the task and the
// pending list of its queue.
func enqueuesInto(keys []string) (queue string, ok bool) {
	if len(keys) != 2 {
		return "", false
	}
	name, ok1 := strings.CutPrefix(keys[1], "asynq:{")
	queue, ok2 := strings.CutSuffix(name, "}:pending")
	return queue, ok1 && ok2 && strings.HasPrefix(keys[0], "asynq:{"+queue+"}:t:")
}

package commands_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
)

// TestOpeningsAskOnlyWhatTheyMust: a new thread is opened in one round trip, with a
// key or without.
func TestOpeningsAskOnlyWhatTheyMust(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		var counter redistest.Counter
		client := redistest.WithHooks(t, rdb, &counter)
		d := newDesk(t, client)
		trips := func(open func(key, thread string) (commands.Result, error), key, thread string) int {
			t.Helper()
			d.must(open(key, thread)) // loads the script, and is another thread
			counter.Reset()
			d.must(open(key, thread+"-2"))
			return counter.RoundTrips()
		}
		for name, open := range map[string]func(key, thread string) (commands.Result, error){
			"task": func(key, thread string) (commands.Result, error) {
				return d.c.Task(d.ctx, commands.TaskAsk{Key: key, Thread: thread, Text: "do it"})
			},
			"turn": func(key, thread string) (commands.Result, error) {
				return d.c.Turn(d.ctx, commands.TurnAsk{Key: key, Thread: thread, Text: "do it", Role: turns.Owner})
			},
		} {
			drawn, given := trips(open, "", name+"-drawn"), trips(open, "mine", name+"-given")
			if drawn != 1 || given != 1 {
				t.Errorf("a %s takes %d round trips, with a key %d; want 1: %v", name, drawn, given, counter.ByName())
			}
		}
	})
}

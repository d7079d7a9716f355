package commands_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// Whatever was accepted is delivered, also when turns fail again and again with as
// much waiting as may wait: nothing that was said makes a retry impossible.
func TestWhatWasAcceptedIsDelivered(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		var accepted []string
		fill := func() {
			run := d.start("a")
			var said, steered []string
			for _, list := range []*[]string{&steered, &said} {
				for {
					text := fmt.Sprint(len(accepted), " ", len(steered), " ", len(said), " ", strings.Repeat("x", 200_000))
					r, err := d.c.Reply(d.ctx, commands.ReplyAsk{Thread: "a", Text: text, Steer: list == &steered})
					if err != nil {
						if commands.KindOf(err) != commands.Conflict {
							t.Fatalf("%+v, %v", r, err)
						}
						break
					}
					*list = append(*list, text)
				}
			}
			accepted = slices.Concat(accepted, said, steered) // the order in which they wait after the end
			if _, err := d.s.Settle(d.ctx, run, turns.Ending{State: turns.Failed, Class: turns.ClassCrash, Error: "it crashed"}); err != nil {
				t.Fatal(err)
			}
		}
		d.task("a")
		for range 3 {
			fill()
			d.must(d.c.Retry(d.ctx, "", "a"))
		}
		if len(accepted)*200_000 <= store.MaxSaid {
			t.Fatalf("only %d messages: this was no test", len(accepted))
		}
		d.end("a", "")
		last := d.must(d.c.Retry(d.ctx, "", "a")).Turn
		first := d.said(last)
		d.end("a", turns.Done) // what did not fit into it is the follow-up's
		if next := d.open("a").Turn; next.Intent != turns.FollowUp {
			t.Fatalf("%s is a %s", next.ID, next.Intent)
		}
		got := slices.Concat(first, d.said(d.open("a").Turn.ID))
		if !slices.Equal(got, accepted) {
			t.Errorf("%d messages arrived, %d were accepted", len(got), len(accepted))
		}
	})
}

// A reply that would not fit into the turn with all that was said before is refused
// at once, and says what can be done; the retry still works.
func TestAReplyThatDoesNotFit(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.task("a")
		d.end("a", "")
		text := strings.Repeat("x", store.MaxPrompt)
		var err error
		for replies := 0; err == nil; replies++ {
			if replies > 2*store.MaxSaid/store.MaxPrompt {
				t.Fatal("no bound")
			}
			if _, err = d.c.Reply(d.ctx, commands.ReplyAsk{Thread: "a", Text: text}); err == nil {
				d.end("a", "")
			}
		}
		if commands.KindOf(err) != commands.Conflict || !strings.Contains(err.Error(), "bytes") {
			t.Errorf("%v (%s)", err, commands.KindOf(err))
		}
		d.must(d.c.Retry(d.ctx, "", "a"))
	})
}

package commands_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// One thread that delegates can't fill a queue by itself: the turn that is one too
// many is refused, and nothing of it is written.
func TestRoomBelowAThread(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		child := func(k int) (commands.Result, error) {
			return d.c.Turn(d.ctx, commands.TurnAsk{Key: fmt.Sprint("k", k), Thread: fmt.Sprintf("busy~%d", k), Text: "help", Role: turns.Owner, Parent: "busy/1"})
		}
		d.must(d.c.Turn(d.ctx, commands.TurnAsk{Thread: "busy", Text: "delegate", Role: turns.Owner}))
		for k := 2; k <= commands.MaxBelow+1; k++ {
			d.must(child(k))
		}
		last := commands.MaxBelow + 2
		if _, err := child(last); commands.KindOf(err) != commands.Conflict {
			t.Fatalf("one too many: %v", err)
		}
		if _, err := d.s.Thread(d.ctx, fmt.Sprintf("busy~%d", last)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("something was written: %v", err)
		}
		if found, err := d.s.Verify(d.ctx, ""); err != nil || len(found) > 0 {
			t.Error(found, err)
		}
		d.must(d.c.Turn(d.ctx, commands.TurnAsk{Thread: "other", Text: "work", Role: turns.Owner})) // another thread has room
		d.must(d.c.Cancel(d.ctx, "", "busy~2/1"))
		d.must(child(last))
		if again := d.must(child(last)); !again.Already {
			t.Errorf("the same command twice: %+v", again)
		}
	})
}

// A full service refuses new work without a trace, and lets what has begun go on.
func TestRoomOfAService(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.task("begun")
		d.c.Room = func(_ context.Context, service string) error {
			return fmt.Errorf("10 turns wait for %s already", service)
		}
		for name, ask := range map[string]func() (commands.Result, error){
			"task": func() (commands.Result, error) {
				return d.c.Task(d.ctx, commands.TaskAsk{Thread: "new", Text: "more"})
			},
			"turn": func() (commands.Result, error) {
				return d.c.Turn(d.ctx, commands.TurnAsk{Thread: "new", Text: "more", Role: turns.Reviewer})
			},
		} {
			if _, err := ask(); commands.KindOf(err) != commands.Conflict {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := d.s.Thread(d.ctx, "new"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: something was written: %v", name, err)
			}
		}
		d.must(d.c.Reply(d.ctx, commands.ReplyAsk{Thread: "begun", Text: "and this"}))
		d.end("begun", turns.Done)
		if th, err := d.s.Thread(d.ctx, "begun"); err != nil || th.OpenTurn != "begun/2" {
			t.Errorf("what has begun stands still: %+v, %v", th, err)
		}
	})
}

package handlers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/agents"
	"rota/internal/redistest"
	"rota/turns"
)

func answers(context.Context, agents.Task, agents.Reporter) (agents.Result, error) {
	return agents.Result{Text: "ok", Outcome: turns.Done}, nil
}

// What the reason of a dead letter counts is what is stored, whether or not Redis had
// the claim's script before.
func TestDeadLetterCountsItsDeliveries(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		o := newShop(t, rdb, turns.Limits{}, func(context.Context, agents.Task, agents.Reporter) (agents.Result, error) {
			return agents.Result{}, &turns.Failure{Class: turns.ClassConfig, Message: "no such program", Dead: true}
		})
		for _, thread := range []string{"cold", "warm"} {
			e := o.open(thread, t.TempDir())
			_ = o.carry(e)
			u, err := o.s.Turn(o.ctx, e.Turn)
			if err != nil || u.State != turns.Failed || !strings.HasPrefix(u.Reason, "dead letter after 1 delivery: ") {
				t.Errorf("%s: %s, %q, %v", thread, u.State, u.Reason, err)
			}
		}
	})
}

// A claim whose turn can't be read along with it is given back at once and counts
// nowhere; when a hand has mended what was written over, the turn goes on.
func TestClaimOfATurnThatCantBeReadIsGivenBack(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		o := newShop(t, rdb, turns.Limits{}, answers)
		e := o.open("fix", t.TempDir())
		threads, err := rdb.Keys(o.ctx, "rota:*:thread:fix").Result()
		if err != nil || len(threads) != 1 {
			t.Fatal(threads, err)
		}
		messages := strings.Replace(threads[0], ":thread:", ":messages:", 1)
		if err := rdb.Set(o.ctx, messages, "written over", 0).Err(); err != nil {
			t.Fatal(err)
		}
		var before *notClaimed
		if err := o.carry(e); !errors.As(err, &before) {
			t.Errorf("the delivery came to %v", err)
		}
		a, err := o.s.Attempt(o.ctx, e.Attempt)
		if err != nil || a.State != turns.Queued || a.Deliveries != 0 {
			t.Fatalf("%s is %s after %d deliveries, %v", a.ID, a.State, a.Deliveries, err)
		}
		if th, err := o.s.Thread(o.ctx, "fix"); err != nil || th.Hold != 0 {
			t.Errorf("the hold is %d, %v", th.Hold, err)
		}
		if err := rdb.Del(o.ctx, messages).Err(); err != nil {
			t.Fatal(err)
		}
		if err := o.s.DueNow(o.ctx, e.Attempt); err != nil {
			t.Fatal(err)
		}
		if err := o.carry(e); err != nil {
			t.Error(err)
		}
		if u, err := o.s.Turn(o.ctx, e.Turn); err != nil || u.State != turns.Completed {
			t.Errorf("%s is %s, %v", u.ID, u.State, err)
		}
	})
}

// A claim whose answer was lost more often than the client asks is repeated with the
// same run for half of the longest lease, and then brings what it brings at once.
func TestClaimThatIsAnsweredLateIsCarriedOut(t *testing.T) {
	if got := (&Handler{Lease: 2 * time.Minute}).claimTime(); got != time.Minute {
		t.Errorf("a claim is repeated for %s", got)
	}
	if got := (&Handler{}).claimTime(); got != turns.DefaultLimits.Lease/2 {
		t.Errorf("a claim is repeated for %s where nothing is configured", got)
	}
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		lost := redistest.LostReply(redistest.Command("llen"), 1).Times(6)
		o := newShop(t, redistest.WithHooks(t, rdb, lost), turns.Limits{}, answers)
		e := o.open("fix", t.TempDir())
		if err := o.carry(e); err != nil {
			t.Error(err)
		}
		a, err := o.s.Attempt(o.ctx, e.Attempt)
		if err != nil || a.State != turns.Completed || a.Deliveries != 1 {
			t.Errorf("%s is %s after %d deliveries, %v", a.ID, a.State, a.Deliveries, err)
		}
		if lost.Hits() != 6 {
			t.Errorf("%d answers were lost", lost.Hits())
		}
	})
}

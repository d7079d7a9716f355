package handlers

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/agents"
	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// A lone turn owes no verdict. One that its agent gives is kept: as a typed value, or
// as the one strict line.
func TestVerdictOfALoneTurn(t *testing.T) {
	for text, want := range map[string]turns.Outcome{
		"hello":                               "",
		"hello\nVERDICT: approve":             turns.Approve,
		"hello\nVERDICT: done":                "", // no verdict of a reviewer
		"VERDICT: approve\nVERDICT: changes":  "",
		"done with it, I approve\n\nand more": "",
	} {
		redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
			o := newShop(t, rdb, turns.Limits{}, func(context.Context, agents.Task, agents.Reporter) (agents.Result, error) {
				return agents.Result{Text: text}, nil
			})
			opened, err := o.s.OpenTurn(o.ctx, store.NewTurn{Command: "c", Thread: "fix", Role: turns.Reviewer, Intent: turns.Review,
				Seat: turns.Seat{Services: []string{"codex-main"}}, Prompt: "look"})
			if err != nil {
				t.Fatal(err)
			}
			if err := o.carry(opened.Outbox); err != nil {
				t.Fatal(err)
			}
			if u, err := o.s.Turn(o.ctx, opened.Turn); err != nil || u.State != turns.Completed || u.Outcome != want {
				t.Errorf("%q: %s with outcome %q, want %q; %v", text, u.State, u.Outcome, want, err)
			}
		})
	}
}

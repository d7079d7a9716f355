package integration

import (
	"context"
	"fmt"
	"testing"

	"rota/commands"
	"rota/turns"
	"rota/turns/store"
)

// The dead letter's way with a crash before and after every script call and every
// call of asynq: the turn fails once, visibly.
func TestDeadLetterEveryCrash(t *testing.T) {
	t.Parallel()
	limits := crashLimits
	tale{
		plan: plan{crew: turns.Crew{turns.Owner: {Services: []string{"main"}, Limits: limits}}, script: `{"do":[{"error":"crash","text":"exit status 1"}]}`},
		open: openOne, over: oneEnded, check: failedOnce(turns.ClassCrash),
	}.tell(t)
}

// A run that had started fails by its own settle, with items open, and a crash
// before and after every call.
func TestSettleEveryCrash(t *testing.T) {
	t.Parallel()
	tale{
		plan: plan{crew: turns.Crew{turns.Owner: {Services: []string{"main"}, Limits: crashLimits}},
			script: `{"do":[{"accept":true},{"item":"t","kind":"tool","state":"open","title":"go test"},{"error":"config","text":"bad model"}]}`},
		open: openOne, over: oneEnded, check: failedOnce(turns.ClassConfig),
	}.tell(t)
}

func openOne(ctx context.Context, c *commands.Commands) error {
	_, err := c.Turn(ctx, commands.TurnAsk{Key: "once", Thread: "one", Text: "do it", Role: turns.Owner})
	return err
}

func oneEnded(ctx context.Context, s *store.Store) bool {
	u, err := s.Turn(ctx, "one/1")
	return err == nil && u.State.FinalForTurn()
}

func failedOnce(class turns.Class) func(context.Context, *store.Store) error {
	return func(ctx context.Context, s *store.Store) error {
		u, err := s.Turn(ctx, "one/1")
		if err != nil {
			return err
		}
		th, err := s.Thread(ctx, "one")
		if err != nil {
			return err
		}
		open, err := s.OpenItems(ctx, "one")
		if err != nil {
			return err
		}
		done, err := s.DoneItems(ctx, "one/1")
		if err != nil {
			return err
		}
		last := turns.AttemptID("one/1", u.Attempt)
		errors := 0
		for _, i := range done {
			if i.Kind == turns.ItemError && i.ID == "error:"+last {
				errors++
			}
		}
		if u.State != turns.Failed || u.Class != class || u.Error == "" || th.Turns != 1 || len(open) != 0 || errors != 1 {
			return fmt.Errorf("%s %s %q, %d turns, open %+v, %d errors in %+v", u.State, u.Class, u.Error, th.Turns, open, errors, done)
		}
		return nil
	}
}

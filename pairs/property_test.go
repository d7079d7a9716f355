package pairs

import (
	"testing"

	"pgregory.net/rapid"

	"rota/turns"
)

// TestAnyLifeOfAPairedTask lets turns end in any way and people answer in any
// way, and holds every step to the promises: a failure never changes the role,
// the version grows by one with each move and by nothing else, no counter
// passes its bound, and a task without an open turn waits for a person or is over.
func TestAnyLifeOfAPairedTask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := turns.Rules{
			Rounds:       rapid.IntRange(0, 3).Draw(t, "rounds"),
			Arbitrations: rapid.IntRange(0, 2).Draw(t, "arbitrations"),
			Turns:        rapid.IntRange(0, 12).Draw(t, "turns"),
		}
		seats := crew
		if rapid.Bool().Draw(t, "no arbiter") {
			seats = without(turns.Arbiter)
		}
		plan, err := Begin("fix", 1, seats)
		if err != nil {
			t.Fatal(err)
		}
		var last turns.Turn
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			before := plan.Paired
			switch {
			case plan.Next != nil:
				v := end(t, plan, seats, rules)
				plan = Plan(v)
				check(t, v, plan)
				last = v.Turn
				last.State = v.Ending.State
			case before.Status == turns.NeedsHuman:
				plan = answer(t, before, last, seats)
			case before.Status.Finished():
				return
			default:
				t.Fatalf("no turn is open in %s and nobody is asked", before.Status)
			}
			if plan.Paired.Version != before.Version+1 {
				t.Fatalf("version %d after %d", plan.Paired.Version, before.Version)
			}
			bounded(t, plan.Paired, rules.WithDefaults())
		}
	})
}

// end lets the open turn end, completed or not, with one of its role's outcomes.
func end(t *rapid.T, plan turns.Plan, seats turns.Crew, rules turns.Rules) turns.View {
	tree := rapid.SampledFrom([]string{"", "t1", "t2"})
	return turns.View{
		Turn: turns.Turn{ID: "fix/1", Paired: plan.Paired.ID, Role: plan.Next.Role, Intent: plan.Next.Intent},
		Ending: turns.Ending{
			State:     rapid.SampledFrom([]turns.State{turns.Completed, turns.Completed, turns.Completed, turns.Failed, turns.Cancelled}).Draw(t, "end"),
			Outcome:   rapid.SampledFrom(turns.Outcomes(plan.Next.Role)).Draw(t, "outcome"),
			Tree:      tree.Draw(t, "tree"),
			StartTree: tree.Draw(t, "start tree"),
		},
		Paired:   plan.Paired,
		Messages: rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "messages"),
		Crew:     seats,
		Rules:    rules,
	}
}

// answer is a person's answer; after a failure only --to owner moves the work.
func answer(t *rapid.T, p turns.Paired, last turns.Turn, seats turns.Crew) turns.Plan {
	how := rapid.SampledFrom([]string{"retry", "reply", "reply to the owner"}).Draw(t, "answer")
	var plan turns.Plan
	var err error
	switch how {
	case "retry":
		plan, err = Retry(p, last, seats)
	default:
		plan, err = Reply(p, last, how != "reply", seats)
	}
	if err != nil {
		t.Fatalf("%s: %v", how, err)
	}
	same := plan.Next.Role == last.Role && plan.Next.Intent == last.Intent
	if !same && how != "reply to the owner" && (how == "retry" || last.State != turns.Completed) {
		t.Fatalf("%s after a %s %s turn opened %s", how, last.State, last.Intent, plan.Next.Intent)
	}
	return plan
}

func bounded(t *rapid.T, p turns.Paired, rules turns.Rules) {
	if p.Turns > rules.Turns || p.Arbitrations > rules.Arbitrations || p.Rounds > rules.Rounds {
		t.Fatalf("%d turns, %d arbitrations, %d rounds with %+v", p.Turns, p.Arbitrations, p.Rounds, rules)
	}
}

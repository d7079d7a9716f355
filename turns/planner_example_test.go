package turns_test

import (
	"fmt"

	"rota/turns"
)

// A planner of one's own: an owner's turn is followed by a review until the
// reviewer approves; there is no finalizing, and no arbiter.
//
// A planner is asked in the write that ends a turn, maybe several times, and so
// must be pure. It never sees a failed turn as an outcome: what it returns then
// can only park the work.
func ExamplePlanner() {
	var plan turns.Planner = func(v turns.View) turns.Plan {
		p := v.Paired
		next := func(status turns.PairedStatus, role turns.Role, intent turns.Intent) turns.Plan {
			p.Status = status
			seat := v.Crew[role]
			return turns.Plan{Paired: p, Moved: true, Next: &turns.Next{Role: role, Intent: intent, Services: seat.Services, Limits: seat.Limits}}
		}
		switch {
		case v.Turn.Paired == "":
			return turns.Plan{} // a lone turn has no follow-up
		case v.Ending.State != turns.Completed:
			p.Status, p.Reason = turns.NeedsHuman, v.Ending.Reason
			return turns.Plan{Paired: p, Moved: true}
		case v.Turn.Role == turns.Owner:
			return next(turns.ReviewReady, turns.Reviewer, turns.Review)
		case v.Ending.Outcome == turns.Approve:
			p.Status = turns.PairCompleted
			return turns.Plan{Paired: p, Moved: true}
		}
		return next(turns.Active, turns.Owner, turns.FollowUp)
	}

	crew := turns.Crew{turns.Owner: {Services: []string{"codex-main"}}, turns.Reviewer: {Services: []string{"claude", "codex-review"}}}
	show := func(role turns.Role, e turns.Ending) {
		p := plan(turns.View{Turn: turns.Turn{Role: role, Paired: turns.PairedID("fix-login", 1)}, Ending: e, Crew: crew})
		fmt.Printf("%s %s %s: %s", role, e.State, e.Outcome, p.Paired.Status)
		if p.Next != nil {
			fmt.Printf(", then %s (%s) on %s", p.Next.Role, p.Next.Intent, p.Next.Services[0])
		}
		fmt.Println()
	}
	show(turns.Owner, turns.Ending{State: turns.Completed, Outcome: turns.Done})
	show(turns.Reviewer, turns.Ending{State: turns.Completed, Outcome: turns.Changes})
	show(turns.Reviewer, turns.Ending{State: turns.Completed, Outcome: turns.Approve})
	show(turns.Reviewer, turns.Ending{State: turns.Failed})
	// Output:
	// owner completed done: review_ready, then reviewer (review) on claude
	// reviewer completed changes: active, then owner (follow-up) on codex-main
	// reviewer completed approve: completed
	// reviewer failed : needs_human
}

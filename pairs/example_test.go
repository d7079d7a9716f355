package pairs_test

import (
	"fmt"
	"strings"

	"rota/pairs"
)

// The workflow, as it stands in the documentation.
func Example() {
	for _, row := range pairs.Table {
		words := make([]string, len(row.Outcomes))
		for i, o := range row.Outcomes {
			words[i] = string(o)
		}
		fmt.Printf("%s: %s", row.Status, strings.Join(words, ", "))
		if row.When != pairs.Always {
			fmt.Printf(" [%s]", row.When)
		}
		fmt.Printf(" -> %s", row.To)
		if row.Next != "" {
			fmt.Printf("; %s, %s", row.Next.Role(), row.Next)
		}
		if row.Rounds != pairs.Keep {
			fmt.Printf("; rounds %s", row.Rounds)
		}
		fmt.Println()
	}
	// Output:
	// active: step_done [tree unchanged since the last step_done] -> arbiter_requested; arbiter, arbitrate
	// active: done, step_done, done_with_concerns -> review_ready; reviewer, review; rounds +1
	// active: blocked, needs_context -> arbiter_requested; arbiter, arbitrate
	// review_ready: approve -> merge_ready; owner, finalize; rounds 0
	// review_ready: changes [round limit reached without approval] -> arbiter_requested; arbiter, arbitrate
	// review_ready: changes -> active; owner, follow-up
	// review_ready: blocked, needs_context -> arbiter_requested; arbiter, arbitrate
	// merge_ready: done [tree unchanged since the approval] -> completed
	// merge_ready: done, step_done, done_with_concerns -> review_ready; reviewer, review; rounds +1
	// merge_ready: blocked, needs_context -> arbiter_requested; arbiter, arbitrate
	// arbiter_requested: proceed -> review_ready; reviewer, review; rounds 0
	// arbiter_requested: revise, reset -> active; owner, follow-up; rounds 0
	// arbiter_requested: escalate -> needs_human
}

package turns

import (
	"fmt"
	"slices"
)

// Outcome is what a completed turn says: the owner's result, the reviewer's or
// the arbiter's verdict. It is a typed value, never read out of prose.
type Outcome string

// The outcomes, by role.
const (
	Done             Outcome = "done"               // owner
	StepDone         Outcome = "step_done"          // owner
	DoneWithConcerns Outcome = "done_with_concerns" // owner
	Approve          Outcome = "approve"            // reviewer
	Changes          Outcome = "changes"            // reviewer
	Proceed          Outcome = "proceed"            // arbiter
	Revise           Outcome = "revise"             // arbiter
	Reset            Outcome = "reset"              // arbiter
	Escalate         Outcome = "escalate"           // arbiter
	Blocked          Outcome = "blocked"            // owner, reviewer
	NeedsContext     Outcome = "needs_context"      // owner, reviewer
)

var outcomes = map[Role][]Outcome{
	Owner:    {Done, StepDone, DoneWithConcerns, Blocked, NeedsContext},
	Reviewer: {Approve, Changes, Blocked, NeedsContext},
	Arbiter:  {Proceed, Revise, Reset, Escalate},
}

// Outcomes returns what a role may say, in the order of the documentation. The
// caller must not change the slice.
func Outcomes(r Role) []Outcome { return outcomes[r] }

// ParseOutcome returns the outcome named s if the role may say it. The empty
// string, another role's word and any other text are errors.
func ParseOutcome(r Role, s string) (Outcome, error) {
	if o := Outcome(s); slices.Contains(outcomes[r], o) {
		return o, nil
	}
	return "", fmt.Errorf("%q is no verdict of the %s", clip(s), r)
}

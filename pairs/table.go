// Package pairs is the workflow of a paired task: what the end of a turn means
// for the work, and which turn comes next. Everything in it is a pure function:
// no clock, no Redis, no configuration beyond its arguments.
//
// # The story
//
// An owner does the work, a reviewer judges it, the owner finalizes what was
// approved, an arbiter settles what the two can't. Table is that story, one row
// for each stored status and outcome; Plan looks a completed turn up in it and
// applies the rules around it: budgets, roles that nobody takes, and what people
// said meanwhile. A turn that failed or was cancelled says nothing about the
// work, so it never moves it to another role: the paired task waits for a
// person, and remembers where it stood.
//
// Begin, Retry, Reply and CancelPaired are what a person's commands mean.
// ParseVerdict reads the one strict line by which an agent without structured
// output gives its verdict; it is the only parser of verdicts.
package pairs

import (
	"slices"

	"rota/turns"
)

// Row is one row of the workflow: when a turn of the status completes with one
// of the outcomes, and the condition holds, the paired task takes the status To
// and the turn Next is opened.
type Row struct {
	Status   turns.PairedStatus
	Outcomes []turns.Outcome
	When     Condition // Always, or what must hold too
	To       turns.PairedStatus
	Next     turns.Intent // empty where no turn follows
	Rounds   Count
}

// Condition is what a row asks for besides status and outcome.
type Condition string

// The conditions.
const (
	Always Condition = ""
	// SameStep: the workspace is as the owner's last step_done left it.
	SameStep Condition = "tree unchanged since the last step_done"
	// Deadlock: as many reviews as the rules allow went without an approval.
	Deadlock Condition = "round limit reached without approval"
	// SameTree: the workspace is what the reviewer accepted.
	SameTree Condition = "tree unchanged since the approval"
)

// Count is what a row does to the number of reviews without approval.
type Count string

// What may become of the rounds.
const (
	Keep    Count = ""
	Raise   Count = "+1"
	Restart Count = "0"
)

// Table is the workflow. The first row that fits is the one that counts; a
// status and outcome without a row is no move of the workflow and waits for a
// person. It is read-only.
var Table = []Row{
	{turns.Active, say(turns.StepDone), SameStep, turns.ArbiterRequested, turns.Arbitrate, Keep},
	{turns.Active, say(turns.Done, turns.StepDone, turns.DoneWithConcerns), Always, turns.ReviewReady, turns.Review, Raise},
	{turns.Active, say(turns.Blocked, turns.NeedsContext), Always, turns.ArbiterRequested, turns.Arbitrate, Keep},

	{turns.ReviewReady, say(turns.Approve), Always, turns.MergeReady, turns.Finalize, Restart},
	{turns.ReviewReady, say(turns.Changes), Deadlock, turns.ArbiterRequested, turns.Arbitrate, Keep},
	{turns.ReviewReady, say(turns.Changes), Always, turns.Active, turns.FollowUp, Keep},
	{turns.ReviewReady, say(turns.Blocked, turns.NeedsContext), Always, turns.ArbiterRequested, turns.Arbitrate, Keep},

	{turns.MergeReady, say(turns.Done), SameTree, turns.PairCompleted, "", Keep},
	{turns.MergeReady, say(turns.Done, turns.StepDone, turns.DoneWithConcerns), Always, turns.ReviewReady, turns.Review, Raise},
	{turns.MergeReady, say(turns.Blocked, turns.NeedsContext), Always, turns.ArbiterRequested, turns.Arbitrate, Keep},

	{turns.ArbiterRequested, say(turns.Proceed), Always, turns.ReviewReady, turns.Review, Restart},
	{turns.ArbiterRequested, say(turns.Revise, turns.Reset), Always, turns.Active, turns.FollowUp, Restart},
	{turns.ArbiterRequested, say(turns.Escalate), Always, turns.NeedsHuman, "", Keep},
}

func say(o ...turns.Outcome) []turns.Outcome { return o }

// statusOf is the status in which turns of an intent are taken. It is how a
// turn that does not belong to its paired task's status is told apart.
var statusOf = map[turns.Intent]turns.PairedStatus{
	turns.Work:      turns.Active,
	turns.FollowUp:  turns.Active,
	turns.Review:    turns.ReviewReady,
	turns.Finalize:  turns.MergeReady,
	turns.Arbitrate: turns.ArbiterRequested,
}

// lookup returns the row for a completed turn whose role, intent and outcome
// have been checked.
func lookup(v turns.View) (Row, bool) {
	for _, row := range Table {
		if row.Status == v.Paired.Status && slices.Contains(row.Outcomes, v.Ending.Outcome) && row.When.holds(v) {
			return row, true
		}
	}
	return Row{}, false
}

func (c Condition) holds(v turns.View) bool {
	switch c {
	case Always:
		return true
	case SameStep:
		return v.Paired.StepTree == stepMark(v.Ending.Tree)
	case Deadlock:
		return v.Paired.Rounds >= v.Rules.WithDefaults().Rounds
	case SameTree:
		return v.Paired.Accepted == v.Ending.Tree
	}
	return false
}

// stepMark is what StepTree remembers of a tree. A workspace without git has no
// tree and so never changes; its mark must still differ from "no step yet".
func stepMark(tree string) string {
	if tree == "" {
		return "none"
	}
	return tree
}

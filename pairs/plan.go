package pairs

import (
	"fmt"
	"strings"

	"rota/turns"
)

// Plan decides what the end of a turn means for its paired task. It is a
// turns.Planner. The answer is the zero Plan for a turn that belongs to no
// paired task or to another one than v.Paired, and leaves the paired task as it
// is when that has ended or waits for a person already.
//
// A turn that did not complete never opens another one; with one that is given
// up the paired task is cancelled. A completed turn whose role, intent or outcome
// does not fit the status waits for a person too: there is no default outcome.
func Plan(v turns.View) turns.Plan {
	p := v.Paired
	if p.ID == "" || v.Turn.Paired != p.ID {
		return turns.Plan{}
	}
	if p.Status.Finished() || p.Status == turns.NeedsHuman {
		return turns.Plan{Paired: p}
	}
	if v.Ending.GivenUp {
		return CancelPaired(p)
	}
	if v.Ending.State != turns.Completed {
		return park(p, unfinished(v))
	}
	if why := misfit(v); why != "" {
		return park(p, why)
	}
	row, ok := lookup(v)
	if !ok {
		return park(p, fmt.Sprintf("%q of the %s means nothing while the task is %s", v.Ending.Outcome, v.Turn.Role, p.Status))
	}
	if v.Turn.Role == turns.Owner {
		p.StepTree = stepAfter(p, v.Ending)
	}
	return carry(v, p, row)
}

// carry applies a row of the table and the rules around it: what people said,
// then the roles that nobody takes, then the budgets.
func carry(v turns.View, p turns.Paired, row Row) turns.Plan {
	obstacle := ""
	if row.To == turns.ArbiterRequested {
		obstacle = noArbitration(v)
	}
	arbitration := p.Status == turns.ArbiterRequested || row.To == turns.ArbiterRequested && obstacle == ""
	messages := 0
	if v.Messages > 0 && !arbitration {
		row = Row{To: turns.Active, Next: turns.FollowUp, Rounds: Restart}
		obstacle, messages = "", v.Messages
	}
	if obstacle == "" && row.Next != "" {
		obstacle = noTurn(v, row.Next.Role())
	}
	switch {
	case obstacle != "":
		return park(p, obstacle+quote(v.Ending.Text))
	case row.To == turns.NeedsHuman:
		return park(p, "the arbiter asks for a person"+quote(v.Ending.Text))
	}

	p.Status = row.To
	p.Rounds = row.Rounds.apply(p.Rounds)
	p.Accepted = acceptedAfter(p, v.Ending)
	if messages > 0 {
		p.StepTree = "" // the next step answers a person, it is no second one
	}
	if row.Next == "" {
		return moved(p, nil)
	}
	return moved(count(p, row.Next), next(row.Next, v.Crew[row.Next.Role()], messages))
}

// park is the move to needs_human; everything else stays, so that retry finds it.
func park(p turns.Paired, reason string) turns.Plan {
	p.From, p.Status, p.Reason = p.Status, turns.NeedsHuman, reason
	return moved(p, nil)
}

// moved is the one place that raises a version.
func moved(p turns.Paired, n *turns.Next) turns.Plan {
	p.Version++
	return turns.Plan{Paired: p, Moved: true, Next: n}
}

// count adds a turn that is opened to the counters that do not belong to a row.
func count(p turns.Paired, opened turns.Intent) turns.Paired {
	p.Turns++
	if opened == turns.Arbitrate {
		p.Arbitrations++
	}
	return p
}

func next(i turns.Intent, s turns.Seat, messages int) *turns.Next {
	return &turns.Next{Role: i.Role(), Intent: i, Services: s.Services, Limits: s.Limits, Messages: messages}
}

func (c Count) apply(rounds int) int {
	switch c {
	case Raise:
		return rounds + 1
	case Restart:
		return 0
	}
	return rounds
}

// stepAfter remembers the tree of the owner's last step_done. Other outcomes leave
// it, so that the same step can't be reported twice around a review.
func stepAfter(p turns.Paired, e turns.Ending) string {
	if e.Outcome == turns.StepDone {
		return stepMark(e.Tree)
	}
	return p.StepTree
}

// acceptedAfter is the accepted tree in p's new status: the tree at the start
// of the approving run, none once the work is open again.
func acceptedAfter(p turns.Paired, e turns.Ending) string {
	switch p.Status {
	case turns.MergeReady:
		return e.StartTree
	case turns.PairCompleted:
		return p.Accepted
	}
	return ""
}

// misfit says why a completed turn can't be a move of its paired task, or nothing.
func misfit(v turns.View) string {
	t, o := v.Turn, v.Ending.Outcome
	if err := turns.CheckRole(t.Role, t.Intent); err != nil {
		return fmt.Sprintf("turn %s can't be resolved: %v", t.ID, err)
	}
	if statusOf[t.Intent] != v.Paired.Status {
		return fmt.Sprintf("turn %s (%s) does not belong to a task that is %s", t.ID, t.Intent, v.Paired.Status)
	}
	if o == "" {
		return fmt.Sprintf("turn %s of the %s completed without a verdict", t.ID, t.Role)
	}
	if _, err := turns.ParseOutcome(t.Role, string(o)); err != nil {
		return fmt.Sprintf("turn %s: %v", t.ID, err)
	}
	return ""
}

// noArbitration says why no arbiter can be asked, or nothing.
func noArbitration(v turns.View) string {
	switch limit := v.Rules.WithDefaults().Arbitrations; {
	case len(v.Crew[turns.Arbiter].Services) == 0:
		return fmt.Sprintf("an arbiter is needed (%s said %s) and none is configured", v.Turn.Role, v.Ending.Outcome)
	case v.Paired.Arbitrations >= limit:
		return fmt.Sprintf("all %d arbitrations are used up", limit)
	}
	return ""
}

// noTurn says why no further turn of the role can be opened, or nothing.
func noTurn(v turns.View, r turns.Role) string {
	switch limit := v.Rules.WithDefaults().Turns; {
	case len(v.Crew[r].Services) == 0:
		return fmt.Sprintf("no service is configured for the %s", r)
	case v.Paired.Turns >= limit:
		return fmt.Sprintf("all %d turns are used up", limit)
	}
	return ""
}

// unfinished tells a person what became of a turn without a result.
func unfinished(v turns.View) string {
	s := fmt.Sprintf("turn %s of the %s was %s", v.Turn.ID, v.Turn.Role, v.Ending.State)
	if v.Ending.State == turns.Failed {
		s = fmt.Sprintf("turn %s of the %s failed", v.Turn.ID, v.Turn.Role)
		if v.Ending.Class != "" {
			s += " (" + string(v.Ending.Class) + ")"
		}
	}
	return s + quote(v.Ending.Reason)
}

// maxQuote bounds what a reason repeats of an agent's words, in characters.
const maxQuote = 500

// quote appends somebody's words to a reason, on one line and bounded.
func quote(words string) string {
	runes := []rune(strings.Join(strings.Fields(words), " "))
	switch {
	case len(runes) == 0:
		return ""
	case len(runes) > maxQuote:
		runes = append(runes[:maxQuote-1], '…')
	}
	return ": " + string(runes)
}

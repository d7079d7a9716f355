package model

import (
	"slices"

	"rota/handlers"
	"rota/pairs"
	"rota/turns"
)

// The numbers that stand for the domain's words.
var (
	serviceOf = []string{"", "a", "b"}
	roleOf    = []turns.Role{"", turns.Owner, turns.Reviewer, turns.Arbiter}
	intentOf  = append([]turns.Intent{""}, turns.Intents...)
	statusOf  = append([]turns.PairedStatus{""}, turns.PairedStatuses...)
	causeOf   = append([]turns.Cause{""}, turns.Causes...)
	classOf   = []turns.Class{"", "", turns.ClassCrash, turns.ClassConfig, turns.ClassLost}
)

func numberOf[T comparable](list []T, v T) uint8 { return uint8(slices.Index(list, v)) }

// Limits are the budgets of the small world, so low that each can be used up.
var limits = turns.Limits{Deliveries: 2, Attempts: 1, Losses: 1, Reminders: 1}.WithDefaults()

// seats are the roles of the small world: the owner has a fallback, and nobody arbitrates.
var seats = turns.Crew{
	turns.Owner:    {Services: []string{"a", "b"}, Limits: limits},
	turns.Reviewer: {Services: []string{"b"}, Limits: limits},
}

var rules = turns.Rules{Rounds: 2, Arbitrations: 1, Turns: 2}

// planKey is all of a turn's end that the plan can see here.
type planKey struct{ State, Outcome, Role, Intent, Status, From, Rounds, Turned, Messages uint8 }

// planned is what the end means.
type planned struct {
	Status, From, Rounds, Turned uint8
	Moved                        bool
	Role, Intent                 uint8 // of the next turn; 0 for none
	Messages                     uint8
}

// judge remembers the answers of the real decisions, which are pure.
type judge struct {
	plans     map[planKey]planned
	decisions map[decisionKey]handlers.Decision
}

func newJudge() *judge {
	return &judge{plans: map[planKey]planned{}, decisions: map[decisionKey]handlers.Decision{}}
}

// plan asks the real workflow.
func (j *judge) plan(k planKey) planned {
	if p, ok := j.plans[k]; ok {
		return p
	}
	e := turns.Ending{State: stateOf[k.State]}
	if k.State == completed {
		e.Outcome = successOf(roleOf[k.Role])
	}
	v := turns.View{
		Turn:   turns.Turn{ID: "m/1", Paired: "m#1", Role: roleOf[k.Role], Intent: intentOf[k.Intent]},
		Ending: e, Messages: int(k.Messages), Crew: seats, Rules: rules,
		Paired: turns.Paired{ID: "m#1", Status: statusOf[k.Status], From: statusOf[k.From], Rounds: int(k.Rounds), Turns: int(k.Turned)},
	}
	got := pairs.Plan(v)
	p := planned{Status: numberOf(statusOf, got.Paired.Status), From: numberOf(statusOf, got.Paired.From),
		Rounds: uint8(got.Paired.Rounds), Turned: uint8(got.Paired.Turns), Moved: got.Moved}
	if got.Next != nil {
		p.Role, p.Intent, p.Messages = numberOf(roleOf, got.Next.Role), numberOf(intentOf, got.Next.Intent), uint8(got.Next.Messages)
	}
	j.plans[k] = p
	return p
}

func successOf(r turns.Role) turns.Outcome {
	if r == turns.Reviewer {
		return turns.Approve
	}
	return turns.Done
}

// decisionKey is all of a failed run that the decision can see here.
type decisionKey struct {
	Outcome, Role, Number, Opened, Losses, Service, Cause, Deliveries uint8
	Started                                                           bool
	Route                                                             [maxAttempts]uint8 // services of the attempts
}

// decide asks the real decision about a failed run.
func (j *judge) decide(u *turn, n uint8, outcome uint8, started bool) handlers.Decision {
	a := &u.Attempts[n-1]
	k := decisionKey{Outcome: outcome, Role: u.Role, Number: n, Opened: u.Opened, Losses: u.Losses, Service: a.Service,
		Cause: a.Cause, Deliveries: a.Deliveries, Started: started}
	for i := range n {
		k.Route[i] = u.Attempts[i].Service
	}
	if d, ok := j.decisions[k]; ok {
		return d
	}
	services := seats[roleOf[u.Role]].Services
	var attempts []turns.Attempt
	for i := range n {
		attempts = append(attempts, turns.Attempt{Service: serviceOf[k.Route[i]]})
	}
	c := handlers.Case{
		Turn:    turns.Turn{Limits: limits, Opened: int(u.Opened), Losses: int(u.Losses), Attempt: int(n), Services: services},
		Attempt: turns.Attempt{Service: serviceOf[a.Service], Cause: causeOf[a.Cause], Deliveries: int(a.Deliveries), Progress: turns.ProgressNone},
		Failure: turns.Failure{Class: classOf[outcome]}, Started: started,
	}
	for _, s := range handlers.Ring(services, serviceOf[a.Service]) {
		if handlers.Visits(attempts, s) < 2 {
			c.Services.Next = s
			break
		}
	}
	d := handlers.Decide(c)
	j.decisions[k] = d
	return d
}

// statusFor is the status in which turns of an intent are taken.
func statusFor(intent uint8) turns.PairedStatus {
	switch intentOf[intent] {
	case turns.Review:
		return turns.ReviewReady
	case turns.Finalize:
		return turns.MergeReady
	case turns.Arbitrate:
		return turns.ArbiterRequested
	}
	return turns.Active
}

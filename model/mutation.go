package model

// Mutation takes one guard of the scripts or of their callers away.
type Mutation uint8

// The mutations. Each must be caught.
const (
	None                   Mutation = iota
	SettleWithoutFence              // settle lands whoever holds the attempt, ended or not
	StartWithoutFence               // start does not
	RequeueWithoutFence             // requeue does not
	SuccessorWithoutFence           // replace, delegate and lose do not
	ClaimIgnoresHold                // claim does not look at the thread's hold
	ClaimTakesNoHold                // claim does not set it
	ClaimLiveAttempt                // claim takes an attempt that a run holds
	ClaimAnyService                 // claim does not compare the service
	ClaimKeepsOutbox                // claim leaves the outbox entry
	HeldLooksAtOnce                 // an attempt that is held is looked at again at once
	FenceWithoutTime                // a fence is the stored one plus one
	DeliveriesNotCounted            // claim does not count the delivery
	BudgetNotCounted                // the budget of a successor is not counted
	RequeueForgetsOutbox            // requeue writes no outbox entry
	RequeueKeepsLease               // requeue leaves the lease entry
	SuccessorWithoutOutbox          // a successor gets no outbox entry
	SuccessorTwice                  // a repeated move opens the successor again
	SettleTwice                     // a repeated settle opens the next turn again
	SettleKeepsLease                // settle leaves the lease entry
	DefaultRole                     // the next turn is the owner's, whatever the plan says
	FailureMovesOn                  // a failed turn counts as an outcome
	MessagesNotCompared             // settle does not compare the waiting messages with the plan
	CommandForgotten                // a repeated command opens another turn
	CancelFreesHold                 // cancel frees the hold while the agent may be alive
	RestartFreesHold                // restart does
	HandoffFreesHold                // a person's handoff does
	LoseWithoutLease                // lose does not look at the lease again
	LoseWithoutEntry                // lose believes that a run without a lease entry is dead
	LeaseNeverExpires               // no lease runs out
	HoldNeverExpires                // an amnesty never ends
	FailoverUnseen                  // a pass does not notice that Redis is another server
	CompensateAfterArchive          // the hook runs after asynq has archived
	AcknowledgeFirst                // the relay takes the entry out before it enqueues
	GiveBackFirst                   // the guard gives the run back before the tree is gone
	ReleaseFirst                    // a worker releases the hold before the agent is gone
	LaunchAfterLease                // a guard launches though the lease is over
	HookOnLeaseExpired              // the hook moves the turn when asynq gave its lease up
	StartUnanswered                 // a start without an answer counts as none
	NoRelay                         // nobody looks at the outbox
	mutations                       // their number
)

var mutationNames = [...]string{
	"none", "settle without fence", "start without fence", "requeue without fence", "successor without fence", "claim ignores the hold",
	"claim takes no hold", "claim of a live attempt", "claim by any service", "claim keeps the outbox entry", "held looks at once",
	"fence without time", "deliveries not counted", "budget not counted", "requeue forgets the outbox", "requeue keeps the lease",
	"successor without outbox entry", "successor twice", "settle twice", "settle keeps the lease", "default role", "failure moves on",
	"messages not compared", "command forgotten", "cancel frees the hold", "restart frees the hold", "handoff frees the hold",
	"lose without lease check", "lose without lease entry", "lease never expires", "amnesty never ends", "failover unseen", "compensation after the archive",
	"acknowledged before the enqueue", "given back before the tree is gone", "released before the agent is gone", "launch after the lease",
	"hook on asynq's lapse", "unanswered start", "nobody relays",
}

func (m Mutation) String() string { return mutationNames[m] }

package handlers

import (
	"time"

	"rota/turns"
)

// Case is everything that the decision about a failed run looks at.
type Case struct {
	Turn     turns.Turn
	Attempt  turns.Attempt // Deliveries counts this run's claim; Progress is this run's
	Failure  turns.Failure
	Started  bool // the agent had accepted the prompt
	Probe    bool // the run was the probe of a resting login
	Services Services
	Now      time.Time // Redis' time, as the times of the turn and of the logins are
}

// Services is what is known about where else the turn could go.
type Services struct {
	// OtherLogin says that this service has another usable login.
	OtherLogin bool
	// Next is the next other service of the role's ring with a usable login that a
	// worker serves; empty for none. Each service is offered at most twice a turn.
	Next string
	// Unserved is the next other service whose logins are usable but that no worker
	// serves now; taken with a warning when Next is empty.
	Unserved string
	// First is the service of the role that is usable first when all logins rest,
	// Until when (zero when nobody knows), and Why: cooldown or needs_login.
	First string
	Until time.Time
	Why   string
	// Here is how often a counted attempt of this turn was opened on this service.
	Here int
	// Fresh says that a fresh session was tried in this turn already.
	Fresh bool
	// Refused says that the turn was handed off because of a refusal already.
	Refused bool
}

// Decision is the move that answers a failure.
type Decision struct {
	// Verb is requeue, replace, delegate, settle (the turn fails, by a run that had
	// started) or compensate (it fails, by a run that had not).
	Verb    turns.Verb
	Cause   turns.Cause
	Service string        // of the successor
	Delay   time.Duration // not due before
	Why     string        // for a wait: cooldown or needs_login
	Reason  string        // for people and the log
	// Uncounted: the delivery does not count.
	Uncounted bool
	// Warn: the target is served by no worker now.
	Warn bool
}

// Limits of the decisions that are no budgets of the turn.
const (
	longestBackoff = 60 * time.Second
	// longestPause is the longest per-minute limit that is waited for on the same
	// login; a longer one counts as a used-up quota.
	longestPause = 5 * time.Minute
	defaultPause = 20 * time.Second
	// waitProbe is when a wait without a known end is tried again.
	waitProbe  = 5 * time.Minute
	perService = 2
)

// Decide judges a failed run. It is pure: the same case always gets the same
// answer, in the handler and in the hook. The role is kept in every branch, since
// no branch has a way to name one.
func Decide(c Case) Decision {
	switch c.Failure.Class {
	case turns.ClassShutdown:
		return Decision{Verb: turns.VerbRequeue, Uncounted: true, Reason: "given back: the worker stops"}
	case turns.ClassLost:
		return Decision{Verb: turns.VerbLose, Cause: turns.CauseLost, Service: c.Attempt.Service, Reason: "given back: " + c.Failure.Message}
	case turns.ClassAuth, turns.ClassQuota:
		return c.login()
	case turns.ClassRateLimited:
		return c.pause()
	case turns.ClassOverloaded, turns.ClassServer, turns.ClassNetwork:
		return c.again(time.Second)
	case turns.ClassSessionLost, turns.ClassContextOverflow:
		return c.freshSession()
	case turns.ClassNoVerdict, turns.ClassEmpty:
		return c.remind()
	case turns.ClassConfig, turns.ClassUnresolvable:
		return c.fail("trying again can't help")
	case turns.ClassRefusal:
		if c.Services.Refused {
			return c.fail("another service refused too")
		}
		return c.handoff("refused")
	}
	return c.again(100 * time.Millisecond)
}

// login answers a refused login or a used-up quota: another login, another
// service, or a wait in the same role.
func (c Case) login() Decision {
	if c.Probe {
		// The probe of a resting login failed: the same attempt waits on, uncounted.
		if c.Services.Next == "" && !c.Services.OtherLogin {
			if c.waitLeft() <= 0 {
				return c.fail("waited longer than allowed for a login")
			}
			return Decision{Verb: turns.VerbRequeue, Uncounted: true, Delay: c.restDelay(), Why: c.Services.Why,
				Reason: "the login still rests"}
		}
	}
	if c.Services.OtherLogin && c.budgetLeft() {
		return Decision{Verb: turns.VerbReplace, Cause: turns.CauseRotate, Service: c.Attempt.Service,
			Reason: "another login of the same service"}
	}
	if d, ok := c.next("login refused or used up"); ok {
		return d
	}
	return c.wait()
}

// wait opens the one attempt that waits, on the service usable first.
func (c Case) wait() Decision {
	if !c.capLeft() {
		return c.fail("no login is usable, and no attempt is left to wait in")
	}
	service := c.Services.First
	if service == "" {
		service = c.Attempt.Service
	}
	why := c.Services.Why
	if why == "" {
		why = "needs_login"
	}
	d := Decision{Verb: turns.VerbReplace, Cause: turns.CauseWait, Service: service, Delay: c.restDelay(), Why: why,
		Reason: "no login is usable"}
	if service != c.Attempt.Service {
		d.Verb = turns.VerbDelegate
	}
	return d
}

// restDelay is when the wait is looked at again: when a login is usable, and not
// after the end of the wait, which is the end of the turn.
func (c Case) restDelay() time.Duration {
	delay := waitProbe
	if !c.Services.Until.IsZero() {
		delay = c.Services.Until.Sub(c.Now)
	}
	return max(time.Second, min(delay, c.waitLeft()))
}

// waitLeft is how much longer the turn may wait for a login.
func (c Case) waitLeft() time.Duration {
	left := c.Turn.Limits.WithDefaults().Wait
	if !c.Turn.WaitSince.IsZero() {
		left -= c.Now.Sub(c.Turn.WaitSince)
	}
	return left
}

// pause answers a per-minute limit: the same login a little later, then as quota.
// An earlier delivery that failed for another reason says nothing about the limit.
func (c Case) pause() Decision {
	after := c.Failure.RetryAfter
	if after == 0 && !c.Failure.ResetsAt.IsZero() {
		after = max(0, c.Failure.ResetsAt.Sub(c.Now))
	}
	if after == 0 {
		after = defaultPause
	}
	if after > longestPause || c.Attempt.Class == turns.ClassRateLimited || c.Attempt.Deliveries >= c.Turn.Limits.Deliveries {
		return c.login()
	}
	if c.Attempt.Progress.Below(turns.ProgressTools) {
		return Decision{Verb: turns.VerbRequeue, Delay: after, Reason: "limited per minute"}
	}
	if c.budgetLeft() && c.Services.Here < perService {
		return Decision{Verb: turns.VerbReplace, Cause: turns.CauseRetry, Service: c.Attempt.Service, Delay: after, Reason: "limited per minute"}
	}
	return c.login()
}

// again answers what may pass: another delivery while nothing was done, else a
// further attempt; then another service; else the end.
func (c Case) again(first time.Duration) Decision {
	if c.Attempt.Progress.Below(turns.ProgressTools) {
		if c.Attempt.Deliveries < c.Turn.Limits.Deliveries {
			return Decision{Verb: turns.VerbRequeue, Delay: max(c.Failure.RetryAfter, Backoff(first, c.Attempt.Deliveries)),
				Reason: "another delivery may help"}
		}
	} else if c.budgetLeft() && c.Services.Here < perService {
		return Decision{Verb: turns.VerbReplace, Cause: turns.CauseRetry, Service: c.Attempt.Service,
			Delay: Backoff(first, c.Services.Here+1), Reason: "tried again after tools had run"}
	}
	return c.handoff("tried as often as allowed")
}

func (c Case) freshSession() Decision {
	if !c.Services.Fresh && c.budgetLeft() {
		return Decision{Verb: turns.VerbReplace, Cause: turns.CauseFreshSession, Service: c.Attempt.Service, Reason: "with a fresh session"}
	}
	return c.handoff("a fresh session did not help")
}

func (c Case) remind() Decision {
	if c.Turn.Reminders < c.Turn.Limits.Reminders && c.capLeft() {
		return Decision{Verb: turns.VerbReplace, Cause: turns.CauseReminder, Service: c.Attempt.Service, Reason: "reminded of the verdict"}
	}
	return c.fail("no reminder is left")
}

func (c Case) handoff(why string) Decision {
	if d, ok := c.next(why); ok {
		return d
	}
	return c.fail(why + "; no other service is left")
}

func (c Case) next(why string) (Decision, bool) {
	target, warn := c.Services.Next, false
	if target == "" {
		target, warn = c.Services.Unserved, true
	}
	if target == "" || target == c.Attempt.Service || !c.budgetLeft() {
		return Decision{}, false
	}
	return Decision{Verb: turns.VerbDelegate, Cause: turns.CauseHandoff, Service: target, Reason: why, Warn: warn}, true
}

// fail ends the turn: by the run's own settle when it had started, else as a dead
// letter, whose compensation the hook makes before asynq archives the task.
func (c Case) fail(why string) Decision {
	d := Decision{Verb: turns.VerbCompensate, Reason: why}
	if c.Started {
		d.Verb = turns.VerbSettle
	}
	return d
}

func (c Case) budgetLeft() bool {
	return c.Turn.Opened < c.Turn.Limits.Attempts && c.capLeft()
}

func (c Case) capLeft() bool { return c.Turn.Attempt < turns.AttemptCap }

// Backoff returns first·2ⁿ⁻¹ for the n-th delivery, at most a minute. Jitter is
// added where it is used.
func Backoff(first time.Duration, n int) time.Duration {
	d := first
	for range min(max(n, 1)-1, 20) {
		if d *= 2; d >= longestBackoff {
			return longestBackoff
		}
	}
	return d
}

// String is the decision as the log has it, such as "requeue in 100ms" or
// "delegate handoff to codex-review".
func (d Decision) String() string {
	text := string(d.Verb)
	if d.Cause != "" {
		text += " " + string(d.Cause)
	}
	if d.Service != "" {
		text += " to " + d.Service
	}
	if d.Delay != 0 {
		text += " in " + d.Delay.String()
	}
	return text
}

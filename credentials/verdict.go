package credentials

import (
	"context"
	"time"

	"rota/turns"
)

// Verdict is what became of a login after a failure.
type Verdict struct {
	State State
	// Until is the predicted end of the rest, Probe the next time a run may try
	// the login; both zero unless it rests.
	Until, Probe time.Time
}

// How a failure makes a login rest.
const (
	firstMinute  = 30 * time.Second // a limit per minute
	firstAuth    = time.Minute
	firstQuota   = 5 * time.Minute
	longest      = 8 * 24 * time.Hour // no provider's limit is longer than a week
	nextProbe    = 30 * time.Second   // after a probe that ended without news
	scopeDefault = "credential"
)

// Failed says that the run of a choice failed. Failures that say nothing about
// the login (crash, network, shutdown and so on) only end a probe. A repeat for
// the same run changes nothing.
func (c *Credentials) Failed(ctx context.Context, choice Choice, failure *turns.Failure) (Verdict, error) {
	kind, first := effect(failure)
	if kind == "disable" && choice.fingerprint == "" {
		kind = "cool" // nobody would see it change
	}
	names := c.rests(choice.Credential, choice.Service)
	name := names[0]
	switch failure.Scope {
	case "model":
		name = names[1]
	case "organisation":
		name = names[2]
	case "host":
		name = names[3]
	}
	if kind == "disable" && failure.Scope != scopeDefault && failure.Scope != "" && failure.Scope != "organisation" {
		kind = "cool" // a model or a host is never dead
	}
	if kind == "disable" {
		name = names[0]
		c.forget(choice.Credential)
	}
	keys := []string{restsKey, restKey(name)}
	for _, n := range names {
		keys = append(keys, restKey(n))
	}
	var named int64
	if !failure.ResetsAt.IsZero() {
		named = failure.ResetsAt.UnixMilli()
	}
	answer, err := c.run(ctx, failScript, keys, name, choice.Run, kind, string(failure.Class), named, ms(failure.RetryAfter),
		ms(first), ms(c.config.Ceiling), ms(longest), ms(nextProbe), choice.fingerprint, choice.Credential)
	if err != nil {
		return Verdict{}, err
	}
	if answer[0] == "neutral" {
		return Verdict{State: StateUsable}, nil
	}
	return Verdict{State: State(answer[1]), Until: at(answer[2]), Probe: at(answer[3])}, nil
}

// effect says what a failure means for a login, and how long a first rest is
// when the provider names no time.
func effect(f *turns.Failure) (kind string, first time.Duration) {
	switch f.Class {
	case turns.ClassAuth:
		if f.Dead {
			return "disable", firstAuth
		}
		return "cool", firstAuth
	case turns.ClassQuota:
		return "cool", firstQuota
	case turns.ClassRateLimited:
		return "cool", firstMinute
	}
	return "neutral", 0
}

// Succeeded says that the provider served the run of a choice: its rests end.
// A run that probes says so as soon as it knows, others at their end. changed
// is true when a rest ended: attempts that wait for a login of ServicesOf the
// credential are due now.
func (c *Credentials) Succeeded(ctx context.Context, choice Choice) (changed bool, err error) {
	names := c.rests(choice.Credential, choice.Service)
	keys := []string{restsKey}
	args := []any{choice.Run, choice.Picked.UnixMilli()}
	for _, name := range names {
		keys = append(keys, restKey(name))
		args = append(args, name)
	}
	answer, err := c.run(ctx, succeedScript, keys, args...)
	return err == nil && answer[1] != "0", err
}

package credentials

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Reason says what a service waits for when none of its logins is usable.
type Reason string

// The reasons.
const (
	Cooldown   Reason = "cooldown"    // a login rests
	NeedsLogin Reason = "needs_login" // a person must act: no login can be read, or all are dead
)

// None says that a service has no usable login now.
type None struct {
	Service string
	Reason  Reason
	// Until is when to ask again at the latest, by Redis' clock.
	Until time.Time
	// Problems says which logins can't be read on this host; no text of a login is in it.
	Problems error
}

func (n *None) Error() string {
	text := fmt.Sprintf("service %s has no usable login until %s (%s)", n.Service, n.Until.UTC().Format(time.RFC3339), n.Reason)
	if n.Reason == NeedsLogin {
		text = fmt.Sprintf("service %s needs a login", n.Service)
	}
	if n.Problems != nil {
		text += ": " + n.Problems.Error()
	}
	return text
}

// Choice is a login for one run. It holds no part of the login itself.
type Choice struct {
	Credential string // its id
	Service    string
	Run        string
	Probe      bool      // this run alone tries a login that rests
	Picked     time.Time // by Redis' clock

	fingerprint string
	owner       *Credentials
}

// Load returns the environment variables of the login, for the agent of this
// run alone; nil for the program's own login. It reads the login anew; what a
// command printed counts for a minute.
func (c Choice) Load(ctx context.Context) (map[string]string, error) {
	return c.owner.load(ctx, c.Credential, c.Service)
}

// Pick chooses a login of the service for a run: of those that are usable, the
// one that was not used for longest. A resting one is given to one run as a
// probe; before its predicted end only when no other login is usable. Whoever
// gets a Choice ends it with Failed or Succeeded. When no login is usable the
// error is a *None.
func (c *Credentials) Pick(ctx context.Context, service, run string) (Choice, error) {
	if run == "" {
		return Choice{}, errors.New("credentials: pick without a run")
	}
	return c.pick(ctx, "pick", service, run)
}

// Standing is whether a service has a login.
type Standing struct {
	Service string
	None    *None // nil: usable now
}

// Knows reports whether a service stands in the configuration.
func (c *Credentials) Knows(service string) bool {
	_, ok := c.config.Services[service]
	return ok
}

// Usable says of each service whether Pick would find a login, and changes
// nothing.
func (c *Credentials) Usable(ctx context.Context, services ...string) ([]Standing, error) {
	var all []Standing
	for _, service := range services {
		_, err := c.pick(ctx, "peek", service, "")
		none, isNone := errors.AsType[*None](err)
		if err != nil && !isNone {
			return nil, err
		}
		all = append(all, Standing{service, none})
	}
	return all, nil
}

func (c *Credentials) pick(ctx context.Context, mode, service, run string) (Choice, error) {
	q, err := c.question(ctx, mode, service, run)
	if err != nil {
		return Choice{}, err
	}
	answer, err := c.run(ctx, pickScript, q.keys, q.args...)
	if err != nil {
		return Choice{}, err
	}
	if answer[0] == "none" {
		return Choice{}, &None{Service: service, Reason: Reason(answer[1]), Until: at(answer[2]), Problems: joinLine(q.problems)}
	}
	return c.choice(q, answer), nil
}

// question is what the pick script is asked about a service's logins.
type question struct {
	service, run string
	keys         []string
	args         []any
	prints       map[string]string // login -> fingerprint, of those that can be read
	problems     []error
}

func (c *Credentials) question(ctx context.Context, mode, service, run string) (question, error) {
	q := question{service: service, run: run, keys: []string{usedKey}, prints: map[string]string{}}
	if _, ok := c.config.Services[service]; !ok {
		return q, fmt.Errorf("credentials: there is no service %q", service)
	}
	q.args = []any{mode, run, ms(c.config.Bound), ms(c.config.Ceiling)}
	for _, id := range c.logins(service) {
		print, err := c.ready(ctx, id, service)
		if ctx.Err() != nil {
			return q, context.Cause(ctx)
		}
		if errors.Is(err, errRedis) {
			return q, err
		}
		if err != nil {
			q.problems = append(q.problems, err)
			continue
		}
		q.prints[id] = print
		for _, name := range c.rests(id, service) {
			q.keys = append(q.keys, restKey(name))
		}
		q.args = append(q.args, id, print)
	}
	return q, nil
}

func (c *Credentials) choice(q question, answer []string) Choice {
	return Choice{Credential: answer[1], Service: q.service, Run: q.run, Probe: answer[2] == "probe", Picked: at(answer[3]),
		fingerprint: q.prints[answer[1]], owner: c}
}

// ready returns the fingerprint of a login that can be given to an agent.
func (c *Credentials) ready(ctx context.Context, id, service string) (string, error) {
	if _, err := c.load(ctx, id, service); err != nil {
		return "", err
	}
	return c.fingerprint(ctx, id, service)
}

// joinLine joins errors on one line.
func joinLine(errs []error) error {
	var all error
	for _, err := range errs {
		if all == nil {
			all = err
			continue
		}
		all = fmt.Errorf("%w; %w", all, err)
	}
	return all
}

func ms(d time.Duration) int64 { return d.Milliseconds() }

// at reads a time in milliseconds; nothing and 0 are the zero time.
func at(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n == 0 {
		return time.Time{}
	}
	return time.UnixMilli(n)
}

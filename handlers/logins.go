package handlers

import (
	"context"
	"slices"
	"strings"
	"time"

	"rota/credentials"
	"rota/internal/redact"
	"rota/turns"
)

// loginWorked ends the rests that the run's login probed. A login that is chosen
// without a probe has no rest, and one that begins later stays: nothing to say.
func (h *Handler) loginWorked(ctx context.Context, w *work) {
	if w.choice == nil || !w.choice.Probe {
		return
	}
	changed, err := h.Credentials.Succeeded(ctx, *w.choice)
	if err != nil {
		h.Log.Warn("login's success not noted", "credential", w.choice.Credential, "err", err)
		return
	}
	if changed && h.LoginBack != nil {
		h.LoginBack(ctx, h.Credentials.ServicesOf(w.choice.Credential))
	}
}

// loginFailed notes what the failure says about the run's login; most failures say
// nothing and only end a probe.
func (h *Handler) loginFailed(ctx context.Context, w *work, f *turns.Failure) {
	if w.choice == nil {
		return
	}
	if _, err := h.Credentials.Failed(ctx, *w.choice, f); err != nil {
		h.Log.Warn("login's failure not noted", "credential", w.choice.Credential, "err", err)
	}
}

// loginSpared ends the run's use of its login without a word about it: a person
// ended the run.
func (h *Handler) loginSpared(ctx context.Context, w *work) {
	h.loginFailed(ctx, w, turns.Fail(turns.ClassShutdown, "ended by a person"))
}

// shortestSecret is the shortest text of a login that is hidden: a shorter one is
// no secret, and stands in innocent words.
const shortestSecret = 8

// hiding takes a login out of what its agent says, whatever shape it has. What an
// agent prints is stored and shown, and a program may print its own login.
func hiding(login map[string]string) *strings.Replacer {
	var pairs []string
	for _, secret := range login {
		if len(secret) >= shortestSecret {
			pairs = append(pairs, secret, redact.Mark)
		}
	}
	if pairs == nil {
		return nil
	}
	return strings.NewReplacer(pairs...)
}

func (w *work) hidden(text string) string {
	if w.hide == nil {
		return text
	}
	return w.hide.Replace(text)
}

// judge gathers what the decision about a failure looks at.
func (h *Handler) judge(ctx context.Context, w *work, f turns.Failure) (Case, error) {
	r, err := retry(ctx, func() (recordsAnd, error) {
		r, err := h.Store.Records(ctx, w.records.Turn.ID, w.records.Attempt.Number)
		if err != nil {
			return recordsAnd{}, err
		}
		attempts, err := h.Store.Attempts(ctx, r.Turn)
		if err != nil {
			return recordsAnd{}, err
		}
		now, err := h.Store.Now(ctx, r.Turn.Thread)
		return recordsAnd{r.Turn, r.Attempt, attempts, now}, err
	})
	if err != nil {
		return Case{}, err
	}
	c := Case{
		Turn: r.turn, Attempt: r.attempt, Failure: f, Started: w.hasStarted(),
		Probe: r.attempt.Cause == turns.CauseWait, Now: r.now,
	}
	c.Attempt.Progress = w.live.level()
	for _, a := range r.attempts {
		if a.Service == h.Service && a.Cause == turns.CauseRetry {
			c.Services.Here++
		}
		if a.Cause == turns.CauseFreshSession {
			c.Services.Fresh = true
		}
		if a.State == turns.Delegated && a.Class == turns.ClassRefusal {
			c.Services.Refused = true
		}
	}
	return c, h.outlook(ctx, &c, r.attempts)
}

type recordsAnd struct {
	turn     turns.Turn
	attempt  turns.Attempt
	attempts []turns.Attempt
	now      time.Time // Redis' time
}

// outlook finds where else the turn could go: the other services of the role's
// ring, from the present one on, each at most twice a turn. Of one that the
// configuration has lost since the turn was opened nothing is known: it is a way
// out only while a worker serves it.
func (h *Handler) outlook(ctx context.Context, c *Case, attempts []turns.Attempt) error {
	ring := Ring(c.Turn.Services, c.Attempt.Service)
	known := func(service string) bool { return h.Credentials == nil || h.Credentials.Knows(service) }
	standings := map[string]*credentials.None{}
	if h.Credentials != nil {
		lost := func(service string) bool { return !known(service) }
		list, err := h.Credentials.Usable(ctx, slices.DeleteFunc(slices.Clone(c.Turn.Services), lost)...)
		if err != nil {
			return err
		}
		for _, s := range list {
			standings[s.Service] = s.None
		}
	}
	c.Services.OtherLogin = h.Credentials != nil && standings[h.Service] == nil
	for _, service := range c.Turn.Services {
		none := standings[service]
		if none == nil {
			continue
		}
		if c.Services.First == "" || (!none.Until.IsZero() && none.Until.Before(c.Services.Until)) {
			c.Services.First, c.Services.Until, c.Services.Why = service, none.Until, string(none.Reason)
		}
	}
	for _, service := range ring {
		if standings[service] != nil || Visits(attempts, service) >= perService {
			continue
		}
		served, err := h.Served(ctx, service)
		if err != nil {
			return err
		}
		if served {
			c.Services.Next = service
			return nil
		}
		if c.Services.Unserved == "" && known(service) {
			c.Services.Unserved = service
		}
	}
	return nil
}

// Ring returns the other services of a role, from the one after service on.
func Ring(services []string, service string) []string {
	at := -1
	for i, s := range services {
		if s == service {
			at = i
		}
	}
	var ring []string
	for i := 1; i <= len(services); i++ {
		if s := services[(at+i+len(services))%len(services)]; s != service {
			ring = append(ring, s)
		}
	}
	return ring
}

// Visits counts how often a turn came to a service: attempts on it in a row are
// one visit.
func Visits(attempts []turns.Attempt, service string) int {
	n, last := 0, ""
	for _, a := range attempts {
		if a.Service == service && last != service {
			n++
		}
		last = a.Service
	}
	return n
}

package handlers

import (
	"testing"
	"time"

	"rota/turns"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func base(class turns.Class) Case {
	return Case{
		Turn: turns.Turn{ID: "a/2", Role: turns.Reviewer, Services: []string{"claude", "codex-review"},
			Limits: turns.DefaultLimits, Attempt: 1},
		Attempt: turns.Attempt{ID: "a/2.1", Service: "claude", Cause: turns.CauseInitial, Deliveries: 1, Progress: turns.ProgressNone},
		Failure: turns.Failure{Class: class}, Now: noon,
	}
}

// The decisions on class and progress, row by row.
func TestDecide(t *testing.T) {
	type change func(*Case)
	next := func(c *Case) { c.Services.Next = "codex-review" }
	unserved := func(c *Case) { c.Services.Unserved = "codex-review" }
	other := func(c *Case) { c.Services.OtherLogin = true }
	tools := func(c *Case) { c.Attempt.Progress = turns.ProgressTools; c.Started = true }
	started := func(c *Case) { c.Started = true }
	lastDelivery := func(c *Case) { c.Attempt.Deliveries = turns.DefaultLimits.Deliveries }
	noBudget := func(c *Case) { c.Turn.Opened = turns.DefaultLimits.Attempts }
	second := func(before turns.Class) change {
		return func(c *Case) { c.Attempt.Deliveries, c.Attempt.Class = 2, before }
	}
	twiceHere := func(c *Case) { c.Services.Here = perService }
	resting := func(c *Case) {
		c.Services.First, c.Services.Until, c.Services.Why = "codex-review", noon.Add(time.Hour), "cooldown"
	}
	probe := func(c *Case) { c.Attempt.Cause = turns.CauseWait; c.Probe = true }
	waited := func(d time.Duration) change { return func(c *Case) { c.Turn.WaitSince = noon.Add(-d) } }
	for _, row := range []struct {
		name  string
		class turns.Class
		with  []change
		verb  turns.Verb
		cause turns.Cause
		to    string
	}{
		{"auth, another login", turns.ClassAuth, []change{other, next}, turns.VerbReplace, turns.CauseRotate, "claude"},
		{"auth, another service", turns.ClassAuth, []change{next}, turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"auth, an unserved service", turns.ClassAuth, []change{unserved}, turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"auth, nobody left", turns.ClassAuth, nil, turns.VerbReplace, turns.CauseWait, "claude"},
		{"auth, nobody left, another is usable first", turns.ClassAuth, []change{resting}, turns.VerbDelegate, turns.CauseWait, "codex-review"},
		{"auth, no budget: waits, never fails at once", turns.ClassAuth, []change{other, next, noBudget}, turns.VerbReplace, turns.CauseWait, "claude"},
		{"auth, nobody left, every attempt used", turns.ClassAuth, []change{func(c *Case) { c.Turn.Attempt = turns.AttemptCap }}, turns.VerbCompensate, "", ""},
		{"a failed probe waits on", turns.ClassAuth, []change{probe}, turns.VerbRequeue, "", ""},
		{"a failed probe at the end of the wait", turns.ClassAuth, []change{probe, waited(24 * time.Hour)}, turns.VerbCompensate, "", ""},
		{"a failed probe at the end of the wait, another service", turns.ClassAuth, []change{probe, next, waited(24 * time.Hour)},
			turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"quota, another service", turns.ClassQuota, []change{next}, turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"limited per minute", turns.ClassRateLimited, []change{next}, turns.VerbRequeue, "", ""},
		{"limited after a failure of the network", turns.ClassRateLimited, []change{next, second(turns.ClassNetwork)}, turns.VerbRequeue, "", ""},
		{"limited again", turns.ClassRateLimited, []change{next, second(turns.ClassRateLimited)}, turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"limited, deliveries used", turns.ClassRateLimited, []change{next, lastDelivery}, turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"limited for an hour", turns.ClassRateLimited, []change{next, func(c *Case) { c.Failure.RetryAfter = time.Hour }}, turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"overloaded", turns.ClassOverloaded, []change{next}, turns.VerbRequeue, "", ""},
		{"server, deliveries used", turns.ClassServer, []change{next, lastDelivery}, turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"network, deliveries used, alone", turns.ClassNetwork, []change{lastDelivery}, turns.VerbCompensate, "", ""},
		{"network while running, deliveries used, alone", turns.ClassNetwork, []change{lastDelivery, started}, turns.VerbSettle, "", ""},
		{"session lost", turns.ClassSessionLost, nil, turns.VerbReplace, turns.CauseFreshSession, "claude"},
		{"session lost again", turns.ClassSessionLost, []change{next, func(c *Case) { c.Services.Fresh = true }}, turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"context overflow", turns.ClassContextOverflow, nil, turns.VerbReplace, turns.CauseFreshSession, "claude"},
		{"config, before the start", turns.ClassConfig, []change{next}, turns.VerbCompensate, "", ""},
		{"config, while running", turns.ClassConfig, []change{next, started}, turns.VerbSettle, "", ""},
		{"no verdict", turns.ClassNoVerdict, []change{started}, turns.VerbReplace, turns.CauseReminder, "claude"},
		{"no verdict, reminders used", turns.ClassNoVerdict, []change{started, next, func(c *Case) { c.Turn.Reminders = 2 }}, turns.VerbSettle, "", ""},
		{"empty", turns.ClassEmpty, []change{started}, turns.VerbReplace, turns.CauseReminder, "claude"},
		{"crash", turns.ClassCrash, []change{next}, turns.VerbRequeue, "", ""},
		{"crash after tools", turns.ClassCrash, []change{tools, next}, turns.VerbReplace, turns.CauseRetry, "claude"},
		{"crash after tools, twice here", turns.ClassCrash, []change{tools, next, twiceHere}, turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"crash after tools, nothing left", turns.ClassCrash, []change{tools, twiceHere}, turns.VerbSettle, "", ""},
		{"timeout, last delivery", turns.ClassTimeout, []change{lastDelivery, next}, turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"something new", "weather", []change{next}, turns.VerbRequeue, "", ""},
		{"refusal", turns.ClassRefusal, []change{started, next}, turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"refusal after a handoff for another reason", turns.ClassRefusal, []change{started, next, func(c *Case) { c.Attempt.Cause = turns.CauseHandoff }},
			turns.VerbDelegate, turns.CauseHandoff, "codex-review"},
		{"refusal after a refusal", turns.ClassRefusal, []change{started, next, func(c *Case) { c.Services.Refused = true }}, turns.VerbSettle, "", ""},
		{"shutdown", turns.ClassShutdown, []change{tools, lastDelivery, noBudget}, turns.VerbRequeue, "", ""},
		{"lost", turns.ClassLost, []change{next}, turns.VerbLose, turns.CauseLost, "claude"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := base(row.class)
			for _, with := range row.with {
				with(&c)
			}
			d := Decide(c)
			if d.Verb != row.verb || d.Cause != row.cause || d.Service != row.to {
				t.Errorf("decided %s", d)
			}
			if d.Reason == "" && d.Verb != turns.VerbLose {
				t.Error("no reason is given")
			}
		})
	}
}

// Whatever the case, a decision is a legal move of the run's state, and budgets
// are kept.
func TestDecideIsAlwaysLegal(t *testing.T) {
	for _, class := range turns.Classes {
		for mask := range 1 << 9 {
			bit := func(i int) bool { return mask>>i&1 == 1 }
			c := base(class)
			c.Started = bit(0)
			if bit(1) {
				c.Services.Next = "codex-review"
			}
			c.Services.OtherLogin = bit(2)
			if bit(3) {
				c.Attempt.Progress = turns.ProgressTools
			}
			if bit(4) {
				c.Attempt.Deliveries = c.Turn.Limits.Deliveries
			}
			if bit(5) {
				c.Turn.Opened = c.Turn.Limits.Attempts
			}
			if bit(6) {
				c.Turn.Attempt = turns.AttemptCap
			}
			if bit(7) {
				c.Attempt.Cause, c.Probe = turns.CauseWait, true
			}
			c.Services.Fresh = bit(8)
			d := Decide(c)
			from := turns.Starting
			if c.Started {
				from = turns.Running
			}
			move := turns.Moves[d.Verb]
			legal := false
			for _, to := range move.To {
				legal = legal || turns.Legal(d.Verb, from, to)
			}
			if !legal {
				t.Fatalf("%s %b: %s is no move of a %s attempt", class, mask, d.Verb, from)
			}
			if d.Cause.Counted() && (bit(5) || bit(6)) {
				t.Fatalf("%s %b: %s opens a counted attempt without budget", class, mask, d)
			}
			if bit(6) && (d.Verb == turns.VerbReplace || d.Verb == turns.VerbDelegate) {
				t.Fatalf("%s %b: %s opens an attempt above the cap", class, mask, d)
			}
			if d.Verb == turns.VerbRequeue && !d.Uncounted && bit(4) {
				t.Fatalf("%s %b: requeued without a delivery left", class, mask)
			}
		}
	}
}

// A wait is looked at when a login is usable again, but at its end at the latest.
func TestDelayOfAWait(t *testing.T) {
	for _, row := range []struct {
		name          string
		until, waited time.Duration
		want          time.Duration
	}{
		{"nobody knows", 0, 0, waitProbe},
		{"a known end", time.Hour, time.Hour, time.Hour},
		{"the end was a moment ago", -time.Minute, time.Hour, time.Second},
		{"the wait ends first", time.Hour, 23*time.Hour + 50*time.Minute, 10 * time.Minute},
		{"nobody knows, the wait ends first", 0, 23*time.Hour + 59*time.Minute, time.Minute},
	} {
		c := base(turns.ClassQuota)
		if row.until != 0 {
			c.Services.First, c.Services.Until = "claude", noon.Add(row.until)
		}
		if row.waited != 0 {
			c.Turn.WaitSince = noon.Add(-row.waited)
		}
		if d := Decide(c); d.Cause != turns.CauseWait || d.Delay != row.want {
			t.Errorf("%s: decided %s", row.name, d)
		}
	}
}

func TestRingAndVisits(t *testing.T) {
	if got := Ring([]string{"a", "b", "c"}, "b"); len(got) != 2 || got[0] != "c" || got[1] != "a" {
		t.Error(got)
	}
	if got := Ring([]string{"a"}, "a"); len(got) != 0 {
		t.Error(got)
	}
	at := func(services ...string) (list []turns.Attempt) {
		for _, s := range services {
			list = append(list, turns.Attempt{Service: s})
		}
		return list
	}
	if n := Visits(at("a", "a", "b", "a"), "a"); n != 2 {
		t.Error(n)
	}
}

func TestBackoff(t *testing.T) {
	if Backoff(time.Second, 1) != time.Second || Backoff(time.Second, 4) != 8*time.Second || Backoff(time.Second, 99) != longestBackoff {
		t.Error("back-off")
	}
}

// A decision says what it has, and nothing for the rest.
func TestADecisionInTheLog(t *testing.T) {
	for want, d := range map[string]Decision{
		"requeue in 100ms":                 {Verb: turns.VerbRequeue, Delay: 100 * time.Millisecond},
		"settle":                           {Verb: turns.VerbSettle},
		"delegate handoff to codex-review": {Verb: turns.VerbDelegate, Cause: turns.CauseHandoff, Service: "codex-review"},
		"replace wait to claude in 5m0s":   {Verb: turns.VerbReplace, Cause: turns.CauseWait, Service: "claude", Delay: 5 * time.Minute},
	} {
		if got := d.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

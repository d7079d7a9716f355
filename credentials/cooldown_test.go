package credentials

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"rota/internal/redistest"
	"rota/turns"
)

// clock moves miniredis' time.
type clock struct {
	server *miniredis.Miniredis
	now    time.Time
}

func movedFleet(t *testing.T) (*fleet, *clock) {
	server, rdb := redistest.MiniServer(t)
	c := &clock{server, time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)}
	server.SetTime(c.now)
	return newFleet(t, rdb), c
}

func (c *clock) move(d time.Duration) {
	c.now = c.now.Add(d)
	c.server.SetTime(c.now)
	c.server.FastForward(d)
}

// A provider says five hours, the quota is back after one: the login is tried
// every few minutes and found back at once.
func TestACooldownIsAPrediction(t *testing.T) {
	f, clock := movedFleet(t)
	back := clock.now.Add(5 * time.Hour)
	v := f.fail(f.take("codex"), &turns.Failure{Class: turns.ClassQuota, ResetsAt: back})
	if v.State != StateCooling || !v.Until.Equal(back) || !v.Probe.Equal(clock.now.Add(defaultCeiling)) {
		t.Fatalf("verdict %+v", v)
	}
	for range 6 {
		if none := f.none("codex", Cooldown); !none.Until.Equal(clock.now.Add(defaultCeiling)) {
			t.Errorf("until %v, want %v", none.Until, clock.now.Add(defaultCeiling))
		}
		clock.move(defaultCeiling)
		probe := f.take("codex")
		if !probe.Probe {
			t.Fatal("no probe")
		}
		if none := f.none("codex", Cooldown); !none.Until.Equal(clock.now.Add(defaultBound)) {
			t.Errorf("others wait until %v, want the end of the probe", none.Until)
		}
		f.fail(probe, &turns.Failure{Class: turns.ClassQuota, ResetsAt: back})
	}
	if r := f.state("codex", "credential"); r.Failures != 7 || r.Reason != "quota" || !r.Until.Equal(back) {
		t.Errorf("rest %+v", r)
	}
	clock.move(defaultCeiling)
	if !f.succeed(f.take("codex")) {
		t.Error("a proven login is no change")
	}
	if f.take("codex").Probe || f.state("codex", "credential").State != StateUsable {
		t.Error("not usable after the proof")
	}
}

func TestRestsWithoutANamedEnd(t *testing.T) {
	for _, c := range []struct {
		failure *turns.Failure
		want    []time.Duration
	}{
		{perMinute, []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute}},
		{unauthorized, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute}},
		{quota, []time.Duration{5 * time.Minute, 10 * time.Minute, 10 * time.Minute}},
		{&turns.Failure{Class: turns.ClassRateLimited, RetryAfter: 7 * time.Second}, []time.Duration{7 * time.Second, 7 * time.Second}},
	} {
		f, clock := movedFleet(t)
		for i, want := range c.want {
			v := f.fail(f.take("codex"), c.failure)
			if !v.Until.Equal(clock.now.Add(want)) || !v.Probe.Equal(v.Until) {
				t.Errorf("%s, failure %d: until %v, want in %v", c.failure.Class, i+1, v.Until.Sub(clock.now), want)
			}
			clock.move(want)
		}
	}
	f, clock := movedFleet(t)
	v := f.fail(f.take("codex"), &turns.Failure{Class: turns.ClassQuota, ResetsAt: clock.now.AddDate(10, 0, 0)})
	if !v.Until.Equal(clock.now.Add(longest)) {
		t.Errorf("a date of nonsense is believed: %v", v.Until)
	}
	clock.move(defaultCeiling)
	v = f.fail(f.take("codex"), &turns.Failure{Class: turns.ClassQuota, ResetsAt: clock.now.Add(-time.Hour)})
	if !v.Until.After(clock.now) {
		t.Errorf("a time that is over is no rest: %v", v.Until)
	}
}

// Ten runs on one login fail together: one incident, not ten.
func TestOneIncident(t *testing.T) {
	f, clock := movedFleet(t)
	var choices []Choice
	for range 10 {
		choices = append(choices, f.take("codex"))
	}
	for _, choice := range choices {
		f.fail(choice, unauthorized)
		f.fail(choice, unauthorized)
	}
	if r := f.state("codex", "credential"); r.Failures != 1 || !r.Until.Equal(clock.now.Add(time.Minute)) {
		t.Errorf("rest %+v", r)
	}
}

func TestAProbeWithoutNews(t *testing.T) {
	f, clock := movedFleet(t)
	f.fail(f.take("codex"), unauthorized)
	clock.move(time.Minute)
	probe := f.take("codex")
	f.fail(probe, crash)
	if none := f.none("codex", Cooldown); !none.Until.Equal(clock.now.Add(nextProbe)) {
		t.Errorf("after a crash until %v", none.Until)
	}
	clock.move(nextProbe)
	silent := f.take("codex")
	f.none("codex", Cooldown)
	clock.move(defaultBound)
	next := f.take("codex")
	if !next.Probe || next.Run == silent.Run {
		t.Errorf("after a silent probe %+v", next)
	}
	// The silent one comes back late: it does not end the other's probe.
	f.fail(silent, crash)
	f.none("codex", Cooldown)
	if r := f.state("codex", "credential"); r.State != StateProbing || r.Run != next.Run || r.Failures != 1 {
		t.Errorf("rest %+v", r)
	}
}

// While another login is usable, a resting one is left alone until its
// predicted end, and then takes its part again.
func TestAnEarlyProbeIsTheLastResort(t *testing.T) {
	f, clock := movedFleet(t)
	first := f.take("claude")
	back := clock.now.Add(time.Hour)
	f.fail(first, &turns.Failure{Class: turns.ClassQuota, ResetsAt: back})
	clock.move(30 * time.Minute)
	for range 4 {
		if got := f.take("claude"); got.Credential == first.Credential || got.Probe {
			t.Fatalf("picked %+v before its time", got)
		}
	}
	clock.move(30 * time.Minute)
	if got := f.take("claude"); got.Credential != first.Credential || !got.Probe {
		t.Errorf("picked %+v, want a probe of %s", got, first.Credential)
	}
}

// Two logins are due for a probe: a repeat of the same run gets the same one.
func TestARepeatedPickGetsItsProbeAgain(t *testing.T) {
	f, clock := movedFleet(t)
	for range 2 {
		f.fail(f.take("claude"), perMinute)
	}
	clock.move(time.Minute)
	first := f.take("claude")
	for range 3 {
		again, err := f.Pick(context.Background(), "claude", first.Run)
		if err != nil || again.Credential != first.Credential || !again.Probe {
			t.Errorf("%+v %v, want %s again", again, err, first.Credential)
		}
	}
	if second := f.take("claude"); second.Credential == first.Credential || !second.Probe {
		t.Errorf("the other run got %+v", second)
	}
}

func TestALateSuccessProvesNothing(t *testing.T) {
	f, clock := movedFleet(t)
	early := f.take("codex")
	clock.move(time.Second)
	f.fail(f.take("codex"), quota)
	clock.move(time.Second)
	if f.succeed(early) || f.state("codex", "credential").State != StateCooling {
		t.Error("a run from before the limit ended the rest")
	}
}

func TestADeadLoginWaitsForAnotherOne(t *testing.T) {
	f, clock := movedFleet(t)
	ctx := context.Background()
	running, other := f.take("codex"), f.take("codex")
	if v := f.fail(running, dead); v.State != StateDisabled {
		t.Fatalf("verdict %+v", v)
	}
	// Runs that fail later with less to say don't wake it.
	f.fail(other, unauthorized)
	clock.move(48 * time.Hour)
	none := f.none("codex", NeedsLogin)
	if !none.Until.Equal(clock.now.Add(defaultCeiling)) {
		t.Errorf("look again at %v", none.Until)
	}
	if ids, err := f.Changed(ctx); err != nil || len(ids) > 0 {
		t.Errorf("changed %v %v", ids, err)
	}
	must(t, os.WriteFile(f.files["codex"], []byte(secret+"new"), 0o600))
	ids, err := f.Changed(ctx)
	if err != nil || len(ids) != 1 || ids[0] != "codex" {
		t.Errorf("changed %v %v", ids, err)
	}
	if ids, _ := f.Changed(ctx); len(ids) > 0 {
		t.Errorf("told twice: %v", ids)
	}
	if !f.state("codex", "credential").Changed {
		t.Error("the list does not say so")
	}
	probe := f.take("codex")
	if !probe.Probe {
		t.Error("a new login is believed unseen")
	}
	f.none("codex", Cooldown)
	f.fail(probe, dead)
	f.none("codex", NeedsLogin)
	must(t, os.WriteFile(f.files["codex"], []byte(secret+"newer"), 0o600))
	if ids, _ := f.Changed(ctx); len(ids) != 1 {
		t.Errorf("a second change: %v", ids)
	}
	if !f.succeed(f.take("codex")) || f.take("codex").Probe {
		t.Error("the new login was not proven")
	}
}

// A refused login that is another one now is tried at once, whether it rests or is
// dead, and whether or not it has an organisation.
func TestAChangedLoginIsTriedAtOnce(t *testing.T) {
	for _, refused := range []*turns.Failure{unauthorized, dead} {
		f, _ := movedFleet(t)
		f.fail(f.take("claude"), refused)
		f.fail(f.take("claude"), refused)
		if none, err := f.Usable(context.Background(), "claude"); err != nil || none[0].None == nil {
			t.Fatalf("usable %+v %v", none, err)
		}
		for _, id := range []string{"spare", "work"} {
			must(t, os.WriteFile(f.files[id], []byte(secret+"new"), 0o600))
			if choice := f.take("claude"); choice.Credential != id || !choice.Probe {
				t.Errorf("%v: picked %+v, want a probe of %s", refused, choice, id)
			}
		}
	}
}

package credentials

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
)

// fleet is a configuration with its login files.
type fleet struct {
	*Credentials
	t     *testing.T
	files map[string]string
	runs  int
}

// newFleet has claude with logins work and spare, single models on work, codex
// with one of the same organisation as work, and two services with their own.
func newFleet(t *testing.T, rdb redis.UniversalClient) *fleet {
	t.Helper()
	f := &fleet{t: t, files: map[string]string{}}
	sources := map[string]Source{}
	for _, id := range []string{"work", "spare", "codex"} {
		f.files[id] = private(t, secret+id)
		sources[id] = Source{File: f.files[id]}
	}
	sources["work"] = Source{File: f.files["work"], Organisation: "acme"}
	sources["codex"] = Source{File: f.files["codex"], Organisation: "acme"}
	redistest.Declared(rdb)
	c, err := New(rdb, Config{
		Services: map[string]Service{
			"claude":   {Agent: "claude", Credentials: []string{"work", "spare"}},
			"opus":     {Agent: "claude", Model: "opus", Credentials: []string{"work"}},
			"haiku":    {Agent: "claude", Model: "haiku", Credentials: []string{"work"}},
			"codex":    {Agent: "codex", Credentials: []string{"codex"}},
			"own":      {Agent: "command"},
			"unloaded": {Agent: "claude", Credentials: []string{}},
		},
		Credentials: sources,
	})
	must(t, err)
	f.Credentials = c
	return f
}

// take picks a login for a new run.
func (f *fleet) take(service string) Choice {
	f.t.Helper()
	f.runs++
	choice, err := f.Pick(context.Background(), service, fmt.Sprintf("run-%d", f.runs))
	if err != nil {
		f.t.Fatalf("pick for %s: %v", service, err)
	}
	return choice
}

// none expects that no login is usable.
func (f *fleet) none(service string, reason Reason) *None {
	f.t.Helper()
	f.runs++
	choice, err := f.Pick(context.Background(), service, fmt.Sprintf("run-%d", f.runs))
	none, ok := errors.AsType[*None](err)
	if !ok || none.Reason != reason {
		f.t.Fatalf("pick for %s: %+v %v, want none because of %s", service, choice, err, reason)
	}
	return none
}

func (f *fleet) fail(choice Choice, failure *turns.Failure) Verdict {
	f.t.Helper()
	v, err := f.Failed(context.Background(), choice, failure)
	must(f.t, err)
	return v
}

func (f *fleet) succeed(choice Choice) bool {
	f.t.Helper()
	changed, err := f.Succeeded(context.Background(), choice)
	must(f.t, err)
	return changed
}

// state returns the one rest of a credential in a scope, or a usable one.
func (f *fleet) state(id, scope string) Rest {
	f.t.Helper()
	all, err := f.List(context.Background())
	must(f.t, err)
	for _, r := range all {
		if r.Credential == id && r.Scope == scope {
			return r
		}
	}
	return Rest{State: StateUsable}
}

var (
	unauthorized = turns.Fail(turns.ClassAuth, "401")
	dead         = &turns.Failure{Class: turns.ClassAuth, Dead: true}
	quota        = turns.Fail(turns.ClassQuota, "usage limit")
	perMinute    = turns.Fail(turns.ClassRateLimited, "429")
	crash        = turns.Fail(turns.ClassCrash, "exit 1")
)

func TestLoginsRotate(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb)
		count := map[string]int{}
		for range 10 {
			choice := f.take("claude")
			count[choice.Credential]++
			if choice.Probe {
				t.Error("probes a usable login")
			}
		}
		if count["work"] != 5 || count["spare"] != 5 {
			t.Errorf("not fair: %v", count)
		}
		first := f.take("claude")
		env, err := first.Load(context.Background())
		if err != nil || env["ANTHROPIC_API_KEY"] != secret+first.Credential || len(env) != 1 {
			t.Errorf("login %v %v", env, err)
		}
		f.fail(first, quota)
		for range 3 {
			if next := f.take("claude"); next.Credential == first.Credential {
				t.Errorf("picked %s, which rests", next.Credential)
			}
		}
		second := f.take("claude")
		f.fail(second, quota)
		none := f.none("claude", Cooldown)
		if until := f.state("work", "credential").Probe; none.Until.After(until) {
			t.Errorf("wait until %v, but work may be probed at %v", none.Until, until)
		}
		standing, err := f.Usable(context.Background(), "claude", "codex", "own")
		if err != nil || standing[0].None == nil || standing[1].None != nil || standing[2].None != nil {
			t.Errorf("standing %+v %v", standing, err)
		}
		if changed, err := f.Clear(context.Background(), first.Credential); err != nil || !changed {
			t.Errorf("clear: %v %v", changed, err)
		}
		if got := f.take("claude"); got.Credential != first.Credential || got.Probe {
			t.Errorf("after the clear %+v", got)
		}
		if changed, _ := f.Clear(context.Background(), first.Credential); changed {
			t.Error("cleared what was clear")
		}
	})
}

func TestHowFarAFailureReaches(t *testing.T) {
	type reach struct{ claude, opus, haiku, codex bool } // still usable
	for scope, want := range map[string]reach{
		"":             {claude: true, codex: true}, // spare is left
		"credential":   {claude: true, codex: true},
		"model":        {claude: true, haiku: true, codex: true},
		"organisation": {claude: true},
		"host":         {codex: true},
	} {
		t.Run("scope "+scope, func(t *testing.T) {
			f := newFleet(t, redistest.Mini(t))
			f.fail(f.take("opus"), &turns.Failure{Class: turns.ClassQuota, Scope: scope})
			all, err := f.Usable(context.Background(), "claude", "opus", "haiku", "codex")
			must(t, err)
			got := reach{all[0].None == nil, all[1].None == nil, all[2].None == nil, all[3].None == nil}
			if got != want {
				t.Errorf("usable %+v, want %+v", got, want)
			}
			if changed, err := f.Clear(context.Background(), "work"); !changed || err != nil {
				t.Errorf("clear: %v %v", changed, err)
			}
			if left, _ := f.names(context.Background()); len(left) > 0 {
				t.Errorf("left after the clear: %v", left)
			}
		})
	}
}

func TestWhatSaysNothingAboutALogin(t *testing.T) {
	f := newFleet(t, redistest.Mini(t))
	for _, class := range turns.Classes {
		choice := f.take("codex")
		says := class == turns.ClassAuth || class == turns.ClassQuota || class == turns.ClassRateLimited
		v := f.fail(choice, &turns.Failure{Class: class})
		if (v.State == StateCooling) != says || (f.state("codex", "credential").State == StateCooling) != says {
			t.Errorf("%s: %+v", class, v)
		}
		_, err := f.Clear(context.Background(), "codex")
		must(t, err)
	}
}

func TestOneRunProbes(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		f := newFleet(t, rdb)
		// A named end in the past: the login may be probed at once.
		f.fail(f.take("codex"), &turns.Failure{Class: turns.ClassRateLimited, RetryAfter: time.Millisecond})
		waitUntil(t, func() bool {
			all, err := f.Usable(context.Background(), "codex")
			return err == nil && all[0].None == nil
		})
		var probes, refused atomic.Int64
		var probe atomic.Value
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				choice, err := f.Pick(context.Background(), "codex", fmt.Sprintf("racer-%d", i))
				none, ok := errors.AsType[*None](err)
				switch {
				case err == nil && choice.Probe:
					probes.Add(1)
					probe.Store(choice)
				case ok && none.Reason == Cooldown:
					refused.Add(1)
				default:
					t.Errorf("%+v %v", choice, err)
				}
			})
		}
		wg.Wait()
		if probes.Load() != 1 || refused.Load() != 49 {
			t.Fatalf("%d probe, %d wait", probes.Load(), refused.Load())
		}
		choice := probe.Load().(Choice)
		again, err := f.Pick(context.Background(), "codex", choice.Run)
		if err != nil || again.Credential != choice.Credential || !again.Probe {
			t.Errorf("a repeat of the same run: %+v %v", again, err)
		}
		if r := f.state("codex", "credential"); r.State != StateProbing || r.Run != choice.Run {
			t.Errorf("listed as %+v", r)
		}
		if !f.succeed(choice) || f.succeed(choice) {
			t.Error("the first success ends the rest, the second finds none")
		}
		if next := f.take("codex"); next.Probe {
			t.Error("proven, and still probed")
		}
	})
}

func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("waited in vain")
		}
	}
}

func TestLoginsThatCantBeRead(t *testing.T) {
	f := newFleet(t, redistest.Mini(t))
	must(t, os.Remove(f.files["work"]))
	for range 3 {
		if got := f.take("claude"); got.Credential != "spare" {
			t.Errorf("picked %+v", got)
		}
	}
	must(t, os.Chmod(f.files["spare"], 0o644))
	none := f.none("claude", NeedsLogin)
	if none.Problems == nil || none.Until.IsZero() {
		t.Errorf("%+v", none)
	}
	must(t, os.Chmod(f.files["spare"], 0o600))
	must(t, os.WriteFile(f.files["spare"], []byte("two words"), 0o600))
	f.none("claude", NeedsLogin)
	if _, err := f.Pick(context.Background(), "nobody", "r"); err == nil {
		t.Error("picked for an unknown service")
	}
	if _, err := f.Pick(context.Background(), "claude", ""); err == nil {
		t.Error("picked for no run")
	}
}

// A service without credentials has the program's own sign-in, which cools too
// and is disabled only where a change of it can be seen.
func TestTheImplicitLogin(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("CLAUDE_CONFIG_DIR", t.TempDir()) // of the worker, no agent gets it
	must(t, os.Mkdir(home+"/.claude", 0o700))
	f, clock := movedFleet(t)
	choice := f.take("own")
	env, err := choice.Load(context.Background())
	if choice.Credential != "own:implicit" || env != nil || err != nil {
		t.Errorf("%+v %v %v", choice, env, err)
	}
	if v := f.fail(choice, dead); v.State != StateCooling {
		t.Errorf("nobody would see it change: %+v", v)
	}
	clock.move(time.Minute)
	if !f.take("own").Probe {
		t.Error("no probe")
	}
	must(t, os.WriteFile(home+"/.claude/.credentials.json", []byte(`{"fake":1}`), 0o600))
	if v := f.fail(f.take("unloaded"), dead); v.State != StateDisabled {
		t.Errorf("verdict %+v", v)
	}
	f.none("unloaded", NeedsLogin)
	must(t, os.WriteFile(home+"/.claude/.credentials.json", []byte(`{"fake":2}`), 0o600))
	if ids, err := f.Changed(context.Background()); err != nil || len(ids) != 1 || ids[0] != "unloaded:implicit" {
		t.Errorf("changed %v %v", ids, err)
	}
	if got := f.ServicesOf("unloaded:implicit"); len(got) != 1 || got[0] != "unloaded" {
		t.Errorf("services %v", got)
	}
}

// A service whose program has a folder of its own is signed in there.
func TestTheImplicitLoginInAFolderOfItsOwn(t *testing.T) {
	for agent, file := range map[string]string{"claude": ".credentials.json", "codex": "auth.json"} {
		dir := t.TempDir()
		must(t, os.WriteFile(dir+"/"+file, []byte(`{"fake":1}`), 0o600))
		if got := signIn(Service{Agent: agent, SignIn: dir}); got != `{"fake":1}` {
			t.Errorf("%s: read %q", agent, got)
		}
		if got := signIn(Service{Agent: agent, SignIn: t.TempDir()}); got != "" {
			t.Errorf("%s: read %q of an empty folder", agent, got)
		}
	}
}

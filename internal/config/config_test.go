package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rota/turns"
)

// clear takes ROTA_ variables of the caller's own out of the environment.
func clear(t *testing.T) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "ROTA_") {
			t.Setenv(name, "")
		}
	}
	t.Chdir(t.TempDir())
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rota.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func example(t *testing.T) (string, string) {
	t.Helper()
	name, err := filepath.Abs("../../rota.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return name, string(text)
}

func TestExampleLoads(t *testing.T) {
	name, _ := example(t)
	clear(t)
	c, err := Load(name, Flags{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(name)
	review := c.Services["codex-review"]
	if review.Agent != "command" || review.Command[0] != filepath.Join(dir, "review.sh") || review.Concurrency != 1 || review.MaxWaiting != DefaultMaxWaiting {
		t.Errorf("codex-review is %+v", review)
	}
	if got := c.Services["claude"]; got.Concurrency != 2 || !slices.Equal(got.Credentials, []string{"work", "spare"}) {
		t.Errorf("claude is %+v", got)
	}
	if !strings.HasSuffix(c.Credentials["spare"].File, "/.config/rota/claude-spare") || !filepath.IsAbs(c.Credentials["spare"].File) {
		t.Errorf("spare is %+v", c.Credentials["spare"])
	}
	main := c.Services["codex-main"]
	if main.BaseURL != "https://gateway.example.com/v1" || !strings.HasSuffix(main.ConfigDir, "/.codex-rota") || !filepath.IsAbs(main.ConfigDir) {
		t.Errorf("codex-main is %+v", main)
	}
	if !c.Services["gemini"].Allow || main.SignInDir() != main.ConfigDir || review.SignInDir() != "" {
		t.Errorf("gemini is %+v", c.Services["gemini"])
	}
	crew := c.Crew()
	if !slices.Equal(crew[turns.Reviewer].Services, []string{"claude", "codex-review"}) || len(crew) != 3 {
		t.Errorf("crew is %+v", crew)
	}
	if crew[turns.Reviewer].Limits.Run != 30*time.Minute || crew[turns.Owner].Limits.Run != 2*time.Hour {
		t.Errorf("runs of %v and %v", crew[turns.Reviewer].Limits.Run, crew[turns.Owner].Limits.Run)
	}
	// The example shows the defaults.
	if c.LimitsFor(turns.Owner) != turns.DefaultLimits || c.Rules() != (turns.Rules{}).WithDefaults() || c.Retention() != DefaultRetention {
		t.Errorf("%+v, %+v, %v", c.LimitsFor(turns.Owner), c.Rules(), c.Retention())
	}
	if c.Redis != DefaultRedis || c.HTTP != DefaultHTTP || c.Shards != DefaultShards || c.Data != filepath.Join(dir, DefaultData) ||
		c.Workspaces != filepath.Join(c.Data, "workspaces") {
		t.Errorf("%+v", c)
	}
	if _, err := c.Service("codex"); err == nil || !strings.Contains(err.Error(), "codex-main") {
		t.Errorf("unknown service: %v", err)
	}
}

// TestExampleNamesEveryKey fails when a field is added that nobody describes.
func TestExampleNamesEveryKey(t *testing.T) {
	_, text := example(t)
	var keys []string
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Map, reflect.Slice:
			walk(typ.Elem())
		case reflect.Struct:
			for f := range typ.Fields() {
				name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
				if name == "-" {
					continue
				}
				if name != "" {
					keys = append(keys, name)
				}
				walk(f.Type)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
	if len(keys) < 35 {
		t.Fatalf("only %d keys were found", len(keys))
	}
	for _, k := range keys {
		if !regexp.MustCompile(`(?m)(^ *|\{)` + k + `:`).MatchString(text) {
			t.Errorf("key %s is not in rota.example.yaml", k)
		}
	}
}

const small = `services:
  one: {agent: command, command: [./run]}
roles:
  owner: {services: [one]}
`

func TestProblems(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"unknown key", small + "limit: {lease: 3s}\n", "5: limit: unknown key (did you mean limits?)"},
		{"unknown key inside", "services:\n  one:\n    agnt: command\n", "3: services.one.agnt: unknown key (did you mean agent?)"},
		{"key twice", small + "shards: 2\nshards: 3\n", "6: shards: the key stands twice"},
		{"no YAML", "services: [a\n", "1: "},
		{"two documents", small + "---\nshards: 3\n", "more than one document"},
		{"list for a text", small + "redis: [a]\n", "5: redis: a list is not a text"},
		{"text for a list", "services:\n  one: {agent: command, command: run}\n", "2: services.one.command: this value is not a list"},
		{"text for a table", "services: one\n", "1: services: this value is not a table"},
		{"alias", small + "data: &x a\nprompts: *x\n", "5: data: an anchor, alias or tag"},
		{"no number", small + "shards: many\n", `5: shards: "many" is no number`},
		{"zero", small + "shards: 0\n", "5: shards: 0 is less than 1"},
		{"too many shards", small + "shards: 5000\n", "5: shards: 5000 is more than 1024"},
		{"no duration", small + "limits:\n  run: soon\n", `6: limits.run: "soon" is no duration`},
		{"duration without unit", small + "limits: {run: 30}\n", `5: limits.run: "30" is no duration`},
		{"negative duration", small + "limits: {run: -3s}\n", `5: limits.run: "-3s" is no duration`},
		{"short lease", small + "limits:\n  lease: 1s\n", "6: limits.lease: 1s is less than 2s"},
		{"short lease of a role", "services:\n  one: {agent: claude}\nroles:\n  owner:\n    services: [one]\n    limits: {lease: 1s}\n",
			"6: roles.owner.limits.lease: 1s is less than 2s"},
		{"start beyond run", small + "limits: {start: 10m, run: 5m}\n", "limits.start: 10m0s is longer than a whole run may take (5m0s)"},
		{"too many attempts", small + "limits: {attempts: 101}\n", "limits.attempts: 101 is more than 100"},
		{"rounds of a role", "roles:\n  owner:\n    limits: {rounds: 3}\n", "3: roles.owner.limits.rounds: unknown key"},
		{"service name", "services:\n  One_2: {agent: claude}\n", `2: services.One_2: service name "One_2"`},
		{"no agent", "services:\n  one: {model: x}\n", "2: services.one: the agent is missing (use one of claude"},
		{"unknown agent", "services:\n  one: {agent: cluade}\n", `2: services.one.agent: unknown agent "cluade" (did you mean claude?)`},
		{"no command", "services:\n  one: {agent: acp}\n", "2: services.one: agent acp needs a command"},
		{"empty command", "services:\n  one: {agent: claude, command: ['']}\n", "2: services.one.command: the name of the program is empty"},
		{"script", "services:\n  one: {agent: claude, script: x}\n", "2: services.one.script: only agent scripted"},
		{"gateway of another agent", "services:\n  one:\n    agent: acp\n    command: [x]\n    base_url: https://x\n", "5: services.one.base_url: only the agents claude and codex take it"},
		{"folder of another agent", "services:\n  one: {agent: command, command: [x], config_dir: /x}\n", "2: services.one.config_dir: only the agents"},
		{"gateway", "services:\n  one: {agent: claude, base_url: gateway}\n", "2: services.one.base_url: this is no address of an API (write one such as"},
		{"gateway with a login", "services:\n  one: {agent: claude, base_url: 'https://a:fakepw@h'}\n", "2: services.one.base_url: "},
		{"ask of another agent", "services:\n  one: {agent: codex, ask: true}\n", "2: services.one.ask: only agent claude can be told to ask"},
		{"allow of another agent", "services:\n  one: {agent: codex, allow: true}\n", "2: services.one.allow: only agent acp asks"},
		{"allow", "services:\n  one: {agent: acp, command: [x], allow: maybe}\n", `2: services.one.allow: "maybe" is neither true nor false (write true or false)`},
		{"unknown credential", "services:\n  one:\n    agent: claude\n    credentials: [wrk]\ncredentials:\n  work: {env: X}\n",
			`4: services.one.credentials[0]: there is no credential "wrk" (did you mean work?)`},
		{"no owner", "services:\n  one: {agent: claude}\nroles:\n  reviewer: {services: [one]}\n", "3: roles: the role owner is missing"},
		{"unknown role", small + "  boss: {services: [one]}\n", "5: roles.boss: unknown role"},
		{"no services of a role", small + "  reviewer: {}\n", "5: roles.reviewer: the role has no services"},
		{"unknown service", small + "  reviewer: {services: [two]}\n", `5: roles.reviewer.services[0]: there is no service "two"`},
		{"service twice", small + "  reviewer: {services: [one, one]}\n", "5: roles.reviewer.services[1]: service one stands twice"},
		{"no place", small + "credentials:\n  work: {}\n", "6: credentials.work: exactly one of env, file and command is needed, there are 0"},
		{"two places", small + "credentials:\n  work: {env: X, file: y}\n", "6: credentials.work: exactly one of env, file and command is needed, there are 2"},
		{"value for a name", small + "credentials:\n  work: {env: not-a-name}\n", "6: credentials.work.env: this is no name"},
		{"key in the file", small + "credentials:\n  work: {env: sk-fake-not-a-secret}\n", "6: credentials.work.env: the value looks like a key"},
		{"key as an argument", "services:\n  one: {agent: claude, args: [--x, sk-fake-not-a-secret]}\n", "2: services.one.args[1]: the value looks like a key"},
		{"secret variable", "services:\n  one:\n    agent: claude\n    env:\n      MY_API_KEY: fake\n", "5: services.one.env.MY_API_KEY: a variable of this name is a secret"},
		{"password of Redis", small + "redis: redis://:fakepw@h:1/0\n", "5: redis: the URL holds a password (set ROTA_REDIS"},
		{"Redis", small + "redis: http://x\n", "5: redis: unknown scheme"},
		{"address", small + "http: '8377'\n", "5: http: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clear(t)
			name := write(t, tt.text)
			c, err := Load(name, Flags{})
			ps, ok := errors.AsType[Problems](err)
			if !ok || !reflect.DeepEqual(c, Config{}) {
				t.Fatalf("%+v, %v", c, err)
			}
			if !strings.Contains(ps.Error(), tt.want) || !strings.Contains(ps.Error(), name) {
				t.Errorf("\ngot  %v\nwant %s", err, tt.want)
			}
			for _, secret := range []string{"fakepw", "sk-fake"} {
				if strings.Contains(ps.Error(), secret) {
					t.Errorf("%q is shown in %v", secret, err)
				}
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	clear(t)
	t.Setenv("ROTA_HTTP", "nowhere")
	_, err := Load(write(t, "shards: x\nlimits: {lease: 1s, foo: 2}\nservices:\n  one: {agent: x}\nroles: {}\n"), Flags{Redis: "redis://:fakepw@h"})
	ps, _ := errors.AsType[Problems](err)
	var lines []int
	for _, p := range ps {
		lines = append(lines, p.Line)
	}
	slices.Sort(lines)
	if want := []int{0, 0, 1, 2, 2, 4, 5}; !slices.Equal(lines, want) {
		t.Errorf("lines %v, want %v:\n%v", lines, want, err)
	}
	if strings.Contains(err.Error(), "fakepw") {
		t.Errorf("a password is shown: %v", err)
	}
}

func TestOrderOfSources(t *testing.T) {
	clear(t)
	name := write(t, small+"redis: redis://file:1/0\nhttp: 127.0.0.1:1\n")
	load := func(f Flags) Config {
		t.Helper()
		c, err := Load(name, f)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := load(Flags{}); c.Redis != "redis://file:1/0" || c.HTTP != "127.0.0.1:1" || !c.HTTPExplicit {
		t.Errorf("file: %+v", c)
	}
	t.Setenv("ROTA_REDIS", "redis://:fakepw@environment:1/0")
	t.Setenv("ROTA_HTTP", "127.0.0.1:2")
	if c := load(Flags{}); c.Redis != "redis://:fakepw@environment:1/0" || c.HTTP != "127.0.0.1:2" {
		t.Errorf("environment: %+v", c)
	}
	if c := load(Flags{Redis: "redis://flag:1/0", HTTP: ":3", Data: "/d"}); c.Redis != "redis://flag:1/0" || c.HTTP != ":3" || c.Data != "/d" || c.Workspaces != "/d/workspaces" {
		t.Errorf("flags: %+v", c)
	}
}

func TestMissingFile(t *testing.T) {
	clear(t)
	c, err := Load("", Flags{})
	if err != nil || c.Redis != DefaultRedis || c.HTTPExplicit || c.File != "" || len(c.Services) != 0 {
		t.Errorf("without a file: %+v, %v", c, err)
	}
	if _, err := c.Service("one"); err == nil || !strings.Contains(err.Error(), "no services are configured") {
		t.Errorf("service without a file: %v", err)
	}
	if _, err := Load("other.yaml", Flags{}); err == nil || !strings.Contains(err.Error(), "other.yaml: no such file") {
		t.Errorf("named file: %v", err)
	}
	t.Setenv("ROTA_CONFIG", "third.yaml")
	if _, err := Load("", Flags{}); err == nil || !strings.Contains(err.Error(), "third.yaml") || !strings.Contains(err.Error(), "ROTA_CONFIG") {
		t.Errorf("file of the environment: %v", err)
	}
}

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"30s": 30 * time.Second, "168h": 168 * time.Hour, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "1.5h": 90 * time.Minute,
		"": 0, "d": 0, "7": 0, "-1s": 0, "1d-1h": 0, "0s": 0, "0d": 0, "1d2d": 0, "99999d": 0, "1h1d": 0, "x": 0,
	} {
		got, err := ParseDuration(s)
		if (err == nil) != (want > 0) || err == nil && got != want {
			t.Errorf("%q: %v, %v; want %v", s, got, err, want)
		}
	}
}

// FuzzLoad: no text makes Load panic, and what it accepts is complete.
func FuzzLoad(f *testing.F) {
	text, err := os.ReadFile("../../rota.example.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{string(text), small, "", "a: b: c", "- x", "services: {a: {agent: [}}", "&a [*a]", "? {x: y}\n: z", "<<: *x", "limits: {lease: !!int 3}", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := load("/etc/rota.yaml", []byte(text), Flags{})
		if err != nil {
			if ps, ok := errors.AsType[Problems](err); !ok || len(ps) == 0 || !reflect.DeepEqual(c, Config{}) {
				t.Fatalf("%+v, %v", c, err)
			}
			return
		}
		if c.Redis == "" || c.Shards < 1 || c.HTTP == "" || c.Retention() <= 0 {
			t.Fatalf("incomplete: %+v", c)
		}
		for role, seat := range c.Crew() {
			if !role.Valid() || len(seat.Services) == 0 || seat.Limits.Lease < turns.MinLease {
				t.Fatalf("%s: %+v", role, seat)
			}
		}
	})
}

package credentials

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// secret is the text that must turn up nowhere.
const secret = "sk-fake-not-a-secret-4711"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// private writes a file that only its owner may read.
func private(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "login")
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestWhereATokenGoes(t *testing.T) {
	for _, c := range []struct {
		text, kind, variable string
		want                 map[string]string
	}{
		{"sk-ant-oat01-fake", "claude", "", map[string]string{"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-fake"}},
		{"sk-ant-api03-fake", "claude", "", map[string]string{"ANTHROPIC_API_KEY": "sk-ant-api03-fake"}},
		{"anything", "claude", "ANTHROPIC_AUTH_TOKEN", map[string]string{"ANTHROPIC_AUTH_TOKEN": "anything"}},
		{"sk-fake", "codex", "", map[string]string{"CODEX_API_KEY": "sk-fake"}},
		{"sk-fake", "codex", "OPENAI_API_KEY", map[string]string{"OPENAI_API_KEY": "sk-fake"}},
		{"fake", "command", "", map[string]string{"ROTA_CREDENTIAL": "fake"}},
		{"fake", "acp", "GEMINI_API_KEY", map[string]string{"ROTA_CREDENTIAL": "fake", "GEMINI_API_KEY": "fake"}},
		{`{"A":"1","b_2":"two words"}`, "claude", "IGNORED", map[string]string{"A": "1", "b_2": "two words"}},
	} {
		got, err := variables(c.text, c.kind, c.variable)
		if err != nil || !maps.Equal(got, c.want) {
			t.Errorf("%s for %s: %v %v, want %v", c.text, c.kind, got, err, c.want)
		}
	}
}

func TestWhatIsNoLogin(t *testing.T) {
	for _, c := range []struct{ text, kind, want string }{
		{secret + " and more", "claude", "neither one token"},
		{secret + "\nline", "codex", "neither one token"},
		{secret, "unheard-of", "set variable"},
		{`{"` + secret, "claude", "no JSON object"},
		{`{"tokens":{"access":"` + secret + `"}}`, "codex", "no JSON object"},
		{`{}`, "codex", "no JSON object"},
		{`{"` + secret + `":"x"}`, "codex", "no name of a variable"},
		{`{"LD_PRELOAD":"` + secret + `"}`, "codex", "must not set LD_PRELOAD"},
		{`{"PATH":"` + secret + `"}`, "codex", "must not set PATH"},
		{`{"ROTA_FENCE":"1"}`, "codex", "must not set ROTA_FENCE"},
	} {
		env, err := variables(c.text, c.kind, "")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v %v, want %q", c.text, env, err, c.want)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the error holds the login: %v", err)
		}
	}
}

func TestSourcesAreRead(t *testing.T) {
	t.Setenv("ROTA_TEST_LOGIN", " "+secret+"\n")
	for name, s := range map[string]Source{
		"env":     {Env: "ROTA_TEST_LOGIN"},
		"file":    {File: private(t, secret+"\n")},
		"command": {Command: []string{"printf", "%s\n", secret}},
	} {
		if got, err := s.read(context.Background()); err != nil || got != secret {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	must(t, os.WriteFile(filepath.Join(home, "login"), []byte(secret), 0o400))
	if got, err := (Source{File: "~/login"}).read(context.Background()); err != nil || got != secret {
		t.Errorf("home: %q %v", got, err)
	}
}

func TestUnreadableSources(t *testing.T) {
	open := private(t, secret)
	must(t, os.Chmod(open, 0o640))
	t.Setenv("ROTA_TEST_EMPTY", "")
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	over, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	for _, c := range []struct {
		ctx    context.Context
		source Source
		want   string
	}{
		{ctx, Source{File: open}, "chmod 600"},
		{ctx, Source{File: "/nonexistent/login"}, "no such file"},
		{ctx, Source{File: t.TempDir()}, "no file"},
		{ctx, Source{File: private(t, " \n")}, "empty"},
		{ctx, Source{File: private(t, strings.Repeat("x", maxLogin+1))}, "larger than"},
		{ctx, Source{Env: "ROTA_TEST_EMPTY"}, "not set"},
		{ctx, Source{Command: []string{"sh", "-c", "echo " + secret + "; echo " + secret + " >&2; exit 3"}}, "exit status 3"},
		{ctx, Source{Command: []string{"head", "-c", "100000", "/dev/zero"}}, "printed more"},
		{ctx, Source{Command: []string{"/nonexistent/program"}}, "run it by hand"},
		{over, Source{Command: []string{"sh", "-c", "sleep 60 & sleep 60"}}, "in time"},
	} {
		text, err := c.source.read(c.ctx)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %.80q %v, want %q", c.source, text, err, c.want)
		}
	}
}

func TestAConfigurationIsCheckedAtOnce(t *testing.T) {
	_, err := New(nil, Config{
		Services: map[string]Service{"claude": {Agent: "claude", Credentials: []string{"work", "gone"}}, "Bad_Name": {}},
		Credentials: map[string]Source{
			"work": {Env: "A", File: "b"}, "none": {}, "bad/name": {Env: "A"}, "value": {Env: "sk-fake/value"}, "var": {Env: "A", Variable: "no name"},
		},
	})
	for _, want := range []string{"credential work: exactly one", "credential none: exactly one", `"bad/name"`, "credential value: env wants",
		"credential var: variable wants", `no credential "gone"`, "Bad_Name"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

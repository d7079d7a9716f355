// Package deploy_test reads the files of this folder and checks what must hold
// between them, so that an example can't drift from what the programs need.
package deploy_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"rota/internal/config"
)

// spare is what a stopping worker needs besides the grace: killing what is left
// of its agents, and the last writes.
const spare = 30 * time.Second

// object is a YAML mapping.
type object = map[string]any

// configuration loads rota.yaml as the programs do.
func configuration(t *testing.T) config.Config {
	t.Helper()
	c, err := config.Load("rota.yaml", config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// documents parses all documents of a YAML file.
func documents(t *testing.T, name string) []object {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var docs []object
	for decoder := yaml.NewDecoder(file); ; {
		var doc object
		err := decoder.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		docs = append(docs, doc)
	}
}

// at follows a path of keys and list positions; nil where it ends early.
func at(node any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := node.(object)
			node = m[step]
		case int:
			l, _ := node.([]any)
			if step >= len(l) {
				return nil
			}
			node = l[step]
		}
	}
	return node
}

// texts returns a list of words.
func texts(node any) []string {
	var words []string
	items, _ := node.([]any)
	for _, item := range items {
		text, _ := item.(string)
		words = append(words, text)
	}
	return words
}

// flag returns the word after a flag.
func flag(words []string, name string) string {
	if i := slices.Index(words, name); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

func duration(t *testing.T, node any) time.Duration {
	t.Helper()
	text, _ := node.(string)
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Errorf("%v is no duration", node)
	}
	return d
}

// checkCommand checks the command line of a worker against the configuration.
func checkCommand(t *testing.T, c config.Config, where string, words []string, token bool) {
	t.Helper()
	if words[0] != "worker" || flag(words, "--config") != "/etc/rota/rota.yaml" {
		t.Errorf("%s: %v is no worker with /etc/rota/rota.yaml", where, words)
	}
	if _, ok := c.Services[flag(words, "--service")]; !ok {
		t.Errorf("%s: service %q is not in rota.yaml", where, flag(words, "--service"))
	}
	if http := flag(words, "--http"); !strings.HasPrefix(http, "127.") && !token {
		t.Errorf("%s: %s is no loopback address and there is no ROTA_HTTP_TOKEN", where, http)
	}
}

func TestEveryYAMLFileParses(t *testing.T) {
	count := 0
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(name)) {
			count++
			if len(documents(t, name)) == 0 {
				t.Errorf("%s is empty", name)
			}
		}
		return err
	})
	if err != nil || count < 10 {
		t.Fatalf("%d files, %v", count, err)
	}
}

func TestCompose(t *testing.T) {
	c := configuration(t)
	services, _ := at(documents(t, "compose.yaml")[0], "services").(object)
	example, err := os.ReadFile("env.example")
	if err != nil {
		t.Fatal(err)
	}
	for name := range c.Services {
		s := services[name]
		if s == nil {
			t.Errorf("compose.yaml has no service %s", name)
			continue
		}
		words := texts(at(s, "command"))
		env, _ := at(s, "environment").(object)
		checkCommand(t, c, name, words, env["ROTA_HTTP_TOKEN"] != nil)
		if flag(words, "--service") != name {
			t.Errorf("%s runs the service %s", name, flag(words, "--service"))
		}
		if stop := duration(t, at(s, "stop_grace_period")); stop < c.Limits.Grace+spare {
			t.Errorf("%s is killed after %s, its runs may take %s", name, stop, c.Limits.Grace)
		}
		if at(s, "depends_on", "redis", "condition") != "service_healthy" {
			t.Errorf("%s does not wait for Redis", name)
		}
		for _, login := range c.Services[name].Credentials {
			if variable := c.Credentials[login].Env; env[variable] == nil {
				t.Errorf("%s: the login %s needs %s", name, login, variable)
			}
		}
		for variable := range env {
			if !strings.Contains(string(example), "\n"+variable+"=\n") {
				t.Errorf("env.example has no empty %s", variable)
			}
		}
	}
	for name, s := range services {
		for _, volume := range texts(at(s, "volumes")) {
			source, _, _ := strings.Cut(volume, ":")
			if _, err := os.Stat(source); strings.HasPrefix(source, ".") && err != nil {
				t.Errorf("%s mounts %s: %v", name, source, err)
			}
		}
	}
	if !slices.Contains(texts(at(services["redis"], "volumes")), "./redis/redis.conf:/usr/local/etc/redis/redis.conf:ro") {
		t.Error("redis runs without redis/redis.conf")
	}
}

func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if !strings.Contains(string(text), "FROM golang:"+string(version[1])+"-") {
		t.Errorf("the builder is not Go %s, which go.mod asks for", version[1])
	}
	if !strings.Contains(string(text), "CGO_ENABLED=0 go build") {
		t.Error("the binaries are not static")
	}
	if strings.Contains(string(text), ":latest") {
		t.Error("an image without a version")
	}
	stages := regexp.MustCompile(`(?m)^FROM \S+(?: AS (\S+))?$`).FindAllStringSubmatch(string(text), -1)
	if len(stages) != 4 {
		t.Fatalf("%d stages", len(stages))
	}
	for i, stage := range strings.Split(string(text), "\nFROM ")[1:] {
		users := regexp.MustCompile(`(?m)^USER (\S+)$`).FindAllStringSubmatch(stage, -1)
		if name := stages[i][1]; name == "runtime" || name == "agents" {
			if len(users) == 0 || users[len(users)-1][1] != "10001:10001" {
				t.Errorf("the stage %s ends as user %v", name, users)
			}
		}
	}
}

func TestSystemdUnit(t *testing.T) {
	c := configuration(t)
	unit := readUnit(t, "systemd/rota-worker@.service")
	for key, want := range map[string]string{"Type": "notify", "KillMode": "mixed", "KillSignal": "SIGTERM", "Restart": "always", "User": "rota"} {
		if unit[key] != want {
			t.Errorf("%s=%s, want %s", key, unit[key], want)
		}
	}
	if stop := duration(t, unit["TimeoutStopSec"]+"s"); stop < c.Limits.Grace+spare {
		t.Errorf("killed after %s, its runs may take %s", stop, c.Limits.Grace)
	}
	if watchdog := duration(t, unit["WatchdogSec"]+"s"); watchdog < 30*time.Second {
		t.Errorf("the watchdog of %s is shorter than a busy machine needs", watchdog)
	}
	if words := strings.Fields(unit["ExecStart"]); words[0] != "/usr/local/bin/worker" || flag(words, "--service") != "%i" {
		t.Errorf("ExecStart=%s", unit["ExecStart"])
	}
}

// TestSystemdAccepts asks systemd itself, where it is installed.
func TestSystemdAccepts(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	dir := t.TempDir()
	for _, name := range []string{"rota-worker@.service", "rota.target"} {
		text, err := os.ReadFile(filepath.Join("systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.ReplaceAll(string(text), "/usr/local/bin/worker", "/bin/true"))
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(analyze, "verify", "--man=no", filepath.Join(dir, "rota-worker@.service"), filepath.Join(dir, "rota.target"))
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), dir) || strings.Contains(string(out), "Unknown") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// readUnit returns the settings of a unit; of a repeated one the last.
func readUnit(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			settings[key] = value
		}
	}
	return settings
}

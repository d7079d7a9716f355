package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rota/internal/redistest"
)

// secret stands wherever a secret may stand in these tests.
const secret = "fake-secret-that-nobody-may-see"

// agentVariables are all names that an agent may find in its environment.
var agentVariables = []string{
	"HOME", "PATH", "USER", "LOGNAME", "TMPDIR", "LANG", "TERM", "TZ",
	"ROTA_THREAD", "ROTA_TURN", "ROTA_ATTEMPT", "ROTA_ROLE", "ROTA_INTENT", "ROTA_FENCE", "ROTA_WORKSPACE", "ROTA_STORE", "ROTA_KEEPER",
	"PWD", "OLDPWD", "SHLVL", "_", // the shell's own
}

// closed fails the test for everything below a folder that the group or others
// could get at. What lies in a folder that only its owner may enter is safe.
func closed(t *testing.T, root string) (seen int) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		if info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %s: the group or others can get at it", path, info.Mode())
		}
		if d.IsDir() && info.Mode().Perm()&0o077 == 0 && path != root {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// output is what a program has printed so far.
type output struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(p)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.String()
}

// A worker with its own store, started with an open umask and an environment full
// of secrets: what it writes is its user's alone, and its agent sees none of it.
func TestFilesAndEnvironmentOfAWorker(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := `#!/bin/sh
cat > /dev/null
env > "` + dir + `/env.txt"
head -c 400000 /dev/zero | tr '\0' 'x'
echo
echo "VERDICT: done"
`
	config := "shards: 1\nservices: {builder: {agent: command, command: [" + dir + "/agent.sh]}}\nroles: {owner: {services: [builder]}}\n"
	for name, text := range map[string]string{"agent.sh": script, "rota.yaml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	env := append(clean(), "HOME="+dir, "XDG_CACHE_HOME="+dir+"/cache", "XDG_DATA_HOME="+dir+"/share", "XDG_STATE_HOME="+dir+"/state",
		"ROTA_DATA="+dir+"/data", "ROTA_HTTP_TOKEN="+secret, "AWS_SECRET_ACCESS_KEY="+secret, "OPENAI_API_KEY="+secret, "ANTHROPIC_API_KEY="+secret,
		"GIT_DIR=/nowhere", "LD_LIBRARY_PATH="+secret, "NODE_OPTIONS="+secret)
	worker := exec.Command("/bin/sh", "-c", "umask 0; exec "+program("worker")+" --embedded --http 127.0.0.1:0 --log json --config "+dir+"/rota.yaml")
	var log output
	worker.Dir, worker.Env, worker.Stdout, worker.Stderr = dir, env, &log, &log
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = worker.Process.Signal(os.Interrupt)
		_ = worker.Wait()
	}()
	for deadline := time.Now().Add(patience); !strings.Contains(log.text(), "service served"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the worker does not serve:\n%s", log.text())
		}
	}
	if err := buildEnqueue(); err != nil {
		t.Fatal(err)
	}
	ask := exec.Command(program("enqueue"), "--config", dir+"/rota.yaml", "turn", "say it", "--thread", "one", "--role", "owner", "--wait", "-o", "json")
	ask.Env, ask.Dir = env, dir
	if out, err := ask.CombinedOutput(); err != nil || strings.Contains(string(out), secret) {
		t.Fatalf("enqueue: %v\n%s\n%s", err, out, log.text())
	}

	text, err := os.ReadFile(filepath.Join(dir, "env.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(secret)) {
		t.Errorf("the agent's environment has a secret of the worker:\n%s", text)
	}
	for line := range strings.Lines(string(text)) {
		if name, _, _ := strings.Cut(line, "="); !slices.Contains(agentVariables, name) {
			t.Errorf("the agent's environment has %s", line)
		}
	}
	for _, name := range []string{"ROTA_FENCE=", "ROTA_TURN=one/1\n", "ROTA_ROLE=owner\n"} {
		if !bytes.Contains(text, []byte(name)) {
			t.Errorf("the agent's environment lacks %s:\n%s", name, text)
		}
	}
	if strings.Contains(log.text(), secret) {
		t.Errorf("the worker's log has a secret:\n%s", log.text())
	}

	total := 0
	for _, name := range []string{"data", "cache", "share", "state"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			total += closed(t, filepath.Join(dir, name))
		}
	}
	var outputs []string
	_ = filepath.WalkDir(filepath.Join(dir, "data"), func(path string, d fs.DirEntry, _ error) error {
		if strings.Contains(path, "/outputs/") && !d.IsDir() {
			outputs = append(outputs, path)
		}
		return nil
	})
	if total < 4 || len(outputs) != 1 {
		t.Errorf("only %d files were found, kept outputs %v", total, outputs)
	}
	for _, name := range append(outputs, filepath.Join(dir, "data", "embedded.json")) {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// The HTTP side of a real worker stands long headers, long bodies and half requests.
func TestHTTPSideStandsAbuse(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("", ""))
	w := r.start("builder")
	var url string
	r.await("the board", func() bool {
		_, rest, _ := strings.Cut(w.text(), `"url":"`)
		url, _, _ = strings.Cut(rest, `/"`)
		return url != ""
	})
	client := &http.Client{Timeout: 30 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	send := func(method, path string, body io.Reader, header string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Long", header)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		resp, err := client.Do(req)
		if err != nil {
			return 0 // the server hung up while we were still sending
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
		return resp.StatusCode
	}
	if code := send("GET", "/", nil, strings.Repeat("x", 1<<20)); code != http.StatusRequestHeaderFieldsTooLarge && code != 0 {
		t.Errorf("a header of 1 MiB: %d", code)
	}
	for _, path := range []string{"/", "/login", "/actions/reply", "/actions/cancel", "/asynqmon/api/queues/builder:pause"} {
		body := io.LimitReader(endless{}, 64<<20)
		if code := send("POST", path, body, ""); code != 0 && (code < 300 || code >= 500) {
			t.Errorf("POST %s with 64 MiB: %d", path, code)
		}
	}
	for _, path := range []string{"/..%2f..%2fetc/passwd", "/threads/%00", "/asynqmon/..%2f..%2f..%2fetc%2fpasswd", "/turns/" + strings.Repeat("a", 10_000)} {
		if code := send("GET", path, nil, ""); code < 300 || code >= 500 {
			if !strings.HasPrefix(path, "/asynqmon/") || code != http.StatusOK { // its own page for unknown routes
				t.Errorf("GET %.60s: %d", path, code)
			}
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if code := send("GET", path, nil, ""); code != http.StatusOK {
			t.Errorf("GET %s afterwards: %d", path, code)
		}
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.cmd.Process.Pid))
	if err != nil || !bytes.Contains(text, []byte("VmRSS")) {
		t.Fatal("the worker is gone", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// An address that others can reach is refused without a token, before anything is started.
func TestOpenAddressWithoutToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, oneService("", ""))
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0"} {
		for _, what := range [][]string{{"--service", "builder"}, {"--embedded", "--data", filepath.Join(t.TempDir(), "data")}} {
			out, code := execute(t, nil, program("worker"), append(what, "--config", r.file, "--http", address)...)
			if code != 78 || !strings.Contains(out, "ROTA_HTTP_TOKEN") || strings.Contains(out, "embedded") {
				t.Errorf("%v --http %s: exit %d\n%s", what, address, code, out)
			}
		}
	}
}

// No program prints the password of a Redis URL, whatever is wrong with it.
func TestNoPasswordIsPrinted(t *testing.T) {
	t.Parallel()
	if err := buildEnqueue(); err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t, redistest.Config("maxclients", "100"))
	server.ConfigSet("requirepass", "another-fake-secret")
	for _, url := range []string{
		"redis://:" + secret + "@" + server.Addr + "/0", // wrong
		"redis://user:" + secret + "@127.0.0.1:1/0",     // nobody there
		"redis://user:" + secret + "@127.0.0.1:port/0",
		"redis://user:" + secret + "%zz@127.0.0.1:1/0",
		"redis://user:" + secret + "@/0?bad=1",
		"redis-cluster://user:1/" + secret + "@127.0.0.1:1",
		"redis-cluster://user:" + secret + "@127.0.0.1:1/0",
		"redis-sentinel://user:" + secret + "@127.0.0.1:1/main",
		"redis-sentinel://user:" + secret + "@127.0.0.1:1",
		"rediss://user:" + secret + "@127.0.0.1:1/0",
		"unix://user:" + secret + "@/nowhere.sock",
		"http://user:" + secret + "@127.0.0.1:1",
	} {
		env := []string{"ROTA_REDIS=" + url}
		for _, args := range [][]string{{program("enqueue"), "ls"}, {program("enqueue"), "doctor"}, {program("worker"), "doctor"}} {
			out, code := execute(t, env, args[0], args[1:]...)
			if code == 0 || strings.Contains(out, secret) {
				t.Errorf("%s with %s: exit %d\n%s", args[1:], url, code, out)
			}
		}
	}
}

// execute runs a program in an empty folder and returns all that it prints and its
// exit code.
func execute(t *testing.T, env []string, name string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(append(clean(), "HOME="+cmd.Dir), env...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return string(out), exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out), 0
}

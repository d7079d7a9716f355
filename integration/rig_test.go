package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/config"
	"rota/internal/redistest"
	"rota/pairs"
	"rota/scheduler"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// patience bounds every wait. The machine may be busy; reaching it fails the test.
const patience = 3 * time.Minute

// rule is a puppet's rule; see its documentation.
type rule struct {
	Service string   `json:"service,omitempty"`
	Role    string   `json:"role,omitempty"`
	Thread  string   `json:"thread,omitempty"`
	Attempt int      `json:"attempt,omitempty"`
	Times   int      `json:"times,omitempty"`
	Steps   []string `json:"steps"`
}

// execution is one run of an agent, by the ledger.
type execution struct {
	Event, Thread, Turn, Attempt, Role, Intent, Service, Fence, Prompt, Session string
	PID, Rule                                                                   int
	At                                                                          time.Time
}

// setup is a rig's configuration. Zero fields have defaults.
type setup struct {
	roles    map[string][]string // services by role
	limits   string              // of rota.yaml, in braces
	services map[string]string   // of rota.yaml, by name; a puppet where there is none
	logins   string              // the credentials of rota.yaml, in braces
	redis    []redistest.Option
}

// heldLimits are shortLimits for stories that look around while an agent is held back
// from accepting its prompt: on a slow machine that takes its time.
const heldLimits = "{lease: 3s, start: 80s, silence: 50s, run: 90s, grace: 1s}"

const shortLimits = "{lease: 3s, start: 5s, silence: 50s, run: 90s, grace: 1s}"

// rig is one deployment of one test.
type rig struct {
	t        *testing.T
	dir      string // rules, ledger, marks
	file     string // rota.yaml
	repo     string
	services []string
	redis    *redistest.Server
	rdb      *redis.Client
	store    *store.Store
	relay    *scheduler.Relay
	commands *commands.Commands
	inspect  *asynq.Inspector

	mu      sync.Mutex
	workers []*workerProcess
}

// newRig starts a Redis and writes a configuration and a repository. At the end of
// the test no invariant may be broken and no agent may be left.
func newRig(t *testing.T, s setup) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), redis: redistest.Start(t, s.redis...)}
	r.file = filepath.Join(r.dir, "rota.yaml")
	r.writeConfig(s)
	r.writeRepo()
	r.rules()
	cfg, err := config.Load(r.file, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	r.services = cfg.ServiceNames()
	r.rdb = r.redis.Client()
	r.store, err = store.Open(t.Context(), r.rdb, store.Options{Shards: cfg.Shards, Plan: pairs.Plan, Crew: cfg.Crew(), Rules: cfg.Rules()})
	if err != nil {
		t.Fatal(err)
	}
	r.relay = scheduler.NewRelay(r.store, discard, nil)
	r.inspect = asynq.NewInspectorFromRedisClient(r.rdb)
	r.commands = &commands.Commands{Store: r.store, Hand: r.relay.Hand, Hurry: func(ctx context.Context, a turns.Attempt, _ store.Ask) error {
		return tasks.Hurry(ctx, r.rdb, a.ID)
	}}
	t.Cleanup(r.check)
	return r
}

func (r *rig) writeConfig(s setup) {
	if s.roles == nil {
		s.roles = map[string][]string{"owner": {"codex-main"}, "reviewer": {"claude", "codex-review"}, "arbiter": {"claude"}}
	}
	if s.limits == "" {
		s.limits = shortLimits
	}
	var b strings.Builder
	fmt.Fprintf(&b, "redis: %s\nshards: 2\ndata: %q\nlimits: %s\n", r.redis.URL(), filepath.Join(r.dir, "data"), s.limits)
	if s.logins != "" {
		fmt.Fprintf(&b, "credentials: %s\n", s.logins)
	}
	b.WriteString("services:\n")
	seen := map[string]bool{}
	for _, list := range s.roles {
		for _, name := range list {
			if seen[name] {
				continue
			}
			seen[name] = true
			more := s.services[name]
			if more != "" {
				more = ", " + more
			}
			fmt.Fprintf(&b, "  %s: {agent: command, command: [%q, %q, %s]%s}\n", name, program("puppet"), r.dir, name, more)
		}
	}
	b.WriteString("roles:\n")
	for role, list := range s.roles {
		fmt.Fprintf(&b, "  %s: {services: [%s]}\n", role, strings.Join(list, ", "))
	}
	if err := os.WriteFile(r.file, []byte(b.String()), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// writeRepo makes the user's repository, with one commit.
func (r *rig) writeRepo() {
	r.repo = filepath.Join(r.dir, "repo")
	for _, args := range [][]string{
		{"init", "-q", "-b", "main", r.repo},
		{"-C", r.repo, "-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "-q", "--allow-empty", "-m", "begin"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			r.t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

// rules says what the agents do from now on.
func (r *rig) rules(list ...rule) {
	r.t.Helper()
	if list == nil {
		list = []rule{}
	}
	b, err := json.Marshal(list)
	if err == nil {
		err = os.WriteFile(filepath.Join(r.dir, "rules.new"), b, 0o600)
	}
	if err == nil {
		err = os.Rename(filepath.Join(r.dir, "rules.new"), filepath.Join(r.dir, "rules.json"))
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// mark lets agents go on that wait for it.
func (r *rig) mark(name string) {
	r.t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), nil, 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// forget takes a mark back.
func (r *rig) forget(name string) {
	r.t.Helper()
	if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) marked(name string) bool {
	_, err := os.Stat(filepath.Join(r.dir, name))
	return err == nil
}

// runs returns the starts of runs so far that fit; nil for all.
func (r *rig) runs(fits func(execution) bool) []execution {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "ledger.jsonl"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.t.Fatal(err)
	}
	var list []execution
	for line := range bytes.Lines(text) {
		var e execution
		if err := json.Unmarshal(line, &e); err != nil {
			continue // a line that is being written
		}
		if e.Event == "start" && (fits == nil || fits(e)) {
			list = append(list, e)
		}
	}
	return list
}

func role(name string) func(execution) bool {
	return func(e execution) bool { return e.Role == name }
}

func by(service string) func(execution) bool {
	return func(e execution) bool { return e.Service == service }
}

func of(id string) func(execution) bool {
	return func(e execution) bool { return e.Thread == id || e.Turn == id || e.Attempt == id }
}

// task opens a paired task in a thread.
func (r *rig) task(thread string) string {
	r.t.Helper()
	res, err := r.commands.Task(r.t.Context(), commands.TaskAsk{Thread: thread, Workdir: r.repo, Text: "make it better"})
	if err != nil {
		r.t.Fatal(err)
	}
	return res.Turn
}

// lone opens a lone turn in a thread.
func (r *rig) lone(thread string, as turns.Role) string {
	r.t.Helper()
	res, err := r.commands.Turn(r.t.Context(), commands.TurnAsk{Thread: thread, Workdir: r.repo, Text: "do it", Role: as})
	if err != nil {
		r.t.Fatal(err)
	}
	return res.Turn
}

func turnAsk(thread string) commands.TurnAsk {
	return commands.TurnAsk{Thread: thread, Text: "do it", Role: turns.Owner}
}

// check is the end of every test: the workers stop, no invariant is broken, no
// agent is left.
func (r *rig) check() {
	if r.t.Failed() {
		r.t.Log(r.picture())
	}
	r.stopAll()
	if !r.redis.Running() {
		r.t.Error("the test left Redis stopped: nothing can be verified")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	found, err := r.store.Verify(ctx, "")
	if err != nil {
		r.t.Error(err)
	}
	for _, v := range found {
		r.t.Errorf("%s\n%s", v, r.picture())
	}
	if left := r.agents(); len(left) > 0 {
		r.t.Errorf("agents are left: %v", left)
		killAll(left)
	}
	if r.t.Failed() {
		for _, w := range r.workers {
			r.t.Logf("log of %s:\n%s", w.service, w.tail())
		}
	}
}

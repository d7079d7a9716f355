package integration

import (
	"cmp"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rota/integration/processes"
	"rota/turns"
)

// vault is a program that prints a login.
const vault = "#!/bin/sh\ncat \"$(dirname \"$0\")/vault.login\"\n"

// No login is in Redis, logs, process lists, environments, outputs or pages, while
// its agent runs and afterwards, although every agent here prints its login
// wherever it can: into errors, calls of tools and answers.
func TestNoLoginIsSeen(t *testing.T) {
	t.Parallel()
	s := loginCrew("reviewer", heldLimits)
	s.logins = "{first: {file: first.login}, second: {file: second.login}, other: {command: [./vault]}}"
	r := newLoginRig(t, s, map[string]string{"claude": "claude", "codex-review": "codex"})
	r.write(filepath.Join(r.dir, "first.login"), firstLogin+"\n", 0o600)
	r.write(filepath.Join(r.dir, "second.login"), `{"ANTHROPIC_API_KEY": "`+secondLogin+`"}`, 0o600)
	r.write(filepath.Join(r.dir, "vault.login"), codexLogin, 0o600)
	r.write(filepath.Join(r.dir, "vault"), vault, 0o700)
	r.meets("claude", "claude", meeting{login: firstLogin, name: "first", where: "401_invalid", echo: true},
		meeting{login: secondLogin, name: "second", where: "401_invalid", echo: true})
	r.meets("codex-review", "codex", meeting{login: codexLogin, name: "other", echo: true})
	r.rules(rule{Role: "owner", Steps: []string{"write file.txt owner-was-here", "result done"}})
	r.mark("hold.other")
	r.startAll()

	r.task("hush")
	r.await("the agent of codex-review", func() bool { return r.marked("held.other") })
	r.comes("hush/2.3", turns.Starting)
	r.agentHas(codexLogin, firstLogin, secondLogin)
	r.noLogin("while the agent runs", firstLogin, secondLogin, codexLogin)
	r.forget("hold.other")
	r.rests("hush", turns.PairCompleted)
	r.story("hush/2", "claude initial failed", "claude rotate delegated", "codex-review handoff completed")

	// The next review finds nothing but refused logins, and waits.
	r.meets("codex-review", "codex", meeting{login: codexLogin, name: "other", where: "401_invalid", echo: true})
	r.task("quiet")
	r.await("the wait", func() bool {
		return r.attempt("quiet/2.3").Cause == turns.CauseWait || r.attempt("quiet/2.2").Cause == turns.CauseWait
	})
	r.noLogin("while a turn waits for a login", firstLogin, secondLogin, codexLogin)

	text, err := r.store.Text(t.Context(), "hush/2")
	if err != nil || text != "approved with [redacted]" {
		t.Errorf("the answer is kept as %q, %v", text, err)
	}
	if got := r.attempt("hush/2.1").Error; !strings.Contains(got, "Invalid API key [redacted]") {
		t.Errorf("the error is kept as %q", got)
	}
}

// agentHas checks that the running agent has its own login, and no other one: the
// look at environments would find one.
func (r *rig) agentHas(own string, others ...string) {
	r.t.Helper()
	found := false
	for _, p := range processes.All() {
		env := strings.Join(p.Env, "\n")
		if !strings.Contains(env, "ROTA_WORKSPACE="+r.dir) {
			continue
		}
		found = found || strings.Contains(env, own)
		for _, other := range others {
			if strings.Contains(env, other) {
				r.t.Errorf("the agent %d has another login than its own", p.PID)
			}
		}
	}
	if !found {
		r.t.Errorf("no agent has its login")
	}
}

// noLogin looks at everything that a login could get into. The thread is called
// hush, and its owner has left its mark in the workspace.
func (r *rig) noLogin(when string, logins ...string) {
	r.t.Helper()
	places := map[string]string{"Redis": r.dump(), "processes": outsideAgents(), "pages": r.pages(), "enqueue": r.told(), "files": r.files()}
	for _, w := range r.workers {
		places["log of "+w.service] = w.text()
	}
	for where, text := range places {
		if word := cmp.Or(map[string]string{"processes": program("worker"), "files": "owner-was-here"}[where], "hush"); !strings.Contains(text, word) {
			r.t.Errorf("%s: not even %q is in %s (%d bytes): the look sees nothing", when, word, where, len(text))
		}
		for _, login := range logins {
			if i := strings.Index(text, login); i >= 0 {
				r.t.Errorf("%s: the login %s is in %s: …%s…", when, login, where, text[max(0, i-200):min(len(text), i+100)])
			}
		}
	}
}

// dump is every key of Redis with its whole content, rota's and asynq's.
func (r *rig) dump() string {
	r.t.Helper()
	ctx := r.t.Context()
	var b strings.Builder
	keys := r.rdb.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		key := keys.Val()
		kind, err := r.rdb.Type(ctx, key).Result()
		var value any
		switch kind {
		case "string":
			value, err = r.rdb.Get(ctx, key).Result()
		case "hash":
			value, err = r.rdb.HGetAll(ctx, key).Result()
		case "list":
			value, err = r.rdb.LRange(ctx, key, 0, -1).Result()
		case "set":
			value, err = r.rdb.SMembers(ctx, key).Result()
		case "zset":
			value, err = r.rdb.ZRangeWithScores(ctx, key, 0, -1).Result()
		case "stream":
			value, err = r.rdb.XRange(ctx, key, "-", "+").Result()
		case "none":
			continue // went by itself
		default:
			r.t.Errorf("key %s is a %s, which the look does not know", key, kind)
		}
		if err != nil && err.Error() != "redis: nil" {
			r.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s %v\n", kind, key, value)
	}
	if err := keys.Err(); err != nil {
		r.t.Fatal(err)
	}
	if !strings.Contains(b.String(), "asynq:{") {
		r.t.Errorf("asynq's keys are not in the dump")
	}
	return b.String()
}

// outsideAgents is the arguments of all processes of this machine, and the
// environments of those that are no agents.
func outsideAgents() string {
	var b strings.Builder
	for _, p := range processes.All() {
		b.WriteString(p.Args + "\n")
		if !slices.ContainsFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, "ROTA_FENCE=") }) {
			b.WriteString(strings.Join(p.Env, "\n") + "\n")
		}
	}
	return b.String()
}

// pages is what the boards of all workers serve, asynqmon's answers among it.
func (r *rig) pages() string {
	r.t.Helper()
	var b strings.Builder
	for _, w := range r.workers {
		found := boardURL.FindStringSubmatch(w.text())
		if found == nil {
			r.t.Fatalf("worker %s serves no board:\n%s", w.service, w.tail())
		}
		paths := []string{"", "threads/hush", "turns/hush/1", "turns/hush/2", "turns/hush/3", "threads/quiet", "turns/quiet/2", "dead", "services", "credentials",
			"schedules", "metrics", "readyz", "asynqmon/api/queues"}
		for _, state := range []string{"active", "pending", "scheduled", "retry", "archived", "completed"} {
			paths = append(paths, "asynqmon/api/queues/"+w.service+"/"+state+"_tasks")
		}
		for _, path := range paths {
			reply, err := http.Get(found[1] + path)
			if err != nil {
				r.t.Fatal(err)
			}
			text, err := io.ReadAll(reply.Body)
			reply.Body.Close()
			if err != nil {
				r.t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s %d %s\n", path, reply.StatusCode, text)
		}
	}
	return b.String()
}

// told is what the command line prints, to both of its outputs.
func (r *rig) told() string {
	r.t.Helper()
	var b strings.Builder
	for _, line := range []string{
		"ls -o jsonl", "show hush -o json", "show hush/2 -o json", "show hush/2", "log hush/2 -o jsonl", "why hush/2", "why hush", "show quiet -o json",
		"why quiet", "log quiet", "dead ls", "credential ls", "credential ls -o json", "requests", "verify", "doctor",
	} {
		stdout, stderr, code := r.enqueue(strings.Fields(line)...)
		fmt.Fprintf(&b, "%s\n%s\n%s\n%d\n", line, stdout, stderr, code)
	}
	return b.String()
}

// files is what is below the folder of workspaces and outputs.
func (r *rig) files() string {
	r.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(filepath.Join(r.dir, "data"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // went while we looked
		}
		text, err := os.ReadFile(path)
		if err == nil {
			fmt.Fprintf(&b, "%s %s\n", path, text)
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return b.String()
}

package integration

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"rota/credentials"
	"rota/internal/config"
	"rota/scheduler"
)

// key spells a key of a thread's shard, for tests that lay a hand on the store.
func (r *rig) key(thread, rest string) string {
	return fmt.Sprintf("rota:{s%02d}:%s", r.store.ShardOf(thread), rest)
}

// clearLogins is `enqueue credential clear` for every login.
func (r *rig) clearLogins() {
	r.t.Helper()
	cfg, err := config.Load(r.file, config.Flags{})
	if err != nil {
		r.t.Fatal(err)
	}
	c := credentials.Config{Services: map[string]credentials.Service{}, Credentials: map[string]credentials.Source{}}
	for name, s := range cfg.Services {
		c.Services[name] = credentials.Service{Agent: s.Agent, Model: s.Model, Credentials: s.Credentials}
	}
	for id, s := range cfg.Credentials {
		c.Credentials[id] = credentials.Source{Env: s.Env, File: s.File, Command: s.Command}
	}
	logins, err := credentials.New(r.rdb, c)
	if err != nil {
		r.t.Fatal(err)
	}
	list, err := logins.List(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	for _, l := range list {
		if _, err := logins.Clear(r.t.Context(), l.Credential); err != nil {
			r.t.Fatal(err)
		}
	}
	if _, err := scheduler.WakeWaiting(r.t.Context(), r.store, r.relay, cfg.ServiceNames()); err != nil {
		r.t.Fatal(err)
	}
}

var boardURL = regexp.MustCompile(`"url":"(http://[^"]+)"`)

// metric returns the value of one line of the worker's /metrics; empty for none.
func (w *workerProcess) metric(name string) string {
	w.r.t.Helper()
	found := boardURL.FindStringSubmatch(w.text())
	if found == nil {
		w.r.t.Fatalf("worker %s serves no metrics:\n%s", w.service, w.tail())
	}
	reply, err := http.Get(found[1] + "metrics")
	if err != nil {
		w.r.t.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		w.r.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

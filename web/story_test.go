package web

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/pairs"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

var crew = turns.Crew{
	turns.Owner:    {Services: []string{"codex-main"}},
	turns.Reviewer: {Services: []string{"claude", "codex-review"}},
	turns.Arbiter:  {Services: []string{"claude"}},
}

// story is a store with short ways to let things happen, and a board on it.
type story struct {
	testing.TB
	ctx     context.Context
	s       *store.Store
	c       *commands.Commands
	url     string
	handler http.Handler
	live    []store.Run // every run that was started
}

// tell opens a board on a fresh miniredis.
func tell(t testing.TB, change ...func(*Config)) *story {
	t.Helper()
	return tellOn(t, redistest.Mini(t), change...)
}

func tellOn(t testing.TB, rdb redis.UniversalClient, change ...func(*Config)) *story {
	t.Helper()
	ctx := context.Background()
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan, Crew: crew})
	if err != nil {
		t.Fatal(err)
	}
	y := &story{TB: t, ctx: ctx, s: s, c: &commands.Commands{Store: s}}
	config := Config{Store: s, Commands: y.c, Services: []string{"codex-main", "claude", "codex-review"}, Gatherer: prometheus.NewRegistry(),
		Log: slog.New(slog.NewTextHandler(t.Output(), nil))}
	for _, f := range change {
		f(&config)
	}
	y.handler, err = New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(y.handler)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	y.url = server.URL
	return y
}

func (y *story) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

// task opens a paired task.
func (y *story) task(thread, text string) turns.OutboxEntry {
	y.Helper()
	r, err := y.c.Task(y.ctx, commands.TaskAsk{Thread: thread, Text: text})
	y.must(err)
	return r.Entry
}

func (y *story) claim(e turns.OutboxEntry) store.Run {
	y.Helper()
	a, err := y.s.Claim(y.ctx, store.Claim{Attempt: e.Attempt, Service: e.Service, Role: e.Role, Intent: e.Intent, Stamp: e.Stamp,
		Run: turns.NewToken(), Worker: "w1@host", Agent: "scripted"})
	y.must(err)
	if a.Answer != store.Claimed {
		y.Fatalf("claim %s: %+v", e.Attempt, a)
	}
	return a.Run
}

func (y *story) start(r store.Run) store.Run {
	y.Helper()
	y.must(y.s.Start(y.ctx, r, "session-1", "work", "tree-1"))
	y.live = append(y.live, r)
	return r
}

func (y *story) done(r store.Run, o turns.Outcome, text string) turns.OutboxEntry {
	y.Helper()
	ended, err := y.s.Settle(y.ctx, r, turns.Ending{State: turns.Completed, Outcome: o, Text: text, Tree: "tree-1"})
	y.must(err)
	return ended.Outbox
}

func (y *story) handoff(r store.Run, to string) turns.OutboxEntry {
	y.Helper()
	on, err := y.s.Delegate(y.ctx, r, store.Successor{Service: to, Cause: turns.CauseHandoff, Class: turns.ClassAuth, Error: "401 the token has expired",
		Reason: "auth: no usable login on this service"})
	y.must(err)
	return on.Outbox
}

// dies ends an attempt as a dead letter.
func (y *story) dies(r store.Run, text string) {
	y.Helper()
	_, err := y.s.Compensate(y.ctx, r, turns.Ending{Class: turns.ClassConfig, Error: text})
	y.must(err)
}

// handedOff is a thread whose review went to the fallback and runs there.
func (y *story) handedOff(thread string) store.Run {
	y.Helper()
	review := y.done(y.start(y.claim(y.task(thread, "mend the login"))), turns.Done, "mended")
	return y.start(y.claim(y.handoff(y.claim(review), "codex-review")))
}

// died is a thread whose owner's turn is a dead letter.
func (y *story) died(thread, text string) {
	y.Helper()
	y.dies(y.claim(y.task(thread, "build it")), text)
}

// lost is a thread with a lost attempt that goes on.
func (y *story) lost(thread string) store.Run {
	y.Helper()
	r := y.start(y.claim(y.task(thread, "survive")))
	on, err := y.s.Lose(y.ctx, r, true, store.Successor{Service: crew[turns.Owner].Services[0], Cause: turns.CauseLost, Reason: "the worker was killed"})
	y.must(err)
	return y.start(y.claim(on.Outbox))
}

// renew renews the leases of all runs that still live.
func (y *story) renew() {
	y.Helper()
	var list []store.Renewal
	for _, r := range y.live {
		list = append(list, store.Renewal{Run: r, Lease: turns.DefaultLimits.Lease, Progress: turns.ProgressTools})
	}
	_, err := y.s.Renew(y.ctx, list)
	y.must(err)
}

// answer is what a request came to.
type answer struct {
	Code   int
	Header http.Header
	Body   string
}

// ask sends a request as a browser without redirects does.
func (y *story) ask(method, path, body string, header ...string) answer {
	y.Helper()
	target := path
	if strings.HasPrefix(path, "/") {
		target = y.url + path
	}
	r, err := http.NewRequestWithContext(y.ctx, method, target, strings.NewReader(body))
	y.must(err)
	r.Header.Set("Accept", "text/html")
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	reply, err := http.DefaultTransport.RoundTrip(r)
	y.must(err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	y.must(err)
	return answer{reply.StatusCode, reply.Header, string(text)}
}

// get fails unless the page is there.
func (y *story) get(path string, header ...string) string {
	y.Helper()
	a := y.ask("GET", path, "", header...)
	if a.Code != http.StatusOK {
		y.Fatalf("GET %s: %d %.300s", path, a.Code, a.Body)
	}
	return a.Body
}

func (y *story) shows(body string, wants ...string) {
	y.Helper()
	for _, want := range wants {
		if !strings.Contains(body, want) {
			y.Errorf("%q is missing in\n%.6000s", want, body)
		}
	}
}

// queue hands an attempt to asynq.
func (y *story) queue(e turns.OutboxEntry) error {
	return tasks.Enqueue(y.ctx, asynq.NewClientFromRedisClient(y.s.Redis()), e, 0, nil)
}

// formType is the type of a form's body.
const formType = "application/x-www-form-urlencoded"

func form(pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v.Encode()
}

// many opens threads with one turn each.
func (y *story) many(n int) {
	y.Helper()
	for i := range n {
		_, err := y.s.OpenTurn(y.ctx, store.NewTurn{Command: turns.NewToken(), Thread: fmt.Sprintf("thread-%04d", i),
			Role: turns.Owner, Intent: turns.Work, Seat: crew[turns.Owner], Prompt: "work"})
		y.must(err)
	}
}

// tour is threads in many states, as after a busy morning.
func (y *story) tour(pass func(time.Duration)) {
	y.Helper()
	r := y.claim(y.task("docs-typos", "mend the typos"))
	pass(3 * time.Second)
	y.start(r)
	pass(4 * time.Minute)
	review := y.start(y.claim(y.done(r, turns.Done, "mended 14 typos")))
	pass(70 * time.Second)
	final := y.start(y.claim(y.done(review, turns.Approve, "good")))
	pass(21 * time.Second)
	y.done(final, turns.Done, "finished")
	dead := y.claim(y.task("upgrade-go", "build it with the next Go"))
	pass(400 * time.Millisecond)
	y.dies(dead, "agent says: model \"gpt-unknown\" does not exist")
	_, err := y.c.Cancel(y.ctx, "", y.task("old-idea", "try it").Turn)
	y.must(err)
	y.rateLimits(pass)
	r = y.start(y.claim(y.task("migrate-db", "move the accounts")))
	pass(8 * time.Minute)
	on, err := y.s.Lose(y.ctx, r, true, store.Successor{Service: "codex-main", Cause: turns.CauseLost, Reason: "the worker was killed"})
	y.must(err)
	pass(2 * time.Second)
	y.start(y.claim(on.Outbox))
	pass(10 * time.Minute)
	y.task("cache-layer", "add a cache")
	r = y.start(y.claim(y.task("fix-login", "The login form accepts an empty password. Mend it, with a test.")))
	pass(6 * time.Minute)
	review = y.claim(y.done(r, turns.Done, "An empty password is refused now; the test covers it."))
	pass(1300 * time.Millisecond)
	y.start(y.claim(y.handoff(review, "codex-review")))
	pass(95 * time.Second)
}

// rateLimits is a thread whose review asked for changes, twice handed over.
func (y *story) rateLimits(pass func(time.Duration)) {
	y.Helper()
	r := y.start(y.claim(y.task("rate-limits", "bound the requests")))
	pass(11 * time.Minute)
	review := y.start(y.claim(y.done(r, turns.Done, "bounded")))
	pass(3 * time.Minute)
	r = y.start(y.claim(y.done(review, turns.Changes, "the burst is unbounded")))
	pass(5 * time.Minute)
	review = y.start(y.claim(y.done(r, turns.Done, "bounded the burst too")))
	pass(80 * time.Second)
	back := y.claim(y.handoff(review, "codex-review"))
	pass(30 * time.Second)
	y.start(y.claim(y.handoff(back, "claude")))
	pass(40 * time.Second)
}

// lone opens a turn without a paired task.
func (y *story) lone(thread string) turns.OutboxEntry {
	y.Helper()
	o, err := y.s.OpenTurn(y.ctx, store.NewTurn{Command: turns.NewToken(), Thread: thread, Role: turns.Owner, Intent: turns.Work, Seat: crew[turns.Owner], Prompt: "work"})
	y.must(err)
	return o.Outbox
}

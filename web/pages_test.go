package web

import (
	"net/http"
	"strings"
	"testing"

	"rota/internal/redistest"
	"rota/turns"

	"github.com/redis/go-redis/v9"
)

func TestPagesOfAHandedOffThread(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		y := tellOn(t, rdb)
		y.handedOff("fix-login")
		y.died("bad-config", "no such model")
		y.lost("killed")
		y.shows(y.get("/"), `data-key="fix-login"`, "in review", `data-key="bad-config"`, "needs human", "no such model", `data-key="killed"`)
		y.shows(y.get("/?show=open"), `data-key="fix-login"`)
		if body := y.get("/?show=human"); !strings.Contains(body, "bad-config") || strings.Contains(body, "fix-login") {
			t.Errorf("what needs a human: %s", body)
		}
		y.shows(y.get("/threads/fix-login"), `data-role="owner"`, `data-role="reviewer"`, `class="arrow handoff"`, "handed from claude to codex-review",
			`data-attempt="fix-login/2.1" data-service="claude" data-state="delegated"`,
			`data-attempt="fix-login/2.2" data-service="codex-review" data-state="running"`)
		y.shows(y.get("/turns/fix-login/2"), "401 the token has expired", "<b>delegate</b>", "is running since", `id="a1"`, `id="a2"`)
		y.shows(y.get("/turns/bad-config/1"), `class="tag dead"`, "no such model", "dead letter after 1 delivery")
		y.shows(y.get("/dead"), `data-key="bad-config/1"`, "no such model", "dead letter after 1 delivery")
		y.shows(y.get("/threads/killed"), `class="arrow lost"`, "1 lost")
		y.shows(y.get("/services"), `data-key="codex-review"`, "none")
		y.shows(y.get("/credentials"), "knows no credentials")
		y.shows(y.get("/schedules"), "No schedules")
	})
}

func TestATurnShowsWhatWentInAndWhatCameOut(t *testing.T) {
	y := tell(t)
	r := y.start(y.claim(y.task("fix", "mend the login")))
	_, err := y.s.Item(y.ctx, r, turns.Item{ID: "t1", Kind: turns.ItemTool, State: turns.ItemOpen, Turn: "fix/1", Title: "go test ./..."})
	y.must(err)
	y.shows(y.get("/turns/fix/1"), "mend the login", "go test ./...", "w1@host", "session-1", "tool")
	y.done(r, turns.Done, "it is mended")
	y.shows(y.get("/turns/fix/1"), "it is mended", "fix/2", "done", "settle")
	if a := y.ask("GET", "/turns/fix/1.1", ""); a.Code != http.StatusOK {
		t.Errorf("an attempt's address: %d", a.Code)
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	y := tell(t)
	for _, path := range []string{"/threads/none", "/threads/NO", "/turns/none/1", "/turns/none/x", "/turns/none", "/nothing", "/assets/", "/assets/none.js",
		"/assets/..%2fweb.go", "/threads/", "/threads/a%2f..%2fb", "/turns/a%0ab/1", "/.git/config"} {
		if a := y.ask("GET", path, ""); a.Code != http.StatusNotFound {
			t.Errorf("GET %s: %d", path, a.Code)
		}
	}
	for _, path := range []string{"/", "/threads/x", "/dead", "/metrics", "/events", "/livez"} {
		if a := y.ask("POST", path, ""); a.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, a.Code)
		}
	}
}

// The board reads and follows a Redis Cluster too, where the shards lie on several
// servers.
func TestTheBoardOnACluster(t *testing.T) {
	y := tellOn(t, redistest.StartCluster(t).Client())
	e := y.listen("/events")
	threads := []string{"a", "b", "c", "d", "e", "f"}
	for _, thread := range threads {
		y.handedOff(thread)
	}
	seen := map[string]bool{}
	for len(seen) < len(threads) {
		if m := e.move(); m.Verb == turns.VerbDelegate {
			seen[m.Attempt] = true
		}
	}
	y.must(y.queue(y.task("queued", "mend it")))
	for _, path := range []string{"/", "/?show=open", "/?show=human", "/?q=a", "/dead", "/services", "/schedules", "/threads/c", "/turns/d/2"} {
		y.get(path)
	}
	y.shows(y.get("/"), `data-key="a"`, `data-key="f"`)
	y.shows(y.get("/metrics"), `rota_queue_tasks{queue="codex-main",state="pending"} 1`, "rota_redis_readable 1")
	y.shows(y.get("/asynqmon/api/queues/codex-main/pending_tasks"), "attempt queued/1.1")
}

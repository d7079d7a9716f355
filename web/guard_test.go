package web

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const token = "fake-board-token"

func withToken(c *Config) { c.Token = token }
func admin(c *Config)     { c.Admin = true }

// every is every page and stream of the board that a token protects.
var every = []string{"/", "/?show=open", "/threads/fix", "/turns/fix/1", "/dead", "/services", "/credentials", "/schedules",
	"/metrics", "/events", "/asynqmon/", "/asynqmon/api/queues", "/assets/board.js", "/nothing"}

func TestEveryAnswerHasTheHeaders(t *testing.T) {
	y := tell(t)
	y.task("fix", "mend it")
	for _, path := range append(slices.DeleteFunc(slices.Clone(every), func(p string) bool { return p == "/events" }), "/livez", "/readyz") {
		a := y.ask("GET", path, "")
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Content-Security-Policy": "default-src 'self'",
			"Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-"} {
			if got := a.Header.Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if csp := a.Header.Get("Content-Security-Policy"); strings.Contains(csp, "unsafe-eval") || strings.Contains(csp, "script-src 'self' 'unsafe-inline'") || strings.Contains(csp, "http") {
			t.Errorf("%s: %s", path, csp)
		}
	}
}

func TestOurPagesUseNothingThatThePolicyForbids(t *testing.T) {
	y := tell(t, admin)
	y.handedOff("fix")
	forbidden := regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=|javascript:|(src|href)="(https?:)?//`)
	for _, path := range []string{"/", "/threads/fix", "/turns/fix/2", "/dead", "/services", "/credentials", "/schedules"} {
		if found := forbidden.FindString(y.get(path)); found != "" {
			t.Errorf("%s has %q", path, found)
		}
	}
}

func TestWithoutATokenOnlyALoopbackNameIsAnswered(t *testing.T) {
	y := tell(t)
	for host, want := range map[string]int{
		"localhost": 200, "localhost:8377": 200, "127.0.0.1:8377": 200, "127.3.2.1": 200, "[::1]:8377": 200, "LOCALHOST": 200,
		"rebound.example": 403, "rebound.example:8377": 403, "10.0.0.7:8377": 403, "localhost.rebound.example": 403, "127.0.0.1.rebound.example": 403,
		"0.0.0.0:8377": 403, "[fe80::1]": 403,
	} {
		for _, path := range []string{"/", "/metrics", "/asynqmon/api/queues"} {
			if a := y.ask("GET", path, "", "Host", host); a.Code != want {
				t.Errorf("%s%s: %d, want %d", host, path, a.Code, want)
			}
		}
		if a := y.ask("GET", "/livez", "", "Host", host); a.Code != 200 {
			t.Errorf("/livez as %s: %d", host, a.Code)
		}
	}
}

func TestEveryPageWantsTheToken(t *testing.T) {
	y := tell(t, withToken)
	y.task("fix", "secret words")
	for _, path := range every {
		for _, header := range [][]string{nil, {"Authorization", "Bearer wrong"}, {"Authorization", "Bearer "}, {"Authorization", token}, {"Cookie", sessionCookie + "=" + token},
			{"Cookie", sessionCookie + "="}, {"X-Forwarded-For", "127.0.0.1"}, {"Host", "localhost"}} {
			if a := y.ask("GET", path, "", header...); a.Code != 401 || strings.Contains(a.Body, "secret words") {
				t.Errorf("%s with %q: %d", path, header, a.Code)
			}
		}
	}
	for _, path := range []string{"/livez", "/readyz", "/login"} {
		y.get(path)
	}
	y.shows(y.get("/turns/fix/1", "Authorization", "Bearer "+token), "secret words")
	if a := y.ask("GET", "/metrics", "", "Host", "rota.example", "Authorization", "Bearer "+token); a.Code != 200 {
		t.Errorf("with a token any name is answered: %d", a.Code)
	}
	if a := y.ask("GET", "/metrics", "", "Accept", "text/plain"); a.Header.Get("WWW-Authenticate") == "" {
		t.Error("no WWW-Authenticate")
	}
}

func TestTheLogin(t *testing.T) {
	y := tell(t, withToken)
	y.task("fix", "mend it")
	if a := y.ask("POST", "/login", form("token", "wrong", "next", "/dead"), "Content-Type", formType); a.Code != 401 || a.Header.Get("Set-Cookie") != "" {
		t.Errorf("a wrong token: %d, cookie %q", a.Code, a.Header.Get("Set-Cookie"))
	}
	a := y.ask("POST", "/login", form("token", token, "next", "/threads/fix"), "Content-Type", formType)
	cookie := a.Header.Get("Set-Cookie")
	if a.Code != 303 || a.Header.Get("Location") != "/threads/fix" {
		t.Errorf("the right token: %d to %s", a.Code, a.Header.Get("Location"))
	}
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("the cookie is %q, without %s", cookie, want)
		}
	}
	if strings.Contains(cookie, token) {
		t.Error("the cookie is the token itself")
	}
	value, _, _ := strings.Cut(cookie, ";")
	y.shows(y.get("/turns/fix/1", "Cookie", value), "mend it")
}

func TestTheTokenInAnAddressBecomesACookie(t *testing.T) {
	y := tell(t, withToken)
	a := y.ask("GET", "/dead?threads=200&token="+token, "")
	if a.Code != 303 || a.Header.Get("Location") != "/dead?threads=200" || !strings.Contains(a.Header.Get("Set-Cookie"), "HttpOnly") {
		t.Errorf("%d to %q with %q", a.Code, a.Header.Get("Location"), a.Header.Get("Set-Cookie"))
	}
	if a := y.ask("POST", "/actions/cancel?token="+token, "id=fix"); a.Code != 401 {
		t.Errorf("a change by a token in the address: %d", a.Code)
	}
	if a := y.ask("GET", "/?token=wrong", ""); a.Code != 401 {
		t.Errorf("a wrong token in the address: %d", a.Code)
	}
}

func TestTheLoginLeadsNowhereElse(t *testing.T) {
	y := tell(t, withToken)
	for _, next := range []string{"https://other.example/", "//other.example/", `/\other.example/`, "javascript:alert(1)", "/a\r\nSet-Cookie: x=y", "other.example", ""} {
		a := y.ask("POST", "/login", form("token", token, "next", next), "Content-Type", formType)
		if got := a.Header.Get("Location"); got != "/" {
			t.Errorf("%q leads to %q", next, got)
		}
	}
}

func TestHealth(t *testing.T) {
	err := errors.New("no worker runs: secret detail")
	y := tell(t, func(c *Config) { c.Ready = func(context.Context) error { return err } })
	if a := y.ask("GET", "/livez", ""); a.Code != 200 {
		t.Errorf("/livez: %d", a.Code)
	}
	if a := y.ask("GET", "/readyz", ""); a.Code != 503 || strings.Contains(a.Body, "secret") {
		t.Errorf("/readyz: %d %s", a.Code, a.Body)
	}
	err = nil
	if a := y.ask("GET", "/readyz", ""); a.Code != 200 {
		t.Errorf("/readyz: %d", a.Code)
	}
}

func TestALongBodyIsRefused(t *testing.T) {
	y := tell(t, admin)
	if a := y.ask("POST", "/actions/reply", strings.Repeat("x", maxBody+1), "Content-Type", formType); a.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("%d", a.Code)
	}
}

func TestAsynqmonIsReadOnlyWithoutAdmin(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Config)
		want   int
	}{{"read-only", func(*Config) {}, 405}, {"admin", admin, 204}} {
		t.Run(row.name, func(t *testing.T) {
			y := tell(t, row.change)
			y.must(y.queue(y.task("fix", "mend it")))
			if a := y.ask("POST", "/asynqmon/api/queues/codex-main:pause", ""); a.Code != row.want {
				t.Errorf("pause: %d %s", a.Code, a.Body)
			}
			if a := y.ask("POST", "/asynqmon/api/queues/codex-main:pause", "", "Origin", "https://other.example"); a.Code == 204 {
				t.Error("a page of another origin paused a queue")
			}
			y.shows(y.get("/asynqmon/api/queues/codex-main/pending_tasks"), "thread fix · turn fix/1 · attempt fix/1.1 · owner (work) on codex-main")
			page := y.ask("GET", "/asynqmon/", "")
			if strings.Contains(page.Body, "googleapis") || !strings.Contains(page.Header.Get("Content-Security-Policy"), "'sha256-") {
				t.Errorf("asynqmon's page: %s\n%s", page.Header, page.Body)
			}
		})
	}
}

// Our task ids have a slash; asynqmon's own routes would take them for a page.
func TestOneTaskInAsynqmon(t *testing.T) {
	const pending, archived = "/asynqmon/api/queues/codex-main/pending_tasks/fix/1.1", "/asynqmon/api/queues/codex-main/archived_tasks/fix/1.1"
	y := tell(t)
	y.must(y.queue(y.task("fix", "mend it")))
	for _, path := range []string{pending + ":archive", archived + ":run"} {
		if a := y.ask("POST", path, ""); a.Code != 405 {
			t.Errorf("read-only: %s: %d", path, a.Code)
		}
	}
	if a := y.ask("DELETE", pending, ""); a.Code != 405 {
		t.Errorf("read-only: delete: %d", a.Code)
	}
	for _, path := range []string{"/asynqmon/api/queues/codex-main/tasks/fix/1.1", "/asynqmon/api/queues/codex-main/tasks/fix/1.1+"} {
		y.shows(y.get(path), `"state":"pending"`, "attempt fix/1.1")
	}
	if a := y.ask("GET", "/asynqmon/api/queues/codex-main/tasks/none/1.1", ""); a.Code != 404 {
		t.Errorf("no such task: %d", a.Code)
	}

	y = tell(t, admin)
	y.must(y.queue(y.task("fix", "mend it")))
	for _, step := range []struct {
		method, path string
		want         int
		state        string
	}{
		{"POST", pending + ":archive", 204, "archived"},
		{"POST", archived + ":run", 204, "pending"},
		{"POST", "/asynqmon/api/queues/codex-main/active_tasks/fix/1.1:cancel", 204, "pending"},
		{"POST", pending + ":explode", 404, "pending"},
		{"PUT", pending, 405, "pending"},
		{"DELETE", pending, 204, ""},
		{"DELETE", pending, 404, ""},
	} {
		if a := y.ask(step.method, step.path, ""); a.Code != step.want && !(step.want == 404 && a.Code == 405) {
			t.Errorf("%s %s: %d %s, want %d", step.method, step.path, a.Code, a.Body, step.want)
		}
		if step.state != "" {
			y.shows(y.get("/asynqmon/api/queues/codex-main/tasks/fix/1.1"), `"state":"`+step.state+`"`)
		}
	}
}

func TestAsynqmonsScriptHasTheRouteForOurTasks(t *testing.T) {
	y := tell(t)
	page := y.get("/asynqmon/")
	found := false
	for _, m := range regexp.MustCompile(`src="([^"]+\.js)"`).FindAllStringSubmatch(page, -1) {
		found = found || strings.Contains(y.get(m[1]), string(taskRouteFor))
	}
	if !found {
		t.Error("asynqmon has changed: its route of a task was not found")
	}
}

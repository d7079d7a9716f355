package web

import (
	"context"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"rota/credentials"
	"rota/turns"
	"rota/turns/store"
)

var (
	csrfField = regexp.MustCompile(`name="csrf" value="([0-9a-f]+)"`)
	keyField  = regexp.MustCompile(`name="key" value="([^"]+)"`)
)

// formOf is what a page gives to its forms: cookie, token and key.
func (y *story) formOf(path string, header ...string) (cookie, csrf, key string) {
	y.Helper()
	a := y.ask("GET", path, "", header...)
	token, keys := csrfField.FindStringSubmatch(a.Body), keyField.FindStringSubmatch(a.Body)
	if a.Code != 200 || token == nil || keys == nil {
		y.Fatalf("no form in %s: %d %.2000s", path, a.Code, a.Body)
	}
	cookie, _, _ = strings.Cut(a.Header.Get("Set-Cookie"), ";")
	return cookie, token[1], html.UnescapeString(keys[1])
}

// press sends a form of a page as its browser does, and returns the note on the
// page after it.
func (y *story) press(path, verb string, fields ...string) string {
	y.Helper()
	cookie, csrf, key := y.formOf(path)
	a := y.ask("POST", "/actions/"+verb, form(append([]string{"csrf", csrf, "key", key, "back", path}, fields...)...),
		"Content-Type", formType, "Cookie", cookie, "Origin", y.url, "Sec-Fetch-Site", "same-origin")
	if a.Code != 303 {
		y.Fatalf("%s: %d %.2000s", verb, a.Code, a.Body)
	}
	note, _, _ := strings.Cut(a.Header.Get("Set-Cookie"), ";")
	body := y.get(a.Header.Get("Location"), "Cookie", cookie+"; "+note)
	_, text, _ := strings.Cut(body, `role="status">`)
	text, _, _ = strings.Cut(text, "</p>")
	return html.UnescapeString(text)
}

func (y *story) state(turn string) turns.State {
	y.Helper()
	t, err := y.s.Turn(y.ctx, turn)
	y.must(err)
	return t.State
}

func TestActions(t *testing.T) {
	y := tell(t, admin)
	y.task("fix", "mend it")
	if note := y.press("/turns/fix/1", "cancel", "id", "fix/1"); !strings.Contains(note, "cancelled fix/1") || y.state("fix/1") != turns.Cancelled {
		t.Errorf("cancel: %q, %s", note, y.state("fix/1"))
	}
	if note := y.press("/turns/fix/1", "retry", "id", "fix/1"); !strings.Contains(note, "opened fix/2") || y.state("fix/2") != turns.Queued {
		t.Errorf("retry: %q", note)
	}
	if note := y.press("/turns/fix/1", "cancel", "id", "nobody/1"); !strings.Contains(note, "not found") {
		t.Errorf("cancel nobody: %q", note)
	}
	if note := y.press("/threads/fix", "reply", "id", "fix", "text", "mind <the> tests"); !strings.Contains(note, "wait") {
		t.Errorf("reply: %q", note)
	}
	y.shows(y.get("/threads/fix"), "mind &lt;the&gt; tests")

	y.done(y.start(y.claim(y.task("hand", "mend it"))), turns.Done, "mended")
	if note := y.press("/turns/hand/2", "handoff", "id", "hand/2.1", "to", "codex-review"); !strings.Contains(note, "handed hand/2.1 to codex-review") {
		t.Errorf("handoff: %q", note)
	}
	a, err := y.s.Attempt(y.ctx, "hand/2.2")
	if err != nil || a.Service != "codex-review" || a.Cause != turns.CauseOperator {
		t.Errorf("after the handoff: %+v, %v", a, err)
	}
	if note := y.press("/turns/hand/2", "handoff", "id", "hand/2.1", "to", "codex-review"); !strings.Contains(note, "moved on") {
		t.Errorf("handoff of what has moved on: %q", note)
	}
}

func TestAFormSentTwiceActsOnce(t *testing.T) {
	y := tell(t, admin)
	y.died("fix", "no such model")
	cookie, csrf, key := y.formOf("/turns/fix/1")
	for range 2 {
		a := y.ask("POST", "/actions/retry", form("csrf", csrf, "key", key, "id", "fix/1"), "Content-Type", formType, "Cookie", cookie)
		if a.Code != 303 || a.Header.Get("Location") != "/turns/fix/2" {
			t.Errorf("%d to %s", a.Code, a.Header.Get("Location"))
		}
	}
	if th, err := y.s.Thread(y.ctx, "fix"); err != nil || th.Turns != 2 {
		t.Errorf("%d turns, %v", th.Turns, err)
	}
}

func TestActionsAreRefused(t *testing.T) {
	y := tell(t, admin)
	y.task("fix", "mend it")
	cookie, csrf, key := y.formOf("/turns/fix/1")
	other, otherCSRF, _ := y.formOf("/turns/fix/1")
	body := form("csrf", csrf, "key", key, "id", "fix/1")
	for name, row := range map[string]struct {
		method, body string
		header       []string
		want         int
	}{
		"another origin":            {"POST", body, []string{"Cookie", cookie, "Origin", "https://other.example"}, 403},
		"another port":              {"POST", body, []string{"Cookie", cookie, "Origin", "http://127.0.0.1:1"}, 403},
		"no origin":                 {"POST", body, []string{"Cookie", cookie, "Origin", "null"}, 403},
		"another site":              {"POST", body, []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site"}, 403},
		"a sibling site":            {"POST", body, []string{"Cookie", cookie, "Sec-Fetch-Site", "same-site"}, 403},
		"no cookie":                 {"POST", body, nil, 403},
		"no token":                  {"POST", form("key", key, "id", "fix/1"), []string{"Cookie", cookie}, 403},
		"another browser's token":   {"POST", form("csrf", otherCSRF, "key", key, "id", "fix/1"), []string{"Cookie", cookie}, 403},
		"another browser's cookie":  {"POST", body, []string{"Cookie", other}, 403},
		"the cookie as the token":   {"POST", form("csrf", strings.TrimPrefix(cookie, formCookie+"="), "id", "fix/1"), []string{"Cookie", cookie}, 403},
		"an empty cookie and token": {"POST", form("csrf", "", "id", "fix/1"), []string{"Cookie", formCookie + "="}, 403},
		"by GET":                    {"GET", "", []string{"Cookie", cookie}, 405},
	} {
		a := y.ask(row.method, "/actions/cancel", row.body, append([]string{"Content-Type", formType}, row.header...)...)
		if a.Code != row.want || y.state("fix/1") != turns.Queued {
			t.Errorf("%s: %d, want %d; the turn is %s", name, a.Code, row.want, y.state("fix/1"))
		}
	}
	if a := y.ask("POST", "/actions/erase", body, "Content-Type", formType, "Cookie", cookie); a.Code != 404 {
		t.Errorf("an unknown action: %d", a.Code)
	}
}

func TestWithoutAdminNothingCanBeChanged(t *testing.T) {
	y := tell(t)
	y.task("fix", "mend it")
	for verb := range actions {
		if a := y.ask("POST", "/actions/"+verb, form("id", "fix/1", "csrf", "", "text", "x", "to", "claude"), "Content-Type", formType); a.Code != 403 {
			t.Errorf("%s: %d", verb, a.Code)
		}
	}
	for _, path := range []string{"/", "/threads/fix", "/turns/fix/1", "/credentials"} {
		if a := y.ask("GET", path, ""); strings.Contains(a.Body, "/actions/") || a.Header.Get("Set-Cookie") != "" {
			t.Errorf("%s offers an action", path)
		}
	}
	if y.state("fix/1") != turns.Queued {
		t.Error("something was changed")
	}
}

func TestALoginIsClearedAndWhatWaitsIsDue(t *testing.T) {
	var logins *credentials.Credentials
	y := tell(t, admin, func(c *Config) {
		var err error
		logins, err = credentials.New(c.Store.Redis(), credentials.Config{Services: map[string]credentials.Service{"codex-main": {Agent: "codex"}}})
		if err != nil {
			t.Fatal(err)
		}
		c.Credentials = logins
	})
	choice, err := logins.Pick(y.ctx, "codex-main", "run-1")
	y.must(err)
	_, err = logins.Failed(y.ctx, choice, turns.Fail(turns.ClassQuota, "used up"))
	y.must(err)
	r := y.claim(y.task("fix", "mend it"))
	_, err = y.s.Replace(y.ctx, r, store.Successor{Service: "codex-main", Cause: turns.CauseWait, Reason: "cooldown", Delay: time.Hour, Class: turns.ClassQuota})
	y.must(err)
	y.shows(y.get("/credentials"), credentials.Implicit("codex-main"), "cooling", "quota")
	if note := y.press("/credentials", "clear", "id", credentials.Implicit("codex-main")); !strings.Contains(note, "1 waiting turns are due now") {
		t.Errorf("clear: %q", note)
	}
	a, err := y.s.TimesOf(context.Background(), "fix/1.2")
	if err != nil || a.Look.After(a.Now.Add(time.Minute)) {
		t.Errorf("the waiting attempt is looked at %s, now is %s, %v", a.Look, a.Now, err)
	}
}

package web

import (
	"strings"
	"testing"

	"rota/turns"
	"rota/turns/store"
)

// hostile is what an agent, a person or a provider may have written anywhere.
const hostile = `</pre></title></svg><script>alert(1)</script><img src=x onerror=alert(2)>" onmouseover="alert(3)' {{.}} javascript:alert(4) ` + "`<b>code</b>` \u202e\u2028"

func TestHostileTextsAreEscaped(t *testing.T) {
	y := tell(t, admin)
	r := y.start(y.claim(y.task("fix", hostile)))
	for _, kind := range []turns.ItemKind{turns.ItemTool, turns.ItemRequest} {
		_, err := y.s.Item(y.ctx, r, turns.Item{ID: hostile[:40] + string(kind), Kind: kind, State: turns.ItemOpen, Turn: "fix/1", Title: hostile})
		y.must(err)
	}
	y.must(y.s.Ask(y.ctx, r.Attempt, store.Ask{ID: "ask", Kind: "steer", Text: hostile}))
	_, err := y.s.Delegate(y.ctx, r, store.Successor{Service: "codex-main", Cause: turns.CauseHandoff, Class: turns.ClassAuth, Error: hostile, Reason: "a<b>|" + hostile})
	y.must(err)
	w, err := y.s.Waiter(y.ctx, "fix/1.2")
	y.must(err)
	r = y.start(y.claim(w.Entry))
	_, err = y.s.Say(y.ctx, "fix", "say", turns.Message{ID: "m", Text: hostile, Note: hostile})
	y.must(err)
	pages := []string{"/", "/threads/fix", "/turns/fix/1", "/?q=" + "%3Cscript%3Ealert(1)%3C/script%3E", "/dead", "/services", "/?show=%22%3E%3Cscript%3E"}
	for _, path := range pages {
		y.harmless(path, y.get(path))
	}
	y.done(r, turns.Done, hostile)
	y.died("dead", hostile)
	for _, path := range append(pages, "/turns/fix/2", "/turns/dead/1", "/threads/dead", "/?show=human") {
		y.harmless(path, y.get(path))
	}
	for _, path := range []string{"/threads/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/turns/x/%3Cscript%3E", "/%3Cscript%3E"} {
		a := y.ask("GET", path, "")
		y.harmless(path, a.Body)
	}
	y.shows(y.get("/turns/fix/1"), "&lt;script&gt;alert(1)&lt;/script&gt;")
}

// harmless fails when a part of the hostile text is markup in a page.
func (y *story) harmless(path, body string) {
	y.Helper()
	for _, bad := range []string{"<script>alert", "<img src=x", `" onmouseover="`, "<b>code", `href="javascript:`, "</pre></title>"} {
		if i := strings.Index(body, bad); i >= 0 {
			y.Errorf("%s has %q: …%.200s", path, bad, body[max(0, i-60):])
		}
	}
}

func TestHostileTextsInABrowser(t *testing.T) {
	y := tell(t)
	y.died("dead", hostile)
	c := browse(t, y)
	for _, path := range []string{"/", "/dead", "/threads/dead", "/turns/dead/1", "/?q=%3Cimg+src%3Dx+onerror%3Dalert(1)%3E"} {
		c.open(path)
		c.until(`document.querySelector("#live.on")`)
		if n := value[int](c, `document.querySelectorAll("main script, main img, main [onerror], main [onmouseover]").length`); n != 0 {
			t.Errorf("%s: %d hostile elements", path, n)
		}
	}
	c.clean()
}

package web

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"rota/internal/redistest"
	"rota/turns"
)

// busy is a browser on a board after a busy morning.
func busy(t *testing.T) (*chromium, *story) {
	t.Helper()
	server, rdb := redistest.MiniServer(t)
	y := tellOn(t, rdb)
	clock := time.Now().Add(-52 * time.Minute)
	y.tour(func(d time.Duration) { clock = clock.Add(d); server.SetTime(clock) })
	server.SetTime(time.Time{})
	y.renew()
	return browse(t, y), y
}

func TestBoardShowsThreadsInLightAndDark(t *testing.T) {
	c, _ := busy(t)
	c.look(1240, 700, "light")
	c.open("/")
	c.until(`document.querySelector("#live.on")`)
	if got := value[int](c, `document.querySelectorAll("#threads [data-row]").length`); got != 7 {
		t.Errorf("%d threads", got)
	}
	colour := `getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color`
	light := value[string](c, colour)
	c.picture("board.png")
	c.look(1240, 700, "dark")
	if dark := value[string](c, colour); light == dark {
		t.Errorf("light and dark look the same: %s", light)
	}
	c.picture("board-dark.png")
	c.look(390, 760, "light")
	for _, path := range []string{"/", "/threads/rate-limits", "/turns/rate-limits/4", "/dead", "/services", "/credentials", "/schedules"} {
		c.open(path)
		if wide := value[int](c, `document.documentElement.scrollWidth`); wide > 390 {
			t.Errorf("%s is %d pixels wide on a phone", path, wide)
		}
	}
	c.open("/threads/rate-limits")
	c.picture("board-phone.png")
	c.clean()
}

func TestAHandoffAndADeadLetterAreDrawn(t *testing.T) {
	c, _ := busy(t)
	c.look(1240, 700, "light")
	c.open("/threads/fix-login")
	// The drawing itself: the arrow begins at the first bar's side and ends at the
	// second bar's top, in the row of the reviewer.
	got := value[[]string](c, `(() => {
		const box = (a) => document.querySelector('[data-attempt="' + a + '"] .box').getBoundingClientRect();
		const arrow = document.querySelector('[data-role=reviewer] path.arrow.handoff');
		const at = (p) => { const q = arrow.getPointAtLength(p), m = arrow.getScreenCTM(); return new DOMPoint(q.x, q.y).matrixTransform(m); };
		const from = box("fix-login/2.1"), to = box("fix-login/2.2"), first = at(0), last = at(arrow.getTotalLength());
		const bad = [];
		if (Math.abs(first.x - from.right) > 2 || first.y < from.top || first.y > from.bottom) bad.push("it begins at " + first.x + "," + first.y);
		if (last.x < to.left || last.x > to.right || Math.abs(last.y - to.top) > 5) bad.push("it ends at " + last.x + "," + last.y);
		if (Math.abs(from.left - to.left) < 50) bad.push("both bars are in one lane");
		for (const a of document.querySelectorAll("path.arrow:not(.handoff)")) bad.push("another arrow " + a.outerHTML);
		return bad;
	})()`)
	for _, bad := range got {
		t.Error(bad)
	}
	lane := value[string](c, `(() => {
		const bar = document.querySelector('[data-attempt="fix-login/2.2"] .box').getBoundingClientRect();
		return [...document.querySelectorAll(".lane")].filter((l) => Math.abs(l.getBoundingClientRect().left - bar.left) < 4).map((l) => l.textContent).join();
	})()`)
	if lane != "codex-review" {
		t.Errorf("attempt 2.2 is in the lane of %q", lane)
	}
	if owner, reviewer := c.rowColour("owner"), c.rowColour("reviewer"); owner == reviewer {
		t.Errorf("owner and reviewer have one colour: %s", owner)
	}
	c.open("/turns/fix-login/2")
	c.picture("turn.png")

	c.open("/dead")
	c.do(chromedp.Click(chromedp.CSS(`[data-key="upgrade-go/1"] a.name`)))
	c.until(`location.pathname === "/turns/upgrade-go/1" && document.querySelector(".b-dead .word")`)
	if word := value[string](c, `document.querySelector(".b-dead .word").textContent`); word != "1 dead letter" {
		t.Errorf("the dead letter's bar says %q", word)
	}
	c.open("/threads/migrate-db")
	if lost := value[int](c, `document.querySelectorAll(".b-lost, path.arrow.lost").length`); lost != 2 {
		t.Errorf("a lost attempt and its arrow: %d", lost)
	}
	c.open("/threads/rate-limits")
	c.picture("board-thread.png")
	c.clean()
}

func (c *chromium) rowColour(role string) string {
	c.Helper()
	return value[string](c, `getComputedStyle(document.querySelector('.turn-row[data-role=`+role+`]')).borderLeftColor`)
}

func TestThePageFollowsATurn(t *testing.T) {
	y := tell(t)
	c := browse(t, y)
	c.open("/")
	c.until(`document.querySelector("#live.on") && document.querySelector(".empty")`)
	e := y.task("fix-login", "mend it")
	c.until(`document.querySelector('[data-key="fix-login"] .state')?.textContent === "queued"`)
	r := y.claim(e)
	c.until(`document.querySelector('[data-key="fix-login"] .state')?.textContent === "starting"`)
	y.start(r)
	c.until(`document.querySelector('[data-key="fix-login"] .state')?.textContent === "running"`)

	c.open("/threads/fix-login")
	c.until(`document.querySelector("#live.on")`)
	c.do(chromedp.Evaluate[chromedp.Void](`window.same = "not loaded again"`))
	review := y.claim(y.done(r, turns.Done, "mended"))
	c.until(`document.querySelector('[data-attempt="fix-login/2.1"][data-state="starting"]')`)
	y.handoff(review, "codex-review")
	c.until(`document.querySelector('[data-attempt="fix-login/2.1"][data-state="delegated"]') && document.querySelector("path.arrow.handoff")`)
	if same := value[string](c, `window.same`); same != "not loaded again" {
		t.Error("the page was loaded anew")
	}
	c.clean()
}

func TestKeys(t *testing.T) {
	c, _ := busy(t)
	c.open("/")
	c.until(`document.querySelector("#live.on")`)
	picked := `document.querySelector(".picked")?.dataset.key`
	all := value[[]string](c, `[...document.querySelectorAll("[data-row]")].map((r) => r.dataset.key)`)
	c.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("j"), chromedp.KeyEvent("j"), chromedp.KeyEvent("k"))
	if got := value[string](c, picked); got != all[1] {
		t.Errorf("j j j k picked %q, not %q", got, all[1])
	}
	c.do(chromedp.KeyEvent("?"))
	c.until(`document.getElementById("keys").open`)
	c.do(chromedp.KeyEvent(kb.Escape))
	c.until(`!document.getElementById("keys").open`)
	c.do(chromedp.KeyEvent(kb.Enter))
	c.until(`location.pathname === "/threads/` + all[1] + `" && document.querySelector("#live.on")`)
	c.do(chromedp.KeyEvent("u"))
	c.until(`location.pathname === "/" && document.querySelector("#live.on")`)
	c.press("/")
	c.until(`document.activeElement.id === "find"`)
	c.do(chromedp.KeyEvent("mig"), chromedp.KeyEvent(kb.Enter))
	c.until(`location.search === "?q=mig" && document.querySelectorAll("[data-row]").length === 1 && document.querySelector("#live.on")`)
	c.do(chromedp.KeyEvent("g"), chromedp.KeyEvent("d"))
	c.until(`location.pathname === "/dead"`)
	c.clean()
}

func TestAsynqmonInABrowser(t *testing.T) {
	y := tell(t)
	y.must(y.queue(y.task("fix-login", "mend it")))
	c := browse(t, y)
	c.open("/services")
	c.until(`document.querySelector('[data-key="codex-main"] .n')?.textContent === "1"`)
	c.do(chromedp.Navigate(y.url + "/asynqmon/queues/codex-main?status=pending"))
	c.until(`document.body.innerText.includes("thread fix-login · turn fix-login/1 · attempt fix-login/1.1 · owner")`)
	c.do(chromedp.Click(chromedp.CSS(`tbody tr td:nth-child(2)`)))
	c.until(`location.pathname.startsWith("/asynqmon/queues/codex-main/tasks/fix-login/1.1") && document.body.innerText.includes("turn:start")`)
	c.clean()
}

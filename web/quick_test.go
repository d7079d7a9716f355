package web

import (
	"fmt"
	"strings"
	"testing"

	"rota/internal/redistest"
	"rota/turns"
)

// With 1,000 threads every page of the board costs a bounded number of round
// trips, commands and bytes, wherever it is.
func TestPagesStayQuickWithAThousandThreads(t *testing.T) {
	server := redistest.Start(t)
	count := &redistest.Counter{}
	y := tellOn(t, redistest.WithHooks(t, server.Client(), count))
	y.many(1000)
	y.died("zz-dead", "no such model")
	for _, row := range []struct {
		path            string
		trips, commands int
		bytes           int
	}{
		{"/", 6, 400, 80_000},
		{"/?page=20", 6, 400, 80_000},
		{"/?q=thread-0999", 6, 50, 10_000},
		{"/?q=thread", 6, 400, 80_000},
		{"/?show=open", 26, 1300, 80_000},
		{"/?show=human", 12, 2000, 10_000},
		{"/dead", 10, 500, 10_000},
		{"/threads/thread-0500", 20, 40, 20_000},
		{"/turns/thread-0500/1", 25, 40, 20_000},
		{"/services", 40, 60, 20_000},
	} {
		count.Reset()
		body := y.get(row.path)
		if trips, commands := count.RoundTrips(), count.Commands(); trips > row.trips || commands > row.commands || len(body) > row.bytes {
			t.Errorf("%s: %d round trips (at most %d), %d commands (%d), %d bytes (%d) %v", row.path, trips, row.trips, commands, row.commands, len(body), row.bytes, count.ByName())
		}
	}
	if n := strings.Count(y.get("/"), "data-row"); n != onePage {
		t.Errorf("%d threads on a page", n)
	}
}

func TestThePagerReachesEveryThread(t *testing.T) {
	y := tell(t)
	y.many(2*onePage + 3)
	seen := map[string]bool{}
	for page := 0; ; page++ {
		body := y.get(fmt.Sprintf("/?page=%d", page))
		for part := range strings.SplitSeq(body, `data-key="`) {
			if name, _, ok := strings.Cut(part, `"`); ok && strings.HasPrefix(name, "thread-") {
				if seen[name] {
					t.Errorf("%s is on two pages", name)
				}
				seen[name] = true
			}
		}
		if !strings.Contains(body, `rel="next"`) {
			break
		}
	}
	if len(seen) != 2*onePage+3 {
		t.Errorf("%d threads on all pages", len(seen))
	}
	for _, page := range []string{"-1", "99999999999999", "x", "3"} {
		y.get("/?page=" + page)
	}
}

// A long thread is shown in pages, a turn with many items in part.
func TestALongThreadIsShownInPages(t *testing.T) {
	y := tell(t)
	for range turnsShown + 5 {
		r, err := y.c.Cancel(y.ctx, "", y.lone("long").Turn)
		y.must(err)
		_ = r
	}
	body := y.get("/threads/long")
	if n := strings.Count(body, `<section class="turn-row`); n != turnsShown {
		t.Errorf("%d turns on the page", n)
	}
	y.shows(body, `href="?before=6"`)
	if n := strings.Count(y.get("/threads/long?before=6"), `<section class="turn-row`); n != 5 {
		t.Errorf("%d turns on the page before", n)
	}

	run := y.start(y.claim(y.lone("items")))
	for i := range itemsShown + 7 {
		_, err := y.s.Item(y.ctx, run, turns.Item{ID: fmt.Sprintf("t%04d", i), Kind: turns.ItemTool, State: turns.ItemOpen, Turn: "items/1", Title: "tool"})
		y.must(err)
	}
	y.shows(y.get("/turns/items/1"), "and 7 more")
}

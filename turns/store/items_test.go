package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// item opens an item of a run and returns the child thread that it links.
func (w *world) item(r store.Run, i turns.Item) string {
	w.Helper()
	i.State = turns.ItemOpen
	child, err := w.s.Item(w.ctx, r, i)
	w.must(err)
	return child
}

// subAgent opens a sub-agent item in a thread, with a native child thread.
func (w *world) subAgent(r store.Run, thread, label string) string {
	w.Helper()
	return w.item(r, turns.Item{ID: "agent-" + label, Kind: turns.ItemSubAgent, Thread: thread, Turn: ownTurn(r, thread), Child: label})
}

func (w *world) tool(r store.Run, thread, id string) {
	w.Helper()
	w.item(r, turns.Item{ID: id, Kind: turns.ItemTool, Thread: thread, Turn: ownTurn(r, thread)})
}

// ownTurn is the turn that an item names: native children have none.
func ownTurn(r store.Run, thread string) string {
	if thread == r.Thread {
		return r.Turn
	}
	return ""
}

// openItems are the ids of what is open below a root, sorted.
func (w *world) openItems(thread string) string {
	w.Helper()
	items, err := w.s.OpenItems(w.ctx, thread)
	w.must(err)
	var ids []string
	for _, i := range items {
		ids = append(ids, i.Thread+":"+i.ID)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func (w *world) doneItems(turn string) map[string]turns.Item {
	w.Helper()
	items, err := w.s.DoneItems(w.ctx, turn)
	w.must(err)
	byID := map[string]turns.Item{}
	for _, i := range items {
		if _, twice := byID[i.Thread+":"+i.ID]; twice {
			w.Errorf("%s was closed twice", i.ID)
		}
		byID[i.Thread+":"+i.ID] = i
	}
	return byID
}

// endsOfTurns are the acts that end a turn, with the error item's sentence.
var endsOfTurns = map[string]string{
	"settle completed": "", "settle failed": "Provider error (crash): exit 1", "compensate": "Provider error (crash): exit 1",
	"lose last": "Worker lost (lost)", "cancel": "",
}

// Every end closes what the turn left open, by kind; items already final keep
// their end, those of other turns stay, and a failure is visible once.
func TestEveryEndClosesByKind(t *testing.T) {
	each(t, func(w *world) {
		for how, sentence := range endsOfTurns {
			w.must(w.rdb.FlushDB(w.ctx).Err())
			r := w.claim(w.lone("fix", turns.Owner))
			for _, kind := range turns.ItemKinds {
				w.item(r, turns.Item{ID: string(kind), Kind: kind, Turn: r.Turn, Title: "an open " + string(kind)})
			}
			w.item(r, turns.Item{ID: "answered", Kind: turns.ItemRequest, Turn: r.Turn})
			_, err := w.s.Item(w.ctx, r, turns.Item{ID: "answered", Kind: turns.ItemRequest, Turn: r.Turn, State: turns.ItemCompleted})
			w.must(err)
			hset("items", "fix", "fix|other", `{"id":"other","kind":"tool","state":"open","thread":"fix","turn":"fix/0"}`)(w)
			w.must(actNamed(how).do(w, r, "k"))
			if got := w.openItems("fix"); got != "fix:other" {
				w.Errorf("%s: open is %q", how, got)
			}
			closed := w.doneItems(r.Turn)
			for _, kind := range turns.ItemKinds {
				if i := closed["fix:"+string(kind)]; i.State != turns.ItemClosed[kind] || i.Title != "an open "+string(kind) || i.Attempt != r.Attempt {
					w.Errorf("%s: %s became %+v", how, kind, i)
				}
			}
			if i := closed["fix:answered"]; i.State != turns.ItemCompleted {
				w.Errorf("%s: the answered request became %+v", how, i)
			}
			visible, isVisible := closed["fix:error:"+r.Attempt]
			if isVisible != (sentence != "") || visible.Title != sentence || isVisible && (visible.Kind != turns.ItemError || visible.State != turns.ItemFailed) {
				w.Errorf("%s: error item %+v", how, visible)
			}
			before := w.dump()
			w.must(actNamed(how).do(w, r, "k"))
			w.unchanged(before, how+" again")
		}
	})
}

// A move that ends only the attempt closes its run's items, native children's
// included; a restart leaves them to the successor.
func TestEndOfAnAttemptClosesItsItems(t *testing.T) {
	each(t, func(w *world) {
		for _, how := range []string{"requeue", "replace", "restart", "delegate", "operator's handoff", "lose"} {
			w.must(w.rdb.FlushDB(w.ctx).Err())
			r := w.claim(w.lone("fix", turns.Reviewer))
			w.tool(r, "fix", "t")
			child := w.subAgent(r, "fix", "a")
			w.tool(r, child, "below")
			hset("items", "fix", "fix|earlier", `{"id":"earlier","kind":"tool","state":"open","thread":"fix","turn":"fix/1","attempt":"fix/1.0"}`)(w)
			w.must(actNamed(how).do(w, r, "k"))
			want := "fix:earlier"
			if how == "restart" {
				want = "fix:agent-a fix:earlier fix:t fix~2:below"
			}
			if got := w.openItems("fix"); got != want {
				w.Errorf("%s: open is %q, want %q", how, got, want)
			}
		}
	})
}

// Child threads are followed through every link, also one already final, to any
// depth; cycles end, children that don't exist are skipped.
func TestEndFollowsNativeChildren(t *testing.T) {
	each(t, func(w *world) {
		r := w.claim(w.lone("fix", turns.Owner))
		child := w.subAgent(r, "fix", "a")
		grandchild := w.subAgent(r, child, "b")
		w.tool(r, grandchild, "deep")
		final := w.subAgent(r, "fix", "final")
		w.tool(r, final, "late")
		_, err := w.s.Item(w.ctx, r, turns.Item{ID: "agent-final", Kind: turns.ItemSubAgent, State: turns.ItemCompleted, Turn: r.Turn, Child: "final"})
		w.must(err)
		// Written by other hands: no attempt, no turn, a final or an unknown turn.
		hset("items", "fix",
			child+"|bare", `{"id":"bare","kind":"message","state":"open","thread":"`+child+`"}`,
			grandchild+"|ofFinal", `{"id":"ofFinal","kind":"request","state":"open","thread":"`+grandchild+`","turn":"`+grandchild+`/1"}`,
			"fix~8|farther", `{"id":"farther","kind":"tool","state":"open","thread":"fix~8"}`,
			"fix|notMine", `{"id":"notMine","kind":"tool","state":"open","thread":"fix","turn":"fix/7"}`,
			"fix~9|elsewhere", `{"id":"elsewhere","kind":"tool","state":"open","thread":"fix~9"}`)(w)
		hset("links", "fix",
			grandchild+"|"+r.Turn+"|up", child, // a cycle
			child+"||home", "fix", // back to the thread itself
			grandchild+"||farther", "fix~8", // linked by nobody's turn
			grandchild+"||gone", "fix~77")(w)
		if child != "fix~2" || grandchild != "fix~3" || final != "fix~4" || w.thread("fix").Children != 4 || w.thread(grandchild).Parent != r.Turn {
			w.Fatalf("children %s %s %s", child, grandchild, final)
		}
		ended, err := w.s.Compensate(w.ctx, r, failed())
		w.must(err)
		if got := w.openItems("fix"); got != "fix:notMine fix~9:elsewhere" || ended.Left {
			w.Errorf("open is %q, left %v", got, ended.Left)
		}
		closed := w.doneItems(r.Turn)
		for id, want := range map[string]turns.ItemState{child + ":bare": turns.ItemStopped, grandchild + ":deep": turns.ItemFailed,
			grandchild + ":ofFinal": turns.ItemCancelled, "fix~8:farther": turns.ItemFailed, final + ":late": turns.ItemFailed, "fix:agent-final": turns.ItemCompleted} {
			if closed[id].State != want {
				w.Errorf("%s became %q, want %s", id, closed[id].State, want)
			}
		}
		w.sound()
	})
}

// A child with an open turn of its own keeps everything, and so does all below it.
func TestChildWithItsOwnTurnKeepsEverything(t *testing.T) {
	each(t, func(w *world) {
		for how := range endsOfTurns {
			w.must(w.rdb.FlushDB(w.ctx).Err())
			r := w.claim(w.lone("fix", turns.Owner))
			child := w.subAgent(r, "fix", "busy")
			below := w.subAgent(r, child, "below")
			w.tool(r, child, "native")
			w.tool(r, below, "deep")
			w.item(r, turns.Item{ID: "named", Kind: turns.ItemTool, Thread: child, Turn: r.Turn})
			idle := w.subAgent(r, "fix", "idle")
			w.tool(r, idle, "t")
			own := w.claim(w.lone(child, turns.Reviewer))
			w.tool(own, child, "own")
			w.must(actNamed(how).do(w, r, "k"))
			if got, want := w.openItems("fix"), "fix~2:agent-below fix~2:named fix~2:native fix~2:own fix~3:deep"; got != want {
				w.Errorf("%s: open is %q, want %q", how, got, want)
			}
			_, err := w.s.Settle(w.ctx, own, completed())
			w.must(err)
			if got := w.openItems("fix"); strings.Contains(got, "own") {
				w.Errorf("%s: open after the child's own end: %q", how, got)
			}
			w.sound()
		}
	})
}

// What can't be read does not stop the parent's end; it is recorded and swept
// once it can be read.
func TestUnreadableChildIsSweptLater(t *testing.T) {
	each(t, func(w *world) {
		for name, fault := range map[string]struct{ spoil, mend func(child string) }{
			"an item": {
				func(child string) { hset("items", "fix", child+"|bad", "{garbage")(w) },
				func(child string) {
					hset("items", "fix", child+"|bad", `{"id":"bad","kind":"tool","state":"open","thread":"`+child+`"}`)(w)
				},
			},
			"all items": {
				func(string) {
					w.must(w.rdb.Rename(w.ctx, w.s.Key("items", "fix"), w.s.Key("items", "fix-aside")).Err())
					w.must(w.rdb.Set(w.ctx, w.s.Key("items", "fix"), "x", 0).Err())
				},
				func(string) {
					w.must(w.rdb.Rename(w.ctx, w.s.Key("items", "fix-aside"), w.s.Key("items", "fix")).Err())
				},
			},
			"the links": {
				func(string) {
					w.must(w.rdb.Rename(w.ctx, w.s.Key("links", "fix"), w.s.Key("links", "fix-aside")).Err())
					w.must(w.rdb.Set(w.ctx, w.s.Key("links", "fix"), "x", 0).Err())
				},
				func(string) {
					w.must(w.rdb.Rename(w.ctx, w.s.Key("links", "fix-aside"), w.s.Key("links", "fix")).Err())
				},
			},
		} {
			w.must(w.rdb.FlushDB(w.ctx).Err())
			r := w.claim(w.paired("fix"))
			child := w.subAgent(r, "fix", "a")
			w.tool(r, child, "t")
			fault.spoil(child)
			ended, err := w.s.Compensate(w.ctx, r, failed())
			if err != nil {
				w.Fatalf("%s: %v", name, err)
			}
			p, err := w.s.Paired(w.ctx, "fix#1")
			w.must(err)
			if turn := w.turn(r.Turn); !ended.Left || turn.State != turns.Failed || p.Status != turns.NeedsHuman {
				w.Errorf("%s: left %v, turn %s, paired %s", name, ended.Left, turn.State, p.Status)
			}
			w.sound()
			if _, swept, err := w.s.Sweep(w.ctx, r.Turn); err != nil || swept {
				w.Errorf("%s: swept %v, %v", name, swept, err)
			}
			if score, ok := w.score("sweeps", r.Turn); !ok || score <= float64(w.rdb.Time(w.ctx).Val().UnixMilli()) {
				w.Errorf("%s: the next try is at %.0f", name, score)
			}
			fault.mend(child)
			if _, swept, err := w.s.Sweep(w.ctx, r.Turn); err != nil || !swept {
				w.Errorf("%s, mended: swept %v, %v", name, swept, err)
			}
			if _, ok := w.score("sweeps", r.Turn); ok || w.openItems("fix") != "" {
				w.Errorf("%s: open is %q, sweep left %v", name, w.openItems("fix"), ok)
			}
			if errors := w.doneItems(r.Turn)["fix:error:"+r.Attempt]; errors.State != turns.ItemFailed {
				w.Errorf("%s: error item %+v", name, errors)
			}
			if closed, swept, err := w.s.Sweep(w.ctx, r.Turn); err != nil || !swept || closed != 0 {
				w.Errorf("%s, again: %d, %v, %v", name, closed, swept, err)
			}
		}
	})
}

// Large cascades end the parent first and close the rest in bounded steps.
func TestLargeCascadeIsSweptInSteps(t *testing.T) {
	each(t, func(w *world) {
		r := w.claim(w.lone("fix", turns.Owner))
		child := w.subAgent(r, "fix", "a")
		const more = 1200
		rows := make([]any, 0, 2*(store.CloseAtOnce+more))
		for i := range store.CloseAtOnce + more {
			rows = append(rows, fmt.Sprintf("%s|i%d", child, i), fmt.Sprintf(`{"id":"i%d","kind":"tool","state":"open","thread":"%s"}`, i, child))
		}
		hset("items", "fix", rows...)(w)
		ended, err := w.s.Compensate(w.ctx, r, failed())
		w.must(err)
		left := more + 1 // the sub-agent's own item was closed too
		if count := w.rdb.HLen(w.ctx, w.s.Key("items", "fix")).Val(); !ended.Left || count != int64(left) {
			w.Fatalf("left %v, %d open", ended.Left, count)
		}
		steps := 0
		for swept := false; !swept; steps++ {
			if score, ok := w.score("sweeps", r.Turn); !ok || score > float64(w.rdb.Time(w.ctx).Val().UnixMilli()) {
				w.Fatalf("step %d is due at %.0f", steps, score)
			}
			var closed int
			closed, swept, err = w.s.Sweep(w.ctx, r.Turn)
			w.must(err)
			if closed > store.SweepStep {
				w.Fatalf("%d closed in one step", closed)
			}
			left -= closed
		}
		closed := w.doneItems(r.Turn)
		if left != 0 || steps != 3 || w.openItems("fix") != "" || closed["fix:error:"+r.Attempt].Title == "" {
			w.Errorf("%d left after %d steps, open %q, error item %+v", left, steps, w.openItems("fix"), closed["fix:error:"+r.Attempt])
		}
	})
}

// The error stays visible however many items are closed after it.
func TestErrorItemSurvivesTheLargestCascade(t *testing.T) {
	w := newWorld(t, redistest.Start(t).Client())
	r := w.claim(w.lone("fix", turns.Owner))
	for from := 0; from < store.MaxItems; from += 1000 {
		rows := make([]any, 0, 2000)
		for i := range 1000 {
			rows = append(rows, fmt.Sprintf("fix|i%d", from+i), fmt.Sprintf(`{"id":"i%d","kind":"tool","state":"open","thread":"fix","turn":"fix/1"}`, from+i))
		}
		hset("items", "fix", rows...)(w)
	}
	_, err := w.s.Item(w.ctx, r, turns.Item{ID: "more", Kind: turns.ItemTool, State: turns.ItemOpen, Turn: r.Turn})
	w.wants(err, store.ErrFull)
	_, err = w.s.Compensate(w.ctx, r, failed())
	w.must(err)
	for swept := false; !swept; {
		_, swept, err = w.s.Sweep(w.ctx, r.Turn)
		w.must(err)
	}
	closed := w.doneItems(r.Turn)
	if len(closed) > 4001 || closed["fix:error:"+r.Attempt].Title == "" || w.openItems("fix") != "" {
		w.Errorf("%d closed items, error item %+v", len(closed), closed["fix:error:"+r.Attempt])
	}
}

// An item may be reported again; a child thread that a person opened keeps its name.
func TestItemsAreReportedOnce(t *testing.T) {
	each(t, func(w *world) {
		w.lone("fix~2", turns.Reviewer)
		r := w.claim(w.lone("fix", turns.Owner))
		if child := w.subAgent(r, "fix", "a"); child != "fix~3" {
			w.Errorf("child %s", child)
		}
		if child := w.subAgent(r, "fix", "a"); child != "fix~3" {
			w.Errorf("child %s the second time", child)
		}
		if w.turn("fix~2/1").State != turns.Queued || w.thread("fix~2").OpenTurn != "fix~2/1" {
			w.Errorf("the person's thread: %+v", w.thread("fix~2"))
		}
		i := turns.Item{ID: "t", Kind: turns.ItemTool, State: turns.ItemCompleted, Turn: r.Turn}
		_, err := w.s.Item(w.ctx, r, i)
		w.must(err)
		before := w.dump()
		_, err = w.s.Item(w.ctx, r, i)
		w.must(err)
		w.unchanged(before, "a repeated item")

		orphan := w.claim(w.lone("lone~5", turns.Owner)) // its root has no turn
		if child := w.subAgent(orphan, "lone~5", "a"); child != "lone~2" {
			w.Errorf("child %s", child)
		}
		w.sound()
	})
}

// A sweep does nothing for a turn that is open, and waits longer the older it is.
func TestSweepBacksOff(t *testing.T) {
	server, rdb := redistest.MiniServer(t)
	w := newWorld(t, rdb)
	now := time.Now()
	server.SetTime(now)
	r := w.claim(w.lone("fix", turns.Owner))
	w.must(rdb.ZAdd(w.ctx, w.s.Key("sweeps", r.Turn), redis.Z{Member: r.Turn, Score: 1}).Err())
	w.tool(r, "fix", "t")
	if closed, swept, err := w.s.Sweep(w.ctx, r.Turn); err != nil || closed != 0 || !swept || w.openItems("fix") == "" {
		t.Errorf("an open turn: %d, %v, %v", closed, swept, err)
	}
	child := w.subAgent(r, "fix", "a")
	hset("items", "fix", child+"|bad", "{garbage")(w)
	_, err := w.s.Settle(w.ctx, r, failed())
	w.must(err)
	ended := now
	for _, row := range []struct{ after, wait time.Duration }{
		{0, time.Second}, {10 * time.Second, 5 * time.Second}, {time.Minute, 30 * time.Second}, {time.Hour, 10 * time.Minute}, {50 * time.Hour, 10 * time.Minute},
	} {
		server.SetTime(ended.Add(row.after))
		if _, swept, err := w.s.Sweep(w.ctx, r.Turn); err != nil || swept {
			t.Fatalf("%v, %v", swept, err)
		}
		score, _ := w.score("sweeps", r.Turn)
		if wait := time.UnixMilli(int64(score)).Sub(ended.Add(row.after).Truncate(time.Millisecond)); wait != row.wait {
			t.Errorf("%s after the end it waits %s, want %s", row.after, wait, row.wait)
		}
	}
}

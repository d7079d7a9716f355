package commands_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

var crew = turns.Crew{
	turns.Owner:    {Services: []string{"codex-main", "codex-spare"}},
	turns.Reviewer: {Services: []string{"claude", "codex-review"}},
	turns.Arbiter:  {Services: []string{"claude"}},
}

// desk is a store with the commands on it, and the worker of the tests.
type desk struct {
	*testing.T
	ctx    context.Context
	s      *store.Store
	c      *commands.Commands
	handed []turns.OutboxEntry
}

func newDesk(t *testing.T, rdb redis.UniversalClient) *desk {
	t.Helper()
	redistest.Declared(rdb)
	ctx := context.Background()
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan, Crew: crew})
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{T: t, ctx: ctx, s: s}
	d.c = &commands.Commands{Store: s, Hand: func(_ context.Context, e turns.OutboxEntry) error {
		d.handed = append(d.handed, e)
		return nil
	}}
	return d
}

func (d *desk) must(r commands.Result, err error) commands.Result {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
	return r
}

// claim takes the thread's open turn, as a worker would.
func (d *desk) claim(thread string) store.Run {
	d.Helper()
	r := d.open(thread)
	a, err := d.s.Claim(d.ctx, store.Claim{Attempt: r.Attempt.ID, Service: r.Attempt.Service, Role: r.Turn.Role, Intent: r.Turn.Intent,
		Stamp: r.Attempt.Stamp, Run: turns.NewToken(), Worker: "w1", Agent: "scripted"})
	if err != nil || a.Answer != store.Claimed {
		d.Fatalf("claim %s: %+v, %v", r.Attempt.ID, a, err)
	}
	return a.Run
}

func (d *desk) open(thread string) store.Records {
	d.Helper()
	t, err := d.s.Thread(d.ctx, thread)
	if err != nil {
		d.Fatal(err)
	}
	r, err := d.s.Records(d.ctx, t.OpenTurn, 0)
	if err != nil {
		d.Fatal(err)
	}
	return r
}

func (d *desk) start(thread string) store.Run {
	d.Helper()
	run := d.claim(thread)
	if err := d.s.Start(d.ctx, run, "session", "", "tree"); err != nil {
		d.Fatal(err)
	}
	return run
}

// end runs the thread's open turn to an end.
func (d *desk) end(thread string, o turns.Outcome) {
	d.Helper()
	e := turns.Ending{State: turns.Completed, Outcome: o, Text: "said " + string(o), Tree: "tree"}
	if o == "" {
		e = turns.Ending{State: turns.Failed, Class: turns.ClassCrash, Error: "it crashed"}
	}
	if _, err := d.s.Settle(d.ctx, d.start(thread), e); err != nil {
		d.Fatal(err)
	}
}

// wait makes the thread's open turn wait for a login.
func (d *desk) wait(thread string) {
	d.Helper()
	run := d.claim(thread)
	if _, err := d.s.Replace(d.ctx, run, store.Successor{Service: d.open(thread).Attempt.Service, Cause: turns.CauseWait,
		Reason: "needs_login", Delay: time.Hour, Class: turns.ClassAuth, Error: "401"}); err != nil {
		d.Fatal(err)
	}
}

// ask gives the live run of a thread a pending request.
func (d *desk) request(run store.Run) {
	d.Helper()
	if _, err := d.s.Item(d.ctx, run, turns.Item{ID: "q1", Kind: turns.ItemRequest, State: turns.ItemOpen, Turn: run.Turn, Title: "may I?"}); err != nil {
		d.Fatal(err)
	}
}

func (d *desk) task(thread string) {
	d.Helper()
	d.must(d.c.Task(d.ctx, commands.TaskAsk{Thread: thread, Text: "the task"}))
}

func (d *desk) lone(thread string) {
	d.Helper()
	d.must(d.c.Turn(d.ctx, commands.TurnAsk{Thread: thread, Text: "look", Role: turns.Reviewer}))
}

// scenes build the rows of the table.
var scenes = map[string]func(d *desk, thread string){
	"missing (no such thread)":  func(*desk, string) {},
	"lone: queued":              func(d *desk, n string) { d.lone(n) },
	"lone: waiting for a login": func(d *desk, n string) { d.lone(n); d.wait(n) },
	"lone: starting":            func(d *desk, n string) { d.lone(n); d.claim(n) },
	"lone: running":             func(d *desk, n string) { d.lone(n); d.request(d.start(n)) },
	"lone: completed":           func(d *desk, n string) { d.lone(n); d.end(n, turns.Approve) },
	"lone: failed":              func(d *desk, n string) { d.lone(n); d.end(n, "") },
	"lone: cancelled": func(d *desk, n string) {
		d.lone(n)
		d.must(d.c.Cancel(d.ctx, "", n+"/1"))
	},
	"owner: queued":              func(d *desk, n string) { d.task(n) },
	"owner: waiting for a login": func(d *desk, n string) { d.task(n); d.wait(n) },
	"owner: starting":            func(d *desk, n string) { d.task(n); d.claim(n) },
	"owner: running":             func(d *desk, n string) { d.task(n); d.request(d.start(n)) },
	"reviewer: queued":           func(d *desk, n string) { d.task(n); d.end(n, turns.Done) },
	"reviewer: running":          func(d *desk, n string) { d.task(n); d.end(n, turns.Done); d.request(d.start(n)) },
	"needs_human: owner failed":  func(d *desk, n string) { d.task(n); d.end(n, "") },
	"needs_human: owner cancelled": func(d *desk, n string) {
		d.task(n)
		d.must(d.c.Cancel(d.ctx, "", n+"/1"))
	},
	"needs_human: reviewer failed": func(d *desk, n string) { d.task(n); d.end(n, turns.Done); d.end(n, "") },
	"needs_human: arbiter escalated": func(d *desk, n string) {
		d.task(n)
		d.end(n, turns.Blocked)
		d.end(n, turns.Escalate)
	},
	"paired task completed": func(d *desk, n string) {
		d.task(n)
		d.end(n, turns.Done)
		d.end(n, turns.Approve)
		d.end(n, turns.Done)
	},
	"paired task cancelled": func(d *desk, n string) {
		d.task(n)
		d.must(d.c.Cancel(d.ctx, "", n))
	},
}

// verbs give the commands of the columns. turn is the thread's open or last turn.
var verbs = map[string]func(d *desk, key, thread, turn string) (commands.Result, error){
	"task": func(d *desk, key, thread, _ string) (commands.Result, error) {
		return d.c.Task(d.ctx, commands.TaskAsk{Key: key, Thread: thread, Text: "another task"})
	},
	"turn": func(d *desk, key, thread, _ string) (commands.Result, error) {
		return d.c.Turn(d.ctx, commands.TurnAsk{Key: key, Thread: thread, Text: "look again", Role: turns.Reviewer})
	},
	"reply": func(d *desk, key, thread, _ string) (commands.Result, error) {
		return d.c.Reply(d.ctx, commands.ReplyAsk{Key: key, Thread: thread, Text: "words"})
	},
	"reply --to owner": func(d *desk, key, thread, _ string) (commands.Result, error) {
		return d.c.Reply(d.ctx, commands.ReplyAsk{Key: key, Thread: thread, Text: "words", ToOwner: true})
	},
	"reply --steer": func(d *desk, key, thread, _ string) (commands.Result, error) {
		return d.c.Reply(d.ctx, commands.ReplyAsk{Key: key, Thread: thread, Text: "words", Steer: true})
	},
	"steer": func(d *desk, key, _, turn string) (commands.Result, error) {
		return d.c.Steer(d.ctx, key, turn, "words")
	},
	"interrupt":     func(d *desk, key, _, turn string) (commands.Result, error) { return d.c.Interrupt(d.ctx, key, turn) },
	"restart":       func(d *desk, key, _, turn string) (commands.Result, error) { return d.c.Restart(d.ctx, key, turn) },
	"retry":         func(d *desk, key, _, turn string) (commands.Result, error) { return d.c.Retry(d.ctx, key, turn) },
	"cancel TURN":   func(d *desk, key, _, turn string) (commands.Result, error) { return d.c.Cancel(d.ctx, key, turn) },
	"cancel THREAD": func(d *desk, key, thread, _ string) (commands.Result, error) { return d.c.Cancel(d.ctx, key, thread) },
	"respond": func(d *desk, key, _, turn string) (commands.Result, error) {
		return d.c.Respond(d.ctx, key, turn+":q1", "yes")
	},
	"rm": func(d *desk, key, thread, _ string) (commands.Result, error) { return d.c.Remove(d.ctx, key, thread) },
	"handoff": func(d *desk, key, _, turn string) (commands.Result, error) {
		to := "codex-spare"
		if t, err := d.s.Turn(d.ctx, turn); err == nil && t.Role == turns.Reviewer {
			to = "codex-review"
		}
		return d.c.Handoff(d.ctx, key, turn, to)
	},
	"why": func(d *desk, _, thread, _ string) (commands.Result, error) {
		text, err := d.c.Why(d.ctx, thread)
		if err == nil && len(text) < 40 {
			err = fmt.Errorf("why says too little: %q", text)
		}
		return commands.Result{Text: text}, err
	},
}

func TestEveryCommandInEveryState(t *testing.T) {
	columns, rows := readTable(t)
	if len(rows) != len(scenes) || len(columns) != len(verbs) {
		t.Fatalf("the table has %d rows and %d columns, the test knows %d and %d", len(rows), len(columns), len(scenes), len(verbs))
	}
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		n := 0
		for _, row := range rows {
			build, ok := scenes[row[0]]
			if !ok {
				t.Fatalf("no scene for %q", row[0])
			}
			for i, column := range columns {
				n++
				thread := fmt.Sprintf("t%d", n)
				t.Run(row[0]+"/"+column, func(t *testing.T) {
					cell := *d
					cell.T, cell.handed = t, nil
					cell.c.Hand = func(_ context.Context, e turns.OutboxEntry) error {
						cell.handed = append(cell.handed, e)
						return nil
					}
					build(&cell, thread)
					cell.handed = nil
					cell.check(thread, column, row[i+1])
				})
			}
		}
	})
}

// readTable returns the table's commands, and its rows with the state in front.
func readTable(t *testing.T) (columns []string, rows [][]string) {
	t.Helper()
	f, err := os.Open("../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if rows != nil && !strings.HasPrefix(line, "|") {
			break // the page has further tables
		}
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		if columns == nil {
			columns = cells[1:]
			continue
		}
		if len(cells) != len(columns)+1 {
			t.Fatalf("row %q has %d cells", cells[0], len(cells))
		}
		rows = append(rows, cells)
	}
	return columns, rows
}

// check gives one command and compares what it did with the table.
func (d *desk) check(thread, verb, want string) {
	d.Helper()
	turn := thread + "/1"
	th, err := d.s.Thread(d.ctx, thread)
	if err == nil {
		turn = turns.TurnID(thread, th.Turns)
	} else if !errors.Is(err, store.ErrNotFound) {
		d.Fatal(err)
	}
	before := d.snapshot(thread)
	r, err := verbs[verb](d, "key-"+thread, thread, turn)
	got := d.effect(thread, th, verb, r, err)
	if got != want {
		d.Fatalf("%s: %s, the table says %s (%+v, %v)", verb, got, want, r, err)
	}
	after := d.snapshot(thread)
	if unchanged := want == "conflict" || want == "not found" || want == "already" || want == "explains"; unchanged {
		if after != before {
			d.Fatalf("%s changed something:\n%s\n%s", want, before, after)
		}
	} else if after == before && want != "due now" {
		d.Fatalf("%s changed nothing:\n%s", want, after)
	}
	if refused, ok := errors.AsType[*commands.Error](err); ok && (strings.Contains(refused.Text, "\n") || refused.Kind == commands.Conflict && refused.Text == "") {
		d.Fatalf("%q is no error of one line", refused.Text)
	}
	if err != nil || want == "removes" || want == "explains" {
		return
	}
	again, err := verbs[verb](d, "key-"+thread, thread, turn)
	if err != nil || !again.Already && want != "due now" {
		d.Fatalf("repeated with its key: %+v, %v", again, err)
	}
	if repeated := d.snapshot(thread); repeated != after {
		d.Fatalf("a repeat changed something:\n%s\n%s", after, repeated)
	}
}

// snapshot is everything that is shown of a thread.
func (d *desk) snapshot(thread string) string {
	d.Helper()
	v, err := d.c.ShowThread(d.ctx, thread)
	if commands.KindOf(err) == commands.NotFound {
		return ""
	}
	if err != nil {
		d.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		d.Fatal(err)
	}
	asks := []store.Ask{}
	for _, t := range v.Turns {
		a, err := d.s.Asks(d.ctx, t.ID, 0)
		if err != nil {
			d.Fatal(err)
		}
		asks = append(asks, a...)
	}
	return fmt.Sprintf("%s %v %v", b, v.Waiting, asks)
}

// effect names what a command did, in the words of the table.
func (d *desk) effect(thread string, was turns.Thread, verb string, r commands.Result, err error) string {
	d.Helper()
	switch commands.KindOf(err) {
	case commands.Conflict:
		return "conflict"
	case commands.NotFound:
		return "not found"
	}
	if err != nil {
		d.Fatal(err)
	}
	switch {
	case verb == "why":
		return "explains"
	case verb == "rm":
		if left := d.snapshot(thread); strings.Contains(left, thread+"/1") {
			d.Fatal("something is left: ", left)
		}
		return "removes"
	case r.Already:
		return "already"
	}
	now, err := d.s.Thread(d.ctx, thread)
	if err != nil {
		d.Fatal(err)
	}
	if now.Turns > was.Turns {
		return d.opened(thread, was, verb, r)
	}
	rec, err := d.s.Records(d.ctx, turns.TurnID(thread, now.Turns), 0)
	if err != nil {
		d.Fatal(err)
	}
	asks, err := d.s.Asks(d.ctx, rec.Turn.ID, 0)
	if err != nil {
		d.Fatal(err)
	}
	waiting, err := d.s.Waiting(d.ctx, thread)
	if err != nil {
		d.Fatal(err)
	}
	switch {
	case rec.Paired.Status == turns.PairCancelled && now.OpenTurn == "":
		return "cancels all"
	case rec.Turn.State == turns.Cancelled && now.OpenTurn == "" && (rec.Paired.ID == "" || rec.Paired.Status == turns.NeedsHuman):
		return "cancels turn"
	case len(waiting) == 1 && waiting[0].Text == "words":
		return "message waits"
	case len(asks) == 1 && asks[0].ID == "key-"+thread:
		return "asks"
	case rec.Attempt.ID == r.Attempt && rec.Attempt.Previous != "" && strings.HasPrefix(r.Text, "handed") || strings.HasPrefix(r.Text, "restarted"):
		return "next attempt"
	case verb == "retry" && len(d.handed) == 1 && !rec.Attempt.Due.After(time.Now()):
		return "due now"
	}
	return fmt.Sprintf("unknown: %+v %+v", rec, r)
}

func (d *desk) opened(thread string, was turns.Thread, verb string, r commands.Result) string {
	d.Helper()
	t, err := d.s.Turn(d.ctx, r.Turn)
	if err != nil {
		d.Fatal(err)
	}
	if len(d.handed) != 1 || d.handed[0].Attempt != r.Attempt {
		d.Fatalf("handed over %v, opened %s", d.handed, r.Attempt)
	}
	last := turns.TurnID(thread, was.Turns)
	if verb == "retry" {
		before, _ := d.s.Prompt(d.ctx, last)
		prompt, _ := d.s.Prompt(d.ctx, t.ID)
		if t.RetryOf != last || prompt != before {
			d.Fatalf("not linked to %s with its prompt: %+v, %q", last, t, prompt)
		}
	}
	if strings.HasPrefix(verb, "reply") {
		said, err := d.s.Said(d.ctx, t.ID)
		if err != nil || len(said) != 1 || said[0].Text != "words" {
			d.Fatal("the words are missing: ", said, err)
		}
	}
	return fmt.Sprintf("opens %s %s", t.Role, t.Intent)
}

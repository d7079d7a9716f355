package store_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// story calls one script exactly once, after others have led up to it, and
// returns what its caller heard.
type story func(w *world) string

// said is what a move told its caller, without what a repeat can't know.
func said(v any, err error) string { return fmt.Sprint(v, err) }

func (w *world) ended(e store.Ended, err error) string {
	w.Helper()
	w.must(err)
	return "next " + e.Next
}

func (w *world) continued(c store.Continued, err error) string {
	w.Helper()
	w.must(err)
	return "attempt " + c.Attempt
}

// stories has one story for every script.
var stories = map[string]story{
	"shards": func(w *world) string { return said(w.s.Shards(), nil) },
	"open": func(w *world) string {
		o, err := w.s.OpenTurn(w.ctx, newTurn("fix", turns.Owner))
		return said(o.Turn+" "+o.Attempt, err)
	},
	"claim": func(w *world) string {
		a, err := w.s.Claim(w.ctx, claimOf(w.paired("fix")))
		return said(fmt.Sprint(a.Deliveries, a.Run.Fence == w.thread("fix").Fence), err)
	},
	"start":   func(w *world) string { w.runs(w.paired("fix")); return "" },
	"requeue": func(w *world) string { return said(nil, w.s.Requeue(w.ctx, w.runs(w.paired("fix")), store.Requeue{})) },
	"renew": func(w *world) string {
		r := w.runs(w.paired("fix"))
		return said(w.s.Renew(w.ctx, []store.Renewal{{Run: r, Lease: time.Minute, Progress: turns.ProgressTools}}))
	},
	"replace": func(w *world) string {
		r := w.runs(w.paired("fix"))
		return w.continued(w.s.Replace(w.ctx, r, w.next(r.Attempt, turns.CauseRetry)))
	},
	"delegate": func(w *world) string {
		r := w.runs(w.lone("fix", turns.Reviewer))
		return w.continued(w.s.Delegate(w.ctx, r, w.next(r.Attempt, turns.CauseHandoff)))
	},
	"lose": func(w *world) string {
		r := w.runs(w.paired("fix"))
		return w.continued(w.s.Lose(w.ctx, r, true, w.next(r.Attempt, turns.CauseLost)))
	},
	"lose_last": func(w *world) string {
		return w.ended(w.s.LoseLast(w.ctx, w.runs(w.paired("fix")), true, turns.Ending{Class: turns.ClassLost}))
	},
	"settle": func(w *world) string {
		e := completed()
		e.Outcome = turns.Done
		return w.ended(w.s.Settle(w.ctx, w.runs(w.paired("fix")), e))
	},
	"compensate": func(w *world) string { return w.ended(w.s.Compensate(w.ctx, w.claim(w.paired("fix")), failed())) },
	"end":        func(w *world) string { return w.ended(w.s.End(w.ctx, w.paired("fix").Attempt, "k", failed())) },
	"cancel":     func(w *world) string { return w.ended(w.s.Cancel(w.ctx, w.runs(w.paired("fix")).Turn, "k", "enough")) },
	"defer": func(w *world) string {
		e := w.paired("fix")
		score, _ := w.score("outbox", e.Attempt)
		return said(nil, w.s.Defer(w.ctx, store.Look{Attempt: e.Attempt, Score: fmt.Sprintf("%.0f", score)}, time.Hour))
	},
	"drop":    func(w *world) string { return said(nil, w.s.DropLease(w.ctx, w.paired("fix").Attempt)) },
	"due_now": func(w *world) string { return said(nil, w.s.DueNow(w.ctx, w.paired("fix").Attempt)) },
	"release": func(w *world) string {
		r := w.runs(w.paired("fix"))
		_, err := w.s.Cancel(w.ctx, r.Turn, "k", "")
		w.must(err)
		return said(w.s.Release(w.ctx, r))
	},
	"hold": func(w *world) string { return said(nil, w.s.KeepHold(w.ctx, w.runs(w.paired("fix")), time.Hour)) },
	"say": func(w *world) string {
		w.paired("fix")
		return said(w.s.Say(w.ctx, "fix", "c", turns.Message{ID: "m", Text: "more"}))
	},
	"park": func(w *world) string {
		_, err := w.s.Settle(w.ctx, w.runs(w.paired("fix")), failed())
		w.must(err)
		p, err := w.s.Paired(w.ctx, "fix#1")
		w.must(err)
		p.Version, p.Status = p.Version+1, turns.PairCancelled
		return said(nil, w.s.Park(w.ctx, p))
	},
	"item": func(w *world) string {
		r := w.runs(w.paired("fix"))
		return said(w.s.Item(w.ctx, r, turns.Item{ID: "i", Kind: turns.ItemTool, State: turns.ItemCompleted, Turn: r.Turn}))
	},
	"sweep": func(w *world) string {
		r := w.runs(w.paired("fix"))
		_, err := w.s.Cancel(w.ctx, r.Turn, "k", "")
		w.must(err)
		w.must(w.rdb.ZAdd(w.ctx, w.s.Key("sweeps", r.Turn), redis.Z{Member: r.Turn, Score: 1}).Err())
		closed, done, err := w.s.Sweep(w.ctx, r.Turn)
		return said(fmt.Sprint(closed, done), err)
	},
	"ask": func(w *world) string {
		return said(nil, w.s.Ask(w.ctx, w.runs(w.paired("fix")).Attempt, store.Ask{ID: "a", Kind: "steer", Text: "left"}))
	},
	"taken": func(w *world) string {
		r := w.runs(w.paired("fix"))
		ask := store.Ask{ID: "a", Kind: "steer", Text: "left"}
		w.must(w.s.Ask(w.ctx, r.Attempt, ask))
		return said(nil, w.s.Taken(w.ctx, r, ask, "taken"))
	},
	"look": func(w *world) string {
		w.paired("fix")
		glances, err := w.s.LookAll(w.ctx, store.LookOptions{Gap: time.Hour, Amnesty: time.Hour})
		return said(len(glances), err)
	},
	"remove": func(w *world) string {
		r := w.runs(w.lone("fix", turns.Owner))
		_, err := w.s.Settle(w.ctx, r, completed())
		w.must(err)
		w.must(w.rdb.ZAdd(w.ctx, w.s.Key("ended", r.Turn), redis.Z{Member: r.Turn, Score: 1}).Err())
		return said(nil, w.s.Retire(w.ctx, r.Turn))
	},
	"due_add": func(w *world) string {
		_, err := w.s.AddStored(w.ctx, store.Stored{ID: "fix/@c", Body: "{}"})
		return said(nil, err)
	},
	// A schedule's writers can't be told apart: the loser of a race and the winner
	// whose reply was lost both read again.
	"due_move": func(w *world) string {
		_, err := w.s.AddStored(w.ctx, store.Stored{ID: "fix/@c", Body: "{}"})
		w.must(err)
		_ = w.s.MoveStored(w.ctx, store.Stored{ID: "fix/@c", Body: "{1}", Revision: 1})
		return ""
	},
	"due_take": func(w *world) string {
		_, err := w.s.AddStored(w.ctx, store.Stored{ID: "fix/@c", Body: "{}"})
		w.must(err)
		_ = w.s.TakeStored(w.ctx, "fix/@c", 1)
		return ""
	},
}

// A lost reply makes go-redis send a script again. Whichever it is, the caller
// hears the same and Redis holds the same as without the fault.
func TestLostReplyOfEveryScript(t *testing.T) {
	for name, script := range store.Scripts {
		tell, ok := stories[name]
		if !ok {
			t.Errorf("no story calls %s", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
				calm := plain(t, redistest.WithHooks(t, rdb))
				heard := tell(calm)
				want := shape(calm.dump())
				calm.must(rdb.FlushDB(calm.ctx).Err())
				for _, script := range store.Scripts {
					calm.must(rdb.ScriptLoad(calm.ctx, scriptText(script)).Err())
				}

				loss := redistest.LostReply(redistest.Script(script), 1)
				w := plain(t, redistest.WithHooks(t, rdb, loss))
				if got := tell(w); got != heard {
					t.Errorf("heard %q, without the fault %q", got, heard)
				}
				if loss.Hits() != 1 {
					t.Fatalf("%d replies were lost", loss.Hits())
				}
				if got := shape(w.dump()); !maps.Equal(got, want) {
					for key := range want {
						if got[key] != want[key] {
							t.Errorf("%s\n  is   %.300s\n  want %.300s", key, got[key], want[key])
						}
					}
					for key := range got {
						if want[key] == "" {
							t.Errorf("%s is left: %.300s", key, got[key])
						}
					}
				}
				w.sound()
			})
		})
	}
}

// scriptText is a script's source, which go-redis keeps to itself.
func scriptText(script *redis.Script) string {
	cmd := script.Eval(context.Background(), textOnly{}, nil)
	return cmd.Args()[1].(string)
}

// textOnly builds commands without sending them.
type textOnly struct{ redis.Scripter }

func (textOnly) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return redis.NewCmd(ctx, "eval", script)
}

// forgetful makes a server forget all scripts before every call of one, and
// before every second pipeline of calls, so that one sent again finds its script.
type forgetful struct {
	rdb       redis.UniversalClient
	pipelines int
}

func (f *forgetful) DialHook(next redis.DialHook) redis.DialHook { return next }

func (f *forgetful) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" {
			if err := f.rdb.ScriptFlush(ctx).Err(); err != nil {
				return err
			}
		}
		return next(ctx, cmd)
	}
}

func (f *forgetful) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" {
			f.pipelines++
			if f.pipelines%2 == 1 {
				if err := f.rdb.ScriptFlush(ctx).Err(); err != nil {
					return err
				}
			}
		}
		return next(ctx, cmds)
	}
}

func TestEveryScriptAfterAFlush(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		for name, tell := range stories {
			calm := plain(t, redistest.WithHooks(t, rdb))
			heard := tell(calm)
			calm.must(rdb.FlushDB(calm.ctx).Err())
			w := plain(t, redistest.WithHooks(t, rdb, &forgetful{rdb: rdb}))
			if got := tell(w); got != heard {
				t.Errorf("%s: heard %q, without a flush %q", name, got, heard)
			}
			w.sound()
			calm.must(rdb.FlushDB(calm.ctx).Err())
		}
	})
}

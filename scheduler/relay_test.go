package scheduler_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/pairs"
	"rota/scheduler"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

var seat = turns.Seat{Services: []string{"claude", "codex-review"}}

type yard struct {
	store     *store.Store
	relay     *scheduler.Relay
	pass      *scheduler.Reconciler
	inspector *asynq.Inspector
	rdb       redis.UniversalClient
}

func newYard(t *testing.T, rdb redis.UniversalClient, c scheduler.Config) *yard {
	t.Helper()
	s, err := store.Open(context.Background(), rdb, store.Options{Plan: pairs.Plan, Crew: turns.Crew{turns.Reviewer: seat, turns.Owner: seat}, Grace: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	c.Store, c.Log = s, slog.New(slog.DiscardHandler)
	c.Relay = scheduler.NewRelay(s, c.Log, nil)
	return &yard{s, c.Relay, scheduler.NewReconciler(c), asynq.NewInspectorFromRedisClient(rdb), rdb}
}

func (y *yard) open(t *testing.T, thread string) store.Opened {
	t.Helper()
	o, err := y.store.OpenTurn(context.Background(), store.NewTurn{Command: "c", Thread: thread, Role: turns.Reviewer, Intent: turns.Review, Seat: seat, Prompt: "look"})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (y *yard) mustPass(t *testing.T) scheduler.Report {
	t.Helper()
	r, err := y.pass.Pass(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Problems {
		t.Error(p)
	}
	return r
}

// passUntil passes until the finding was made.
func (y *yard) passUntil(t *testing.T, f scheduler.Finding) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if y.mustPass(t).Found[f] > 0 {
			return
		}
	}
	t.Fatalf("never found %s", f)
}

// due makes the entry of an attempt due, as if its time had come.
func (y *yard) due(t *testing.T, attempt string) {
	t.Helper()
	if err := y.store.DueNow(context.Background(), attempt); err != nil {
		t.Fatal(err)
	}
}

func (y *yard) state(t *testing.T, turn string) turns.State {
	t.Helper()
	v, err := y.store.Turn(context.Background(), turn)
	if err != nil {
		t.Fatal(err)
	}
	return v.State
}

func TestAPassHandsOverWhatItsWriterDidNot(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		y := newYard(t, rdb, scheduler.Config{})
		o := y.open(t, "lost")
		if _, err := y.inspector.GetTaskInfo("claude", o.Attempt); err == nil {
			t.Fatal("a task is there already")
		}
		y.passUntil(t, scheduler.FoundDue)
		info, err := y.inspector.GetTaskInfo("claude", o.Attempt)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := tasks.Decode(info.Payload); err != nil || p.Role != turns.Reviewer || p.Stamp != o.Outbox.Stamp {
			t.Fatal(p, err)
		}
	})
}

func TestTwoPassesAtOnceDoNoHarm(t *testing.T) {
	y := newYard(t, redistest.Mini(t), scheduler.Config{})
	for range 20 {
		y.open(t, "t"+turns.NewToken())
	}
	done := make(chan error, 4)
	for range 4 {
		go func() {
			r := scheduler.NewReconciler(y.pass.Config)
			var err error
			for range 10 {
				if _, e := r.Pass(context.Background()); e != nil {
					err = e
				}
			}
			done <- err
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	info, err := y.inspector.GetQueueInfo("claude")
	if err != nil || info.Pending != 20 {
		t.Fatal(info, err)
	}
}

func TestATaskArchivedByHandEndsTheTurn(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		y := newYard(t, rdb, scheduler.Config{})
		o := y.open(t, "shelved")
		if err := y.relay.Hand(context.Background(), o.Outbox); err != nil {
			t.Fatal(err)
		}
		if err := y.inspector.ArchiveTask("claude", o.Attempt); err != nil {
			t.Fatal(err)
		}
		y.passUntil(t, scheduler.FoundArchived)
		if s := y.state(t, o.Turn); s != turns.Failed {
			t.Fatal(s)
		}
	})
}

func TestADeletedTaskCostsTimeNotTheTurn(t *testing.T) {
	y := newYard(t, redistest.Mini(t), scheduler.Config{})
	o := y.open(t, "deleted")
	if err := y.relay.Hand(context.Background(), o.Outbox); err != nil {
		t.Fatal(err)
	}
	if err := y.inspector.DeleteTask("claude", o.Attempt); err != nil {
		t.Fatal(err)
	}
	y.due(t, o.Attempt)
	y.passUntil(t, scheduler.FoundDue)
	if _, err := y.inspector.GetTaskInfo("claude", o.Attempt); err != nil {
		t.Fatal(err)
	}
}

func TestAGhostIsCarriedByASpareTask(t *testing.T) {
	y := newYard(t, redistest.Mini(t), scheduler.Config{})
	ctx := context.Background()
	o := y.open(t, "ghost")
	if err := y.relay.Hand(ctx, o.Outbox); err != nil {
		t.Fatal(err)
	}
	// The hash stays, the message in it and every list entry are gone.
	y.rdb.HDel(ctx, "asynq:{claude}:t:"+o.Attempt, "msg")
	y.rdb.Del(ctx, "asynq:{claude}:pending")
	y.due(t, o.Attempt)
	y.passUntil(t, scheduler.FoundSwallowed)
	if n := y.rdb.LLen(ctx, "asynq:{claude}:pending").Val(); n != 1 {
		t.Fatalf("%d tasks", n)
	}
	if id := y.rdb.LIndex(ctx, "asynq:{claude}:pending", 0).Val(); tasks.AttemptOf(id) != o.Attempt || id == o.Attempt {
		t.Fatal(id)
	}
}

func TestAPendingTaskInNoListIsCarriedByASpareTask(t *testing.T) {
	y := newYard(t, redistest.Mini(t), scheduler.Config{})
	ctx := context.Background()
	o := y.open(t, "unlisted")
	if err := y.relay.Hand(ctx, o.Outbox); err != nil {
		t.Fatal(err)
	}
	y.rdb.Del(ctx, "asynq:{claude}:pending")
	for range 10 {
		// A look whose time has come; DueNow would start counting anew.
		for _, key := range y.rdb.Keys(ctx, "rota:{s*}:outbox").Val() {
			y.rdb.ZAdd(ctx, key, redis.Z{Score: 1, Member: o.Attempt})
		}
		if y.mustPass(t).Found[scheduler.FoundSwallowed] > 0 {
			return
		}
	}
	t.Fatal("never missed")
}

func TestALoginThatIsBackRunsADelayedTask(t *testing.T) {
	y := newYard(t, redistest.Mini(t), scheduler.Config{})
	ctx := context.Background()
	o := y.open(t, "waits")
	a, err := y.store.Claim(ctx, store.Claim{Attempt: o.Attempt, Service: "claude", Role: turns.Reviewer, Intent: turns.Review, Stamp: o.Outbox.Stamp, Run: "r1"})
	if err != nil || a.Answer != store.Claimed {
		t.Fatal(a, err)
	}
	on, err := y.store.Replace(ctx, a.Run, store.Successor{Service: "claude", Cause: turns.CauseWait, Reason: "needs_login", Delay: time.Hour, Class: turns.ClassAuth})
	if err != nil {
		t.Fatal(err)
	}
	// asynq's own retry of an earlier probe is an hour away.
	client := asynq.NewClientFromRedisClient(y.rdb)
	entry := on.Outbox
	if _, err := client.Enqueue(tasks.NewTurnTask(entry, nil), asynq.TaskID(entry.Attempt), asynq.Queue("claude"), asynq.ProcessIn(time.Hour)); err != nil {
		t.Fatal(err)
	}
	n, err := scheduler.WakeWaiting(ctx, y.store, y.relay, []string{"claude"})
	if err != nil || n != 1 {
		t.Fatal(n, err)
	}
	info, err := y.inspector.GetTaskInfo("claude", entry.Attempt)
	if err != nil || info.State != asynq.TaskStatePending {
		t.Fatal(info, err)
	}
	if n, err := scheduler.WakeWaiting(ctx, y.store, y.relay, []string{"codex-review"}); err != nil || n != 0 {
		t.Fatal("another service's waits were woken", n, err)
	}
}

func TestALostRunGoesOnUntilItsBudgetIsUsed(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		ctx := context.Background()
		var ended []string
		y := newYard(t, rdb, scheduler.Config{Lease: time.Hour, Ended: func(_ context.Context, turn string, _ store.Ended) { ended = append(ended, turn) }})
		o := y.open(t, "dies")
		entry := o.Outbox
		for i := range 6 {
			a, err := y.store.Claim(ctx, store.Claim{Attempt: entry.Attempt, Service: "claude", Role: entry.Role, Intent: entry.Intent, Stamp: entry.Stamp, Run: turns.NewToken()})
			if err != nil || a.Answer != store.Claimed {
				t.Fatal(i, a, err)
			}
			// The lease is over: its entry says so, and so does the hold.
			y.expire(t, entry)
			y.passUntil(t, scheduler.FoundExpired)
			v, err := y.store.Turn(ctx, o.Turn)
			if err != nil {
				t.Fatal(err)
			}
			if i == 5 {
				if v.State != turns.Failed || v.Class != turns.ClassLost || len(ended) != 1 {
					t.Fatalf("%+v %v", v, ended)
				}
				return
			}
			if v.State != turns.Queued || v.Losses != i+1 {
				t.Fatalf("after loss %d: %+v", i+1, v)
			}
			w, err := y.store.Waiter(ctx, turns.AttemptID(o.Turn, v.Attempt))
			if err != nil {
				t.Fatal(err)
			}
			entry = w.Entry
		}
	})
}

// expire moves the end of an attempt's lease and its thread's hold into the past.
func (y *yard) expire(t *testing.T, e turns.OutboxEntry) {
	t.Helper()
	ctx := context.Background()
	tag := "rota:{" + e.Thread + "}:"
	for _, key := range y.rdb.Keys(ctx, "rota:{s*}:leases").Val() {
		if y.rdb.ZScore(ctx, key, e.Attempt).Err() == nil {
			tag = key[:len(key)-len("leases")]
		}
	}
	if err := y.rdb.ZAdd(ctx, tag+"leases", redis.Z{Score: 1, Member: e.Attempt}).Err(); err != nil {
		t.Fatal(err)
	}
	y.rdb.HSet(ctx, tag+"thread:"+e.Thread, "hold_until", "1")
}

func TestAnEntryOfNothingIsDropped(t *testing.T) {
	y := newYard(t, redistest.Mini(t), scheduler.Config{})
	ctx := context.Background()
	o := y.open(t, "gone")
	tag := ""
	for _, key := range y.rdb.Keys(ctx, "rota:{s*}:outbox").Val() {
		tag = key[:len(key)-len("outbox")]
	}
	y.rdb.Del(ctx, tag+"attempt:"+o.Attempt)
	y.passUntil(t, scheduler.FoundGone)
	if n := y.rdb.ZCard(ctx, tag+"outbox").Val(); n != 0 {
		t.Fatal(n)
	}
}

func TestATurnWithoutItsNetIsFound(t *testing.T) {
	y := newYard(t, redistest.Mini(t), scheduler.Config{})
	ctx := context.Background()
	o := y.open(t, "netless")
	for _, key := range y.rdb.Keys(ctx, "rota:{s*}:outbox").Val() {
		y.rdb.Del(ctx, key)
	}
	y.passUntil(t, scheduler.FoundNoEntry)
	y.passUntil(t, scheduler.FoundDue)
	if _, err := y.inspector.GetTaskInfo("claude", o.Attempt); err != nil {
		t.Fatal(err)
	}
}

// Roles may have leases of their own. A short one tells how soon Redis counts as
// away, a long one how long nobody is called lost then.
func TestAmnestyFitsEveryLease(t *testing.T) {
	y := newYard(t, redistest.Mini(t), scheduler.Config{Lease: time.Minute, Shortest: 6 * time.Second})
	ctx := context.Background()
	y.mustPass(t)
	for _, key := range y.rdb.Keys(ctx, "rota:{s*}:clock").Val() {
		y.rdb.HIncrBy(ctx, key, "seen", -(3 * time.Second).Milliseconds())
	}
	if r := y.mustPass(t); !r.Amnesty {
		t.Error("3 s are half of the shortest lease, and Redis does not count as away")
	}
	for _, key := range y.rdb.Keys(ctx, "rota:{s*}:clock").Val() {
		until, err := y.rdb.HGet(ctx, key, "amnesty").Int64()
		if left := time.Until(time.UnixMilli(until)); err != nil || left < 30*time.Second {
			t.Errorf("%s: the amnesty lasts %s, %v; want the longest lease", key, left, err)
		}
	}
}

func TestViolationsAreSeen(t *testing.T) {
	y := newYard(t, redistest.Mini(t), scheduler.Config{})
	ctx := context.Background()
	o := y.open(t, "turned")
	for _, key := range y.rdb.Keys(ctx, "rota:{s*}:turn:"+o.Turn).Val() {
		y.rdb.HSet(ctx, key, "role", "owner")
	}
	if r := y.mustPass(t); r.Found[scheduler.FoundViolation] == 0 {
		t.Fatal(r.Found)
	}
}

func TestServiceThatNobodyServesIsReported(t *testing.T) {
	y := newYard(t, redistest.Mini(t), scheduler.Config{Services: []string{"claude", "codex-review"}})
	o := y.open(t, "alone")
	if err := y.relay.Hand(context.Background(), o.Outbox); err != nil {
		t.Fatal(err)
	}
	if r := y.mustPass(t); r.Found[scheduler.FoundUnserved] != 1 {
		t.Fatal(r.Found)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	y := newYard(t, redistest.Mini(t), scheduler.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- y.pass.Run(ctx) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// The archived task of a dead letter goes with the turn's retention.
func TestRetentionTakesTheArchivedTaskAlong(t *testing.T) {
	y := newYard(t, redistest.Mini(t), scheduler.Config{})
	ctx := context.Background()
	o := y.open(t, "buried")
	if err := y.relay.Hand(ctx, o.Outbox); err != nil {
		t.Fatal(err)
	}
	if err := y.inspector.ArchiveTask("claude", o.Attempt); err != nil {
		t.Fatal(err)
	}
	y.passUntil(t, scheduler.FoundArchived)
	for _, key := range y.rdb.Keys(ctx, "rota:{s*}:ended").Val() {
		y.rdb.ZAdd(ctx, key, redis.Z{Score: 1, Member: o.Turn})
	}
	y.passUntil(t, scheduler.FoundEnded)
	if _, err := y.inspector.GetTaskInfo("claude", o.Attempt); !errors.Is(err, asynq.ErrTaskNotFound) {
		t.Fatal("the archived task is still there", err)
	}
	if _, err := y.store.Turn(ctx, o.Turn); !errors.Is(err, store.ErrNotFound) {
		t.Fatal("the turn is still there", err)
	}
}

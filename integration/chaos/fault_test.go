package chaos

import (
	"context"
	"math/rand/v2"
	"strconv"
	"syscall"
	"time"

	"github.com/hibiken/asynq"

	"rota/commands"
	"rota/tasks"
	"rota/turns"
)

// fault makes one fault, chosen by r, most often to one of the threads at work. What a fault breaks for a while is mended by
// heal.
func (f *field) fault(r *rand.Rand, threads []string) {
	w := f.workers[r.IntN(len(f.workers))]
	thread := ""
	if len(threads) > 0 {
		thread = threads[r.IntN(len(threads))]
	}
	pick, span := r.IntN(100), time.Duration(r.IntN(1000))*time.Millisecond
	switch {
	case pick < 10:
		f.count("worker killed")
		w.kill()
	case pick < 14:
		f.count("worker killed with its guards")
		w.signal(syscall.SIGSTOP)
		for _, guard := range w.guards() {
			_ = syscall.Kill(guard, syscall.SIGKILL)
		}
		w.kill()
	case pick < 20:
		f.count("worker stopped")
		if w.resume.IsZero() {
			w.signal(syscall.SIGSTOP)
			w.resume = time.Now().Add(6 * span)
		}
	case pick < 24:
		f.count("worker cut from redis")
		if w.mend.IsZero() {
			w.link.Cut()
			w.mend = time.Now().Add(6 * span)
		}
	case pick < 28:
		f.count("redis killed")
		f.redis.Kill9()
		time.Sleep(span / 2)
		f.redis.Restart()
	case pick < 31:
		f.count("redis restarted")
		f.redis.Restart()
	case pick < 35:
		f.count("redis paused")
		f.redis.Pause()
		time.Sleep(3 * span)
		f.redis.Continue()
	case pick < 38:
		f.count("scripts flushed")
		_ = f.rdb.ScriptFlush(f.ctx).Err()
	case pick < 74:
		f.disturb(pick, thread)
	default:
		f.command(pick, thread)
	}
}

// disturb harms asynq's task of a thread's open attempt, or its lease entries.
func (f *field) disturb(pick int, thread string) {
	a, ok := f.current(thread)
	if !ok {
		return
	}
	queue, id := tasks.Queue(a.Service), tasks.TaskID(a.ID, 0)
	did := "none"
	switch {
	case pick < 48:
		did = "delivery doubled"
		if w, err := f.store.Waiter(f.ctx, a.ID); err == nil {
			copied := asynq.NewTask(string(tasks.TypeFor(w.Entry.Cause)), tasks.PayloadOf(w.Entry).Encode())
			_, _ = f.client.Enqueue(copied, asynq.Queue(queue), asynq.MaxRetry(tasks.Retries), asynq.Timeout(time.Minute))
		}
	case pick < 54:
		did = "task deleted"
		_ = f.inspector.DeleteTask(queue, id)
	case pick < 55:
		did = "task archived"
		_ = f.inspector.ArchiveTask(queue, id)
	case pick < 60:
		did = "task cancelled in asynq"
		_ = f.inspector.CancelProcessing(id)
	case pick < 66:
		did = "asynq's lease entry deleted"
		_ = f.rdb.ZRem(f.ctx, "asynq:{"+queue+"}:lease", id).Err()
	default:
		did = "lease entry deleted"
		for shard := range f.store.Shards() {
			_ = f.rdb.ZRem(f.ctx, "rota:{s"+pad(shard)+"}:leases", a.ID).Err()
		}
	}
	f.count(did)
}

func pad(n int) string {
	if n < 10 {
		return "0" + strconv.Itoa(n)
	}
	return strconv.Itoa(n)
}

// command is a person in the middle of it all.
func (f *field) command(pick int, thread string) {
	ctx, cancel := context.WithTimeout(f.ctx, 3*time.Second)
	defer cancel()
	a, ok := f.current(thread)
	if !ok {
		return
	}
	switch {
	case pick < 78:
		f.count("turn cancelled")
		_, _ = f.commands.Cancel(ctx, "", a.Turn)
	case pick < 90:
		f.count("run restarted")
		f.hasten(f.commands.Restart(ctx, "", a.Turn))
	default:
		f.count("attempt handed off")
		to := map[string]string{"main": "spare", "spare": "main"}[a.Service]
		if to != "" {
			f.hasten(f.commands.Handoff(ctx, "", a.Turn, to))
		}
	}
}

// hasten delivers a successor before its time, while the agent before it may live:
// only the hold is then between the two.
func (f *field) hasten(r commands.Result, err error) {
	if err == nil && r.Entry.Attempt != "" && f.hand(f.ctx, r.Entry) == nil {
		f.count("successor delivered before its time")
	}
}

// current is the current attempt of a thread's open turn.
func (f *field) current(thread string) (turns.Attempt, bool) {
	ctx, cancel := context.WithTimeout(f.ctx, time.Second)
	defer cancel()
	t, err := f.store.Thread(ctx, thread)
	if err != nil || t.OpenTurn == "" {
		return turns.Attempt{}, false
	}
	r, err := f.store.Records(ctx, t.OpenTurn, 0)
	return r.Attempt, err == nil && r.Attempt.ID != ""
}

// heal resumes stopped workers and mends cut ways to Redis whose time has come, or
// all, and starts killed workers.
func (f *field) heal(all bool) {
	for _, w := range f.workers {
		if !w.mend.IsZero() && (all || time.Now().After(w.mend)) {
			w.link.Mend()
			w.mend = time.Time{}
		}
		if !w.resume.IsZero() && (all || time.Now().After(w.resume)) {
			w.signal(syscall.SIGCONT)
			w.resume = time.Time{}
		}
		if w.gone() {
			w.start()
		}
	}
}

// calm ends all faults.
func (f *field) calm() { f.heal(true) }

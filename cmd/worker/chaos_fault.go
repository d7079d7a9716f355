package main

import (
	"syscall"
	"time"

	"github.com/hibiken/asynq"

	"rota/commands"
	"rota/tasks"
	"rota/turns"
)

// fault makes one fault: to one of the campaign's own workers, or to one of its
// threads at work.
func (c *campaign) fault(open []string) {
	a, pick := c.workers[c.random.IntN(len(c.workers))], c.random.IntN(100)
	span, chosen := time.Duration(c.random.IntN(1000))*time.Millisecond, c.random.IntN(1000)
	switch {
	case pick < 20:
		c.report.count("worker killed")
		c.strike(a, open)
	case pick < 32:
		if a.resume.IsZero() && !a.gone() {
			c.report.count("worker stopped and resumed")
			a.signal(syscall.SIGSTOP)
			a.resume = time.Now().Add(6 * span)
		}
	case pick < 40:
		c.report.count("worker told to end")
		a.signal(syscall.SIGTERM)
	case len(open) > 0:
		if at, ok := c.current(open[chosen%len(open)]); ok {
			c.disturb(pick, at)
		}
	}
}

// strike kills a worker and notes which runs died with it.
func (c *campaign) strike(a *actor, open []string) {
	a.kill()
	now, err := c.rdb.Time(c.ctx).Result()
	if err != nil {
		return
	}
	for _, thread := range open {
		if at, ok := c.current(thread); ok && at.Worker == a.name && at.State.Held() {
			c.struck[at.ID] = now
		}
	}
}

// disturb harms the delivery of an open attempt, or is a person in the middle of it.
// What is refused, because the attempt has moved on, is no fault. Nothing is archived:
// that is a person's decision, and the deployment's workers would ask its people.
func (c *campaign) disturb(pick int, a turns.Attempt) {
	queue, id := tasks.Queue(a.Service), tasks.TaskID(a.ID, 0)
	var err error
	did := "delivery doubled"
	switch {
	case pick < 62:
		err = c.double(a)
	case pick < 72:
		did, err = "delivery deleted", c.inspector.DeleteTask(queue, id)
	case pick < 77:
		did = "turn cancelled"
		_, err = c.commands.Cancel(c.ctx, "", a.Turn)
	case pick < 87:
		did = "run restarted"
		_, err = c.hasten(c.commands.Restart(c.ctx, "", a.Turn))
	default:
		did = "attempt handed off"
		to, ok := map[string]string{"chaos-owner": "chaos-spare", "chaos-critic": "chaos-spare"}[a.Service]
		if !ok {
			return
		}
		_, err = c.hasten(c.commands.Handoff(c.ctx, "", a.Turn, to))
	}
	if err == nil {
		c.report.count(did)
	}
}

// double delivers an attempt once more, under another task id.
func (c *campaign) double(a turns.Attempt) error {
	w, err := c.store.Waiter(c.ctx, a.ID)
	if err != nil {
		return err
	}
	_, err = c.client.EnqueueContext(c.ctx, tasks.NewTurnTask(w.Entry, nil), asynq.Queue(tasks.Queue(a.Service)),
		asynq.MaxRetry(tasks.Retries), asynq.Timeout(time.Minute))
	return err
}

// hasten delivers a successor before its time, while the agent before it may live:
// only the hold is then between the two.
func (c *campaign) hasten(r commands.Result, err error) (commands.Result, error) {
	if err == nil && r.Entry.Attempt != "" && c.relay.Hand(c.ctx, r.Entry) == nil {
		c.report.count("successor delivered before its time")
	}
	return r, err
}

// current is the current attempt of a thread's open turn.
func (c *campaign) current(thread string) (turns.Attempt, bool) {
	t, err := c.store.Thread(c.ctx, thread)
	if err != nil || t.OpenTurn == "" {
		return turns.Attempt{}, false
	}
	r, err := c.store.Records(c.ctx, t.OpenTurn, 0)
	return r.Attempt, err == nil && r.Attempt.ID != ""
}

package commands_test

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/turns"
	"rota/turns/store"
)

// Every state that a turn can be in has its sentence.
func TestWhyExplainsEveryState(t *testing.T) {
	scenes := []struct {
		name  string
		build func(d *desk, thread string)
		ask   string // what is asked about; the thread when empty
		want  string
	}{
		{"nobody serves", func(d *desk, n string) { d.task(n) }, "",
			`^T/1\.1 \(owner, work\) is queued on codex-main since .+, and no worker serves codex-main: start one with .worker --service codex-main., or hand it over with .enqueue handoff T/1 --to codex-spare.\.$`},
		{"waits for a worker", func(d *desk, n string) { d.lone(n) }, "",
			`^T/1\.1 \(reviewer, review\) is queued on claude since .+ and waits for a free worker \(1 is alive of claude\); the relay looks again at .+\.$`},
		{"its queue is paused", func(d *desk, n string) {
			d.lone(n)
			if err := asynq.NewInspectorFromRedisClient(d.s.Redis()).PauseQueue("claude"); err != nil {
				d.Fatal(err)
			}
			d.Cleanup(func() { d.s.Redis().Del(d.ctx, "asynq:{claude}:paused") })
		}, "", `^T/1\.1 \(reviewer, review\) is queued on claude since .+, and the queue claude is paused: no worker takes it before somebody resumes the queue`},
		{"held", func(d *desk, n string) {
			d.lone(n)
			d.start(n)
			d.must(d.c.Restart(d.ctx, "", n))
		}, "", `^T/1\.2 \(reviewer, review\) is queued on claude and held by the run of T/1\.1 \(fence \d+\), whose agent may still be alive: it starts when that agent is gone, at .+ at the latest\.$`},
		{"waits for a login", func(d *desk, n string) { d.lone(n); d.wait(n) }, "",
			`^T/1\.2 .+ waits for a login \(needs_login\): it is tried again at .+, and fails when none works until .+enqueue retry T/1`},
		{"backs off", func(d *desk, n string) {
			d.lone(n)
			if err := d.s.Requeue(d.ctx, d.claim(n), store.Requeue{After: time.Hour, Class: turns.ClassOverloaded, Error: "busy"}); err != nil {
				d.Fatal(err)
			}
		}, "", `^T/1\.1 .+ and not due before .+, after 1 delivery \(overloaded\)\. .enqueue retry T/1. makes it due now\.$`},
		{"starting", func(d *desk, n string) { d.lone(n); d.claim(n) }, "",
			`^T/1\.1 .+ is starting since .+: the agent has not accepted the prompt yet\. It is held by worker w1 on claude \(delivery 1 of 5, fence \d+\), lease until .+; the run must end by .+\.$`},
		{"running", func(d *desk, n string) { d.lone(n); d.start(n) }, "", `^T/1\.1 .+ is running since .+: the agent accepted the prompt\.`},
		{"asks", func(d *desk, n string) { d.lone(n); d.request(d.start(n)) }, "", `It asks: "may I\?"; answer with .enqueue respond T/1:q1 ANSWER.\.$`},
		{"lone completed", func(d *desk, n string) { d.lone(n); d.end(n, turns.Approve) }, "",
			`^T/1 \(reviewer\) completed at .+ with approve\. It was a lone turn: nothing follows it\.$`},
		{"lone failed", func(d *desk, n string) { d.lone(n); d.end(n, "") }, "",
			`^T/1 \(reviewer\) failed at .+ on claude: crash: it crashed\. .enqueue retry T/1. opens it again, in the same role\.$`},
		{"lone cancelled", func(d *desk, n string) { d.lone(n); d.must(d.c.Cancel(d.ctx, "", n)) }, "",
			`^T/1 \(reviewer\) was cancelled at .+: cancelled by a person\.`},
		{"dead letter", func(d *desk, n string) {
			d.lone(n)
			if _, err := d.s.Compensate(d.ctx, d.claim(n), turns.Ending{Class: turns.ClassConfig, Error: "no such program"}); err != nil {
				d.Fatal(err)
			}
		}, "", `^T/1 \(reviewer\) failed at .+ on claude: config: no such program \(dead letter after 1 delivery: it never started\)\.`},
		{"needs human after a failure", func(d *desk, n string) { d.task(n); d.end(n, turns.Done); d.end(n, "") }, "",
			`^T#1 needs a human: turn T/2 of the reviewer failed \(crash\).*\. T/2 said: it crashed\. Type .enqueue reply T TEXT. to answer the reviewer \(with --to owner: the owner\), .enqueue retry T/2. to take the reviewer's turn again, or .enqueue cancel T. to give it up\.$`},
		{"the failed turn itself", func(d *desk, n string) { d.task(n); d.end(n, turns.Done); d.end(n, "") }, "/2",
			`^T/2 \(reviewer\) failed at .+ on claude: crash: it crashed\. T#1 needs a human`},
		{"needs human after an escalation", func(d *desk, n string) { d.task(n); d.end(n, turns.Blocked); d.end(n, turns.Escalate) }, "",
			`^T#1 needs a human: the arbiter asks for a person.*\. Type .enqueue reply T TEXT. to answer,`},
		{"went on", func(d *desk, n string) { d.task(n); d.end(n, turns.Done) }, "/1",
			`^T/1 \(owner\) completed at .+ with done\. The work went on with T/2, which is queued\.$`},
		{"completed", func(d *desk, n string) {
			d.task(n)
			d.end(n, turns.Done)
			d.end(n, turns.Approve)
			d.end(n, turns.Done)
		}, "",
			`^T#1 is completed since .+: the reviewer approved and T/3 finalized\.`},
		{"cancelled", func(d *desk, n string) { d.task(n); d.must(d.c.Cancel(d.ctx, "", n)) }, "",
			`^T#1 was cancelled at .+\. .enqueue task TEXT --thread T. begins new work\.$`},
		{"an earlier task", func(d *desk, n string) { d.task(n); d.must(d.c.Cancel(d.ctx, "", n)); d.task(n) }, "/1",
			`^T/1 \(owner\) was cancelled .+\. Its paired task T#1 is cancelled\.$`},
		{"removed", func(d *desk, n string) { d.lone(n); d.end(n, turns.Approve); d.must(d.c.Remove(d.ctx, "", n)) }, "",
			`^The turns of T were removed, or their retention has ended\. .enqueue task TEXT --thread T. begins new work\.$`},
		{"a sub-agent's thread", func(d *desk, n string) {
			d.lone(n)
			child, err := d.s.Item(d.ctx, d.start(n), turns.Item{ID: "i", Kind: turns.ItemSubAgent, State: turns.ItemOpen, Child: "helper"})
			if err != nil || child != n+"~2" {
				d.Fatal(child, err)
			}
			if v, err := d.c.ShowThread(d.ctx, child); err != nil || v.Parent != n+"/1" {
				d.Errorf("%s: parent %q, %v", child, v.Parent, err)
			}
		}, "~2", `^T~2 has no turn of its own: it is the thread of a sub-agent of T/1\. .enqueue why T/1. says what that one does\.$`},
	}
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		d := newDesk(t, rdb)
		d.c.Workers = func(_ context.Context, service string) ([]string, error) {
			if service == "codex-main" {
				return nil, nil
			}
			return []string{"w1"}, nil
		}
		for i, s := range scenes {
			t.Run(s.name, func(t *testing.T) {
				one := *d
				one.T = t
				thread := "t" + string(rune('a'+i))
				s.build(&one, thread)
				got, err := d.c.Why(d.ctx, thread+s.ask)
				if err != nil {
					t.Fatal(err)
				}
				want := regexp.MustCompile(regexp.MustCompile(`\bT([/#: .~])`).ReplaceAllString(s.want, thread+"$1"))
				if !want.MatchString(got) {
					t.Fatalf("got  %s\nwant %s", got, want)
				}
			})
		}
	})
}

func TestWhySeesAnExpiredLease(t *testing.T) {
	mini, rdb := redistest.MiniServer(t)
	now := time.Now()
	mini.SetTime(now)
	d := newDesk(t, rdb)
	d.lone("late")
	d.start("late")
	mini.SetTime(now.Add(time.Minute))
	got, err := d.c.Why(d.ctx, "late")
	if err != nil || !regexp.MustCompile(`Its lease ran out at .+: the next pass of a worker calls the run lost and opens the next attempt\.$`).MatchString(got) {
		t.Fatal(got, err)
	}
}

func TestWhySeesThatRedisMayHaveForgotten(t *testing.T) {
	_, rdb := redistest.MiniServer(t)
	d := newDesk(t, rdb)
	d.lone("patient")
	for _, server := range []string{"first", "second"} {
		_, err := d.s.LookAll(d.ctx, store.LookOptions{Gap: time.Second, Amnesty: time.Minute, Server: func(int) (string, bool) { return server, false }})
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.c.Why(d.ctx, "patient")
	if err != nil || !regexp.MustCompile(`Redis was restarted or failed over and may have lost its last writes: no run begins before .+$`).MatchString(got) {
		t.Fatal(got, err)
	}
}

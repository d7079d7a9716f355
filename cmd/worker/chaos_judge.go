package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/hibiken/asynq"

	"rota/credentials"
	"rota/tasks"
	"rota/turns"
)

// report is what a campaign did and found.
type report struct {
	Seed       uint64
	Length     time.Duration
	Tasks      map[turns.PairedStatus]int
	Turns      int
	Runs       int
	Losses     int
	Recovery   time.Duration // longest time from the kill of a worker to the next run of a turn it had
	Settled    time.Duration // until all was done, once faults had stopped
	Counts     map[string]int
	Violations []string
}

func (r *report) count(what string) { r.Counts[what]++ }

func (r *report) violate(format string, args ...any) {
	r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
}

func (r *report) write(out io.Writer) {
	all := 0
	for _, n := range r.Tasks {
		all += n
	}
	fmt.Fprintf(out, "chaos: seed %d, %s of faults\n\n", r.Seed, r.Length)
	fmt.Fprintf(out, "%6d tasks", all)
	for _, status := range slices.Sorted(maps.Keys(r.Tasks)) {
		fmt.Fprintf(out, ", %d %s", r.Tasks[status], status)
	}
	fmt.Fprintf(out, "\n%6d turns\n%6d runs\n%6d runs lost\n", r.Turns, r.Runs, r.Losses)
	for _, what := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(out, "%6d %s\n", r.Counts[what], what)
	}
	fmt.Fprintf(out, "\nlongest time from the kill of a worker to the next run of its turn: %s\n", r.Recovery.Round(time.Millisecond))
	fmt.Fprintf(out, "all ended %s after the last fault\n", r.Settled.Round(time.Millisecond))
	fmt.Fprintf(out, "violations: %d\n", len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintf(out, "  %s\n", v)
	}
}

// judge holds every thread of the campaign against the promises.
func (c *campaign) judge() error {
	c.report.Tasks = map[turns.PairedStatus]int{}
	for _, name := range c.threads {
		found, err := c.store.Verify(c.ctx, name)
		if err != nil {
			return err
		}
		for _, v := range found {
			c.report.violate("%s", v)
		}
		p, err := c.store.Paired(c.ctx, turns.PairedID(name, 1))
		if err != nil {
			return err
		}
		c.report.Tasks[p.Status]++
		if !p.Status.Finished() && (p.Status != turns.NeedsHuman || p.Reason == "") {
			c.report.violate("%s is %s, reason %q, and nothing is open", p.ID, p.Status, p.Reason)
		}
		t, err := c.store.Thread(c.ctx, name)
		if err != nil {
			return err
		}
		var log []turns.Entry
		for n := 1; n <= t.Turns; n++ {
			part, err := c.store.Log(c.ctx, turns.TurnID(name, n))
			if err != nil {
				return err
			}
			log = append(log, part...)
		}
		c.report.Turns += t.Turns
		c.report.runs(log, c.struck)
	}
	return nil
}

// runs reads the moves of a thread in order: every run has ended before the next
// one begins, each with a higher fence than all before it. struck says when the
// worker of a lost run was killed.
func (r *report) runs(log []turns.Entry, struck map[string]time.Time) {
	var fence int64
	var live string
	var lost time.Time
	for _, e := range log {
		switch {
		case e.Verb == turns.VerbClaim:
			r.Runs++
			if live != "" {
				r.violate("%s was claimed with fence %d while %s ran", e.Attempt, e.Fence, live)
			}
			if e.Fence <= fence {
				r.violate("%s was claimed with fence %d after %d", e.Attempt, e.Fence, fence)
			}
			if !lost.IsZero() {
				r.Recovery = max(r.Recovery, e.At.Sub(lost))
			}
			fence, live, lost = e.Fence, e.Attempt, time.Time{}
		case e.Attempt == live && live != "" && !e.To.Held():
			live = ""
			if e.Verb == turns.VerbLose {
				r.Losses++
				lost = struck[e.Attempt]
			}
		}
	}
	if live != "" {
		r.violate("the run of %s has not ended", live)
	}
}

// clear removes what the campaign brought: threads (their counters stay, so that no
// id is used twice), queues, and refused logins.
func (c *campaign) clear() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), time.Minute)
	defer cancel()
	var problems []error
	for _, name := range c.threads {
		if !c.rests(ctx, name) {
			_, err := c.commands.Cancel(ctx, "", name)
			problems = append(problems, err)
		}
		_, err := c.commands.Remove(ctx, "", name)
		problems = append(problems, err)
	}
	for _, service := range c.cfg.ServiceNames() {
		_, err := c.logins.Clear(ctx, credentials.Implicit(service))
		problems = append(problems, err, c.dropQueue(ctx, tasks.Queue(service)), c.dropQueue(ctx, tasks.ControlQueue(service)))
	}
	return errors.Join(problems...)
}

// dropQueue deletes a queue of the campaign. Tasks that were active in a killed
// process stay so until asynq's recoverer sees them, so they are taken out first.
func (c *campaign) dropQueue(ctx context.Context, queue string) error {
	prefix := "asynq:{" + queue + "}:"
	active, err := c.rdb.LRange(ctx, prefix+"active", 0, -1).Result()
	if err != nil {
		return fmt.Errorf("queue %s: %w", queue, err)
	}
	gone := []string{prefix + "active", prefix + "lease", prefix + "processed", prefix + "failed"}
	for _, id := range active {
		gone = append(gone, prefix+"t:"+id)
	}
	for day := time.Now().UTC().Add(-c.report.Length - chaosPatience - 24*time.Hour); !day.After(time.Now().UTC()); day = day.Add(12 * time.Hour) {
		gone = append(gone, prefix+"processed:"+day.Format(time.DateOnly), prefix+"failed:"+day.Format(time.DateOnly))
	}
	gone = append(gone, prefix+"processed:"+time.Now().UTC().Format(time.DateOnly), prefix+"failed:"+time.Now().UTC().Format(time.DateOnly))
	if err := c.rdb.Del(ctx, gone...).Err(); err != nil {
		return fmt.Errorf("queue %s: %w", queue, err)
	}
	err = c.inspector.DeleteQueue(queue, true)
	if err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
		return fmt.Errorf("queue %s: %w", queue, err)
	}
	return nil
}

package handlers

import (
	"context"
	"testing"

	"rota/agents"
	"rota/credentials"
	"rota/internal/redistest"
	"rota/tasks"
	"rota/turns"
	"rota/turns/store"
)

// A turn keeps the services that its role had when it was opened. One that the
// configuration has lost since keeps no failure of the turn from being answered, and
// is a way out only while a worker serves it.
func TestServiceThatTheConfigurationHasLost(t *testing.T) {
	for _, row := range []struct {
		name    string
		class   turns.Class
		served  bool
		verb    turns.Verb
		service string // of the turn's attempt afterwards
	}{
		{"another delivery may help", turns.ClassServer, false, turns.VerbRequeue, "codex-main"},
		{"only another service may help", turns.ClassRefusal, false, turns.VerbCompensate, "codex-main"},
		{"an older worker serves it", turns.ClassRefusal, true, turns.VerbDelegate, "codex-old"},
		{"the worker stops", turns.ClassShutdown, false, turns.VerbRequeue, "codex-main"},
	} {
		t.Run(row.name, func(t *testing.T) {
			rdb := redistest.Mini(t)
			o := newShop(t, rdb, turns.Limits{}, func(context.Context, agents.Task, agents.Reporter) (agents.Result, error) {
				return agents.Result{}, turns.Fail(row.class, "no")
			})
			o.h.Served = func(context.Context, string) (bool, error) { return row.served, nil }
			var err error
			o.h.Credentials, err = credentials.New(rdb, credentials.Config{Services: map[string]credentials.Service{"codex-main": {Agent: "scripted"}}})
			if err != nil {
				t.Fatal(err)
			}
			opened, err := o.s.OpenTurn(o.ctx, store.NewTurn{Command: "c", Thread: "fix", Workspace: t.TempDir(), Role: turns.Owner, Intent: turns.Work,
				Seat: turns.Seat{Services: []string{"codex-main", "codex-old"}}, Prompt: "do it"})
			if err != nil {
				t.Fatal(err)
			}
			task := tasks.NewTurnTask(opened.Outbox, nil)
			if err := o.h.ProcessTask(o.ctx, task); err != nil {
				o.h.HandleError(o.ctx, task, err)
			}
			log, err := o.s.Log(o.ctx, opened.Turn)
			if err != nil || log[len(log)-1].Verb != row.verb {
				t.Errorf("%+v, %v; want %s", log, err, row.verb)
			}
			r, err := o.s.Records(o.ctx, opened.Turn, 0)
			if err != nil || r.Attempt.Service != row.service {
				t.Errorf("%+v, %v; want it on %s", r.Attempt, err, row.service)
			}
		})
	}
}

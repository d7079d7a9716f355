package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
	"rota/pairs"
	"rota/turns"
	"rota/turns/store"
)

// Every request to a live run prints what the run says of it: taken, or not and why
// and what becomes of it then.
func TestTheWordOfTheRun(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		enqueue := program(t, rdb)
		s, err := store.Open(t.Context(), rdb, store.Options{Plan: pairs.Plan, Crew: scriptCrew})
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct {
			args   []string // @ stands for the thread
			answer string   // of the run; "end" ends the turn without a word
			code   int
			says   string
		}{
			{[]string{"steer", "@/1", "hello"}, "taken", 0, "(steer): taken\n"},
			{[]string{"steer", "@/1", "hello"}, "not taken: it is deaf", 0, "note: the agent did not take it (it is deaf): it becomes the next human message\n"},
			{[]string{"steer", "@/1", "hello"}, "end", 0, "note: @/1 ended before the agent took it: it becomes the next human message\n"},
			{[]string{"reply", "@", "hello", "--steer"}, "taken", 0, "(steer): taken\n"},
			{[]string{"reply", "@", "hello", "--steer"}, "not taken: it is deaf", 0, "note: the agent did not take it (it is deaf): it becomes the next human message\n"},
			{[]string{"interrupt", "@/1"}, "taken", 0, "(interrupt): taken\n"},
			{[]string{"interrupt", "@/1"}, "not taken: it is deaf", 0, "note: the agent does not stop by itself (it is deaf): it is ended\n"},
			{[]string{"interrupt", "@/1"}, "end", 0, "note: @/1 has ended (failed)\n"},
			{[]string{"respond", "@/1:q1", "yes"}, "taken", 0, "(respond): taken\n"},
			{[]string{"respond", "@/1:q1", "yes"}, "not taken: it is deaf", 5, "enqueue: the agent did not take the answer: it is deaf\n"},
		} {
			thread := "t" + string(rune('a'+i))
			run := asking(t, s, thread)
			said := make(chan error, 1)
			go func() { said <- answerOne(t.Context(), s, run, c.answer) }()
			var out, text bytes.Buffer
			args := strings.Split(strings.ReplaceAll(strings.Join(c.args, "\x00"), "@", thread), "\x00")
			code := enqueue(t.Context(), &out, &text, args...)
			if want := strings.ReplaceAll(c.says, "@", thread); code != c.code || !strings.Contains(text.String(), want) {
				t.Errorf("%v, and the run says %q: exit %d, want %d, and %q in\n%s", args, c.answer, code, c.code, want, text.String())
			}
			if err := <-said; err != nil {
				t.Error(err)
			}
		}
		// What waits for the owner is not waited for: no run hears it.
		var out, text bytes.Buffer
		enqueue(t.Context(), &out, &text, "task", "later", "--thread", "queued")
		if code := enqueue(t.Context(), &out, &text, "reply", "queued", "hello", "--steer"); code != 0 || !strings.Contains(text.String(), "the message waits") {
			t.Errorf("exit %d:\n%s", code, text.String())
		}
	})
}

// asking opens a task in a thread and is its live run, which has a question.
func asking(t *testing.T, s *store.Store, thread string) store.Run {
	t.Helper()
	seat := scriptCrew[turns.Owner]
	o, err := s.OpenTurn(t.Context(), store.NewTurn{Command: turns.NewToken(), Thread: thread, Role: turns.Owner, Intent: turns.Work, Seat: seat, Prompt: "work",
		Paired: &turns.Paired{ID: turns.PairedID(thread, 1), Thread: thread, Version: 1, Status: turns.Active, Turns: 1}, New: true})
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Claim(t.Context(), store.Claim{Attempt: o.Attempt, Service: o.Outbox.Service, Role: turns.Owner, Intent: turns.Work,
		Stamp: o.Outbox.Stamp, Run: turns.NewToken(), Worker: "w1", Agent: "scripted"})
	if err != nil || a.Answer != store.Claimed {
		t.Fatal(a.Answer, err)
	}
	if err := s.Start(t.Context(), a.Run, "", "", "tree"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Item(t.Context(), a.Run, turns.Item{ID: "q1", Kind: turns.ItemRequest, State: turns.ItemOpen, Turn: o.Turn, Title: "may I?"}); err != nil {
		t.Fatal(err)
	}
	return a.Run
}

// answerOne waits for the request to a run and gives it the run's word.
func answerOne(ctx context.Context, s *store.Store, run store.Run, answer string) error {
	for {
		asks, err := s.Asks(ctx, run.Turn, 0)
		if err != nil {
			return err
		}
		for _, a := range asks {
			if answer == "end" {
				_, err := s.Settle(ctx, run, turns.Ending{State: turns.Failed, Class: turns.ClassCrash, Error: "it crashed"})
				return err
			}
			if strings.HasPrefix(answer, "not taken") {
				a.Kind = "untaken"
			}
			return s.Taken(ctx, run, a, answer)
		}
		time.Sleep(time.Millisecond)
	}
}

package commands_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/pairs"
	"rota/scheduler"
	"rota/turns"
	"rota/turns/store"
)

// A program gives work to the queue. It needs a Redis, the roles as the workers know
// them, and the relay, so that a worker hears of the work at once.
func Example() {
	server, err := miniredis.Run() // your own Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	ctx := context.Background()
	crew := turns.Crew{turns.Owner: {Services: []string{"codex-main"}}, turns.Reviewer: {Services: []string{"claude"}}}
	s, err := store.Open(ctx, rdb, store.Options{Plan: pairs.Plan, Crew: crew})
	if err != nil {
		log.Fatal(err)
	}
	c := commands.Commands{Store: s, Hand: scheduler.NewRelay(s, slog.Default(), nil).Hand}

	// The key makes it safe to ask again when the answer was lost.
	ask := commands.TaskAsk{Key: "ticket-4711", Thread: "fix-login", Workdir: "/srv/shop", Text: "the login page is slow"}
	for range 2 {
		res, err := c.Task(ctx, ask)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Turn, res.Attempt, "already:", res.Already)
	}

	// A refusal says what kind it is, and often what to do.
	_, err = c.Task(ctx, commands.TaskAsk{Thread: "fix-login", Text: "and the logo is too big"})
	if refusal, ok := errors.AsType[*commands.Error](err); ok {
		fmt.Println(refusal.Kind, "-", refusal.Hint)
	}

	view, err := c.ShowTurn(ctx, "fix-login/1")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(view.Role, view.Intent, view.State)
	// Output:
	// fix-login/1 fix-login/1.1 already: false
	// fix-login/1 fix-login/1.1 already: true
	// conflict - say something to it with `enqueue reply fix-login TEXT`, or end it with `enqueue cancel fix-login`
	// owner work queued
}

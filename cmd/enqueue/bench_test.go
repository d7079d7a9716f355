package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/internal/redistest"
)

func TestAnInterruptedBenchLeavesNothing(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		enqueue := program(t, rdb)
		list := func() string {
			var stdout, stderr bytes.Buffer
			if code := enqueue(t.Context(), &stdout, &stderr, "ls", "--all", "-o", "jsonl"); code != 0 {
				t.Fatal(code, stderr.String())
			}
			return stdout.String()
		}
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		var stdout, stderr bytes.Buffer
		code := make(chan int, 1)
		go func() { code <- enqueue(ctx, &stdout, &stderr, "bench", "--rounds", "1000000") }()
		for deadline := time.Now().Add(time.Minute); list() == ""; {
			if time.Now().After(deadline) {
				t.Fatal("no round began")
			}
		}
		interrupt()
		if got := <-code; got != exitError || !strings.Contains(stderr.String(), "enqueue: interrupted\n") || stdout.Len() > 0 {
			t.Errorf("exit %d: %s%s", got, stdout.String(), stderr.String())
		}
		if left := list(); left != "" {
			t.Errorf("it left\n%s", left)
		}
	})
}

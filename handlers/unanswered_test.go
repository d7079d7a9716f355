package handlers

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"rota/agents"
	"rota/internal/redistest"
	"rota/tasks"
	"rota/turns"
)

// silence carries commands out and loses their answers, while it is on.
type silence struct{ on atomic.Bool }

func (s *silence) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (s *silence) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && s.on.Load() { // a script that must be sent as text is none yet
			err = errors.New("the answer was lost")
			cmd.SetErr(err)
		}
		return err
	}
}

func (s *silence) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// The start was written and its answer never came. The run may have started, so its
// failure is settled by the run: a compensation would find it running, change
// nothing, and leave the turn to its lease.
func TestFailureAfterAnUnansweredStartEndsTheTurn(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		lost := &silence{}
		agent := played(func(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
			lost.on.Store(true)
			err := report.Accepted()
			lost.on.Store(false)
			if err == nil {
				t.Error("the start was answered")
			}
			return agents.Result{}, turns.Fail(turns.ClassConfig, "no such model")
		})
		o := newShop(t, redistest.WithHooks(t, rdb, lost), turns.Limits{Lease: 6 * time.Second}, agent)
		e := o.open("fix", t.TempDir())
		task := tasks.NewTurnTask(e, nil)
		if err := o.h.ProcessTask(o.ctx, task); err != nil {
			o.h.HandleError(o.ctx, task, err)
		}
		got, err := o.s.Turn(o.ctx, e.Turn)
		if err != nil || got.State != turns.Failed || got.Class != turns.ClassConfig {
			t.Fatalf("%s is %s (%s), %v; want failed (config)", e.Turn, got.State, got.Class, err)
		}
	})
}

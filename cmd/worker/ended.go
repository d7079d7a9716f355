package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"rota/turns"
	"rota/turns/store"
	"rota/workspaces"
)

// escalateTime bounds the command that is run for each escalation.
const escalateTime = 30 * time.Second

// ended is told of every turn that this worker ended.
func (w *worker) ended(ctx context.Context, turn string, e store.Ended) {
	if e.Plan.Moved && e.Plan.Paired.Status == turns.NeedsHuman {
		w.log.Warn("paired task needs a human", "thread", e.Plan.Paired.Thread, "turn", turn, "reason", e.Plan.Paired.Reason)
		w.escalate(turn, e.Plan.Paired)
	}
}

// escalate runs the configured command for a paired task. It never holds the
// worker up; a worker that stops waits for it.
func (w *worker) escalate(turn string, p turns.Paired) {
	w.escalating.Go(func() {
		if err := escalate(w.cfg.Escalate, turn, p); err != nil {
			w.log.Warn("escalation failed", "thread", p.Thread, "err", err)
		}
	})
}

// escalate runs a command with a paired task as JSON on its standard input; no
// command is fine.
func escalate(command []string, turn string, p turns.Paired) error {
	if len(command) == 0 {
		return nil
	}
	body, err := json.Marshal(map[string]string{
		"thread": p.Thread, "paired": p.ID, "turn": turn, "status": string(p.Status), "from": string(p.From), "reason": p.Reason,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), escalateTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin = bytes.NewReader(body)
	cmd.Env = append(os.Environ(), "ROTA_THREAD="+p.Thread, "ROTA_TURN="+turn, "ROTA_REASON="+p.Reason)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out[:min(len(out), 500)])
	}
	return nil
}

// retired cleans a thread's worktree up when the retention of its work is over.
// What was not committed is kept in a checkpoint.
func (w *worker) retired(ctx context.Context, id string) error {
	thread := turns.ThreadOf(id)
	ref := ""
	var unknown error
	err := w.places.WhileIdle(ctx, thread, func() error {
		t, err := w.store.Thread(ctx, thread)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		lives := false
		if err == nil {
			lives, err = w.store.HoldLives(ctx, t)
		}
		if unknown = err; err == nil && (lives || t.OpenTurn != "") {
			return errInUse
		}
		return err
	}, func(i workspaces.Idle) (err error) {
		ref, err = i.Cleanup(ctx)
		return err
	})
	switch {
	case unknown != nil:
		return unknown
	case errors.Is(err, errInUse), errors.Is(err, workspaces.ErrNoWorkspace):
	case err != nil:
		// Another host's folder, or a repository that is gone: no reason to keep the
		// records for ever.
		w.log.Warn("workspace not cleaned up", "thread", thread, "err", err)
	case ref != "":
		w.log.Info("workspace cleaned up", "thread", thread, "kept", ref)
	}
	return nil
}

// errInUse says that a thread has gone on with other work.
var errInUse = errors.New("the thread is in use")

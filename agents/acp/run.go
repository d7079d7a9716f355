package acp

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"rota/agents"
	"rota/agents/drive"
	"rota/agents/process"
	"rota/agents/transcript"
	"rota/turns"
)

// run is the state of one run. Its goroutine is the one of carry; everything
// else comes through the mailbox.
type run struct {
	task   agents.Task
	board  *transcript.Board
	p      *process.Process
	conn   *sdk.ClientSideConnection
	mail   *mailbox
	allow  bool
	settle time.Duration

	session  sdk.SessionId
	prompted bool                    // before it, updates are an old conversation told again
	answer   strings.Builder         // what was said since the last tool call
	said     strings.Builder         // everything that was said
	kinds    map[string]sdk.ToolKind // of the tool calls so far
	waiting  map[string]question     // permission questions that wait for a person
	usage    agents.Usage

	conversed   chan struct{} // closed when converse has ended
	interrupted bool
	over        bool // the prompt was answered
	result      agents.Result
	err         error
}

func newRun(task agents.Task, report agents.Reporter, p *process.Process, a *Agent) *run {
	return &run{
		task: task, board: transcript.NewBoard(task, report), p: p, mail: newMailbox(), allow: a.options.Allow, settle: a.settle,
		kinds: map[string]sdk.ToolKind{}, waiting: map[string]question{}, conversed: make(chan struct{}),
	}
}

// carry speaks with the program until its turn ends, and ends the program.
func (r *run) carry(ctx context.Context) (agents.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, hangUp := connect(r.p, &client{run: r})
	defer hangUp()
	r.conn = conn
	go r.converse(ctx)
	failed := r.listen()
	if failed != nil {
		r.p.Fail(failed)
	} else {
		r.p.CloseStdin()
		if r.over && r.err == nil {
			r.settled()
		}
		r.p.Stop(drive.StopGrace) // such programs do not end with their input
	}
	exit := r.p.Wait()
	switch {
	case failed != nil:
		return agents.Result{}, failed
	case exit.Err != nil && !errors.Is(exit.Err, process.ErrKilled):
		return agents.Result{}, exit.Err
	case !r.over:
		return r.unheard(exit)
	}
	return r.result, r.err
}

// settled waits a moment: some programs write the session down only after their
// answer, and have lost it when they are stopped before.
func (r *run) settled() {
	select {
	case <-r.conn.Done():
	case <-r.p.Ended():
	case <-time.After(r.settle):
	}
}

// unheard is the end of a program that did not answer the prompt.
func (r *run) unheard(exit process.Exit) (agents.Result, error) {
	if r.interrupted {
		return r.stopped(), nil
	}
	return agents.Result{}, turns.Fail(turns.ClassCrash, "the agent ended without an answer to its prompt%s", hint(exit.Stderr))
}

// listen works through the mail until the prompt is answered or the program is
// gone. Its error is a reporter's.
func (r *run) listen() error {
	controls := r.task.Controls
	var grace <-chan time.Time
	for !r.over {
		select {
		case <-r.mail.ready:
			if err := r.read(); err != nil {
				return err
			}
		case c, ok := <-controls:
			if !ok {
				controls = nil
				continue
			}
			err := r.control(c)
			if c.Done != nil {
				c.Done(err)
			}
			if r.interrupted && grace == nil {
				grace = time.After(drive.StopGrace)
			}
		case <-grace:
			return nil
		case <-r.p.Ended():
			return nil
		case <-r.conn.Done():
			<-r.conversed
			return r.read() // what was said before it went
		}
	}
	return nil
}

// read works through the mail that is there.
func (r *run) read() error {
	for letter := r.mail.take(); letter != nil; letter = r.mail.take() {
		if err := letter(); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) readOnly() bool { return r.task.ReadOnly || r.task.Role != turns.Owner }

func (r *run) accept() error {
	if r.board.Accepted() {
		return nil
	}
	r.p.Accepted()
	if len(r.waiting) > 0 {
		r.p.SetSilence(0)
	}
	return r.board.Accept()
}

// end judges the answer to the prompt.
func (r *run) end(answer sdk.PromptResponse, err error) error {
	r.over = true
	switch {
	case r.interrupted:
		r.result = r.stopped()
		return nil
	case err != nil:
		r.err = classify(err, time.Now())
		return nil
	}
	r.count(answer.Usage)
	text := strings.TrimSpace(r.answer.String())
	switch answer.StopReason {
	case sdk.StopReasonEndTurn:
	case sdk.StopReasonRefusal:
		r.err = turns.Fail(turns.ClassRefusal, "the model refused")
		return nil
	case sdk.StopReasonMaxTokens, sdk.StopReasonMaxTurnRequests:
		r.err = turns.Fail(turns.ClassOutputLimit, "the agent stopped: %s", answer.StopReason)
		return nil
	default:
		r.err = turns.Fail(turns.ClassCrash, "the agent stopped: %s", answer.StopReason)
		return nil
	}
	if text == "" {
		r.err = turns.Fail(turns.ClassEmpty, "the agent ended without an answer")
		return nil
	}
	r.result = agents.Result{Text: text, Session: string(r.session), Usage: r.usage}
	return r.accept()
}

func (r *run) count(u *sdk.Usage) {
	if u == nil {
		return
	}
	r.usage.InputTokens, r.usage.OutputTokens = int64(u.InputTokens), int64(u.OutputTokens)
	if u.CachedReadTokens != nil {
		r.usage.CachedTokens = int64(*u.CachedReadTokens)
	}
}

// stopped is what there was when a person stopped the run.
func (r *run) stopped() agents.Result {
	return agents.Result{Text: strings.TrimSpace(r.said.String()), Session: string(r.session), Usage: r.usage, Interrupted: true}
}

// control takes a person's request.
func (r *run) control(c agents.Control) error {
	switch c.Kind {
	case agents.Interrupt:
		if !r.prompted {
			return errors.New("the agent has not begun; cancel the turn instead")
		}
		r.interrupted = true
		for id, q := range r.waiting {
			delete(r.waiting, id)
			q.answer(cancelled)
		}
		return r.conn.Cancel(context.Background(), sdk.CancelNotification{SessionId: r.session})
	case agents.Respond:
		return r.respond(c)
	}
	return fmt.Errorf("this agent can't take a %s while it runs", c.Kind)
}

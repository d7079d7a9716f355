package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"rota/turns"
)

// Ended is what the end of a turn came to.
type Ended struct {
	Already bool
	Next    string            // the next turn, empty for none
	Outbox  turns.OutboxEntry // its first attempt; zero when there is none or Already
	Freed   int64             // fence of the run that was ended, 0 for none
	Plan    turns.Plan        // what it meant for the paired task
	Left    bool              // something below is still open and recorded as a sweep
}

// how a turn is ended.
type how struct {
	script *script
	verb   turns.Verb
	by     string // run id or command id
	run    *Run
	mode   string
	keep   bool
	// sentence is the error item's fixed sentence; empty for none.
	sentence string
	attempt  turns.State // the attempt's final state
}

// Settle ends a turn by its run's own result; the next turn, if the workflow has
// one, is opened in the same write. The run's agent must be gone.
func (s *Store) Settle(ctx context.Context, r Run, e turns.Ending) (Ended, error) {
	return s.finish(ctx, r.Attempt, settling(r, e), e)
}

// SettleFrom is Settle for a caller that has read the records since the run was
// claimed, with the tree of its start. Where the thread has moved on since, it
// reads and decides again; else that round trip is spared.
func (s *Store) SettleFrom(ctx context.Context, r Run, seen Records, e turns.Ending) (Ended, error) {
	if seen.Attempt.ID != r.Attempt {
		return s.Settle(ctx, r, e)
	}
	e.Text, e.StartTree = boundText(e.Text), seen.Turn.Tree
	ended, err := s.finishOnce(ctx, seen, settling(r, e), e, turns.NewToken())
	if errors.Is(err, ErrMoved) {
		return s.Settle(ctx, r, e)
	}
	return ended, err
}

func settling(r Run, e turns.Ending) how {
	h := how{script: scriptSettle, verb: turns.VerbSettle, by: r.ID, run: &r, attempt: e.State}
	if e.State == turns.Failed {
		h.sentence = "Provider error"
	}
	return h
}

// Compensate is the dead letter of a run that never started: it ends the turn
// with everything open below it.
func (s *Store) Compensate(ctx context.Context, r Run, e turns.Ending) (Ended, error) {
	e.State = turns.Failed
	return s.finish(ctx, r.Attempt, how{script: scriptCompensate, verb: turns.VerbCompensate, by: r.ID, run: &r, sentence: "Provider error", attempt: turns.Failed}, e)
}

// End is the dead letter of an attempt that no run holds: unresolvable, archived
// while queued, or waited too long.
func (s *Store) End(ctx context.Context, attempt, by string, e turns.Ending) (Ended, error) {
	e.State = turns.Failed
	return s.finish(ctx, attempt, how{script: scriptEnd, verb: turns.VerbEnd, by: by, sentence: "Dead letter", attempt: turns.Failed}, e)
}

// LoseLast is Lose when the budget of losses is used: the turn ends as failed.
func (s *Store) LoseLast(ctx context.Context, r Run, own bool, e turns.Ending) (Ended, error) {
	e.State = turns.Failed
	return s.finish(ctx, r.Attempt, how{script: scriptLoseLast, verb: turns.VerbLose, by: r.ID, run: &r, mode: loseMode(own), sentence: "Worker lost", attempt: turns.Lost}, e)
}

// Cancel is a person's stop of a turn, whatever its attempt. It always wins or
// finds the turn final (*FinalError). The hold of a live run stays until its
// agent is gone. Open child turns that name this turn as their parent are
// cancelled too.
func (s *Store) Cancel(ctx context.Context, turn, command, reason string) (Ended, error) {
	return s.cancel(ctx, turn, command, turns.Ending{State: turns.Cancelled, Reason: reason})
}

// GiveUp is Cancel of a turn together with its paired task, which is cancelled in the
// same write.
func (s *Store) GiveUp(ctx context.Context, turn, command, reason string) (Ended, error) {
	return s.cancel(ctx, turn, command, turns.Ending{State: turns.Cancelled, Reason: reason, GivenUp: true})
}

func (s *Store) cancel(ctx context.Context, turn, command string, e turns.Ending) (Ended, error) {
	for range 100 {
		t, err := s.Turn(ctx, turn)
		if err != nil {
			return Ended{}, err
		}
		attempt := turns.AttemptID(turn, t.Attempt)
		ended, err := s.finish(ctx, attempt, how{script: scriptCancel, verb: turns.VerbCancel, by: command, keep: true, attempt: turns.Cancelled}, e)
		if errors.Is(err, ErrStale) {
			if t, err := s.Turn(ctx, turn); err == nil && t.State.FinalForTurn() {
				return Ended{}, &FinalError{turn, t.State}
			}
			continue
		}
		if err != nil {
			return Ended{}, err
		}
		return ended, s.cancelChildren(ctx, turn, command, e.Reason)
	}
	return Ended{}, fmt.Errorf("cancel %s: %w", turn, ErrMoved)
}

// cancelChildren cancels the open turns of child threads that name the turn as
// their parent. None can be opened after the parent's end.
func (s *Store) cancelChildren(ctx context.Context, turn, command, reason string) error {
	live, err := s.rdb.HGetAll(ctx, s.of(turn).live(turn)).Result()
	if err != nil {
		return fmt.Errorf("cancel the children of %s: %w", turn, err)
	}
	for _, child := range live {
		t, err := s.Turn(ctx, child)
		if err != nil || t.Parent != turn {
			continue
		}
		var final *FinalError
		if _, err := s.Cancel(ctx, child, command, reason); err != nil && !errors.As(err, &final) {
			return err
		}
	}
	return nil
}

// finish reads what the end means, writes it, and reads again while it moves.
func (s *Store) finish(ctx context.Context, attempt string, h how, e turns.Ending) (Ended, error) {
	turn, num, err := turns.ParseAttempt(attempt)
	if err != nil {
		return Ended{}, err
	}
	e.Text = boundText(e.Text)
	stamp := turns.NewToken()
	for range 50 {
		r, err := s.Records(ctx, turn, num)
		if err != nil {
			return Ended{}, err
		}
		e.StartTree = r.Turn.Tree
		ended, err := s.finishOnce(ctx, r, h, e, stamp)
		if !errors.Is(err, ErrMoved) {
			return ended, err
		}
	}
	return Ended{}, fmt.Errorf("%s %s: %w", h.verb, attempt, ErrMoved)
}

func (s *Store) finishOnce(ctx context.Context, r Records, h how, e turns.Ending, stamp string) (Ended, error) {
	t, attempt := r.Turn, r.Attempt
	k := s.of(t.ID)
	plan := s.planFor(r, e)

	pairedKey, pairedRecord, retained := k.turn(t.ID), "", t.ID
	if t.Paired != "" {
		pairedKey, retained = k.paired(t.Paired), ""
		if plan.Moved {
			pairedRecord = encodePaired(plan.Paired)
		}
		if plan.Paired.Status.Finished() {
			retained = t.Paired
		}
	}
	nextTurn, nextAttempt, nextNumber, nextRecord, nextAttemptRecord := "", "", 0, "", ""
	nextKeys := []string{k.turn(t.ID), k.attempt(attempt.ID), k.said(t.ID), k.log(t.ID), k.steers(t.ID)}
	var outbox turns.OutboxEntry
	next := turns.Next{}
	service := ""
	if plan.Next != nil {
		next = *plan.Next
		service = next.Services[0]
		nextNumber = r.Thread.Turns + 1
		nextTurn = turns.TurnID(t.Thread, nextNumber)
		nextAttempt = turns.AttemptID(nextTurn, 1)
		nextKeys = []string{k.turn(nextTurn), k.attempt(nextAttempt), k.said(nextTurn), k.log(nextTurn), k.steers(t.ID)}
		nextRecord = record(turnRecord(t.Paired, plan.Paired.Version, next.Role, next.Intent,
			turns.Seat{Services: next.Services, Limits: next.Limits}, t.ID)...)
		nextAttemptRecord = record(s.attemptRecord(ctx, service, stamp, turns.CauseInitial)...)
		outbox = turns.OutboxEntry{Thread: t.Thread, Turn: nextTurn, Attempt: nextAttempt, Role: next.Role, Intent: next.Intent,
			Service: service, Stamp: stamp, Cause: turns.CauseInitial, Limits: next.Limits, Trace: s.traceOf(ctx)}
	}
	runID, fence := "", ""
	if h.run != nil {
		runID, fence = h.run.ID, h.run.fence()
	}
	hold := "free"
	if h.keep {
		hold = "keep"
	}
	sessionOf := ""
	if e.Session != "" {
		sessionOf = turns.SessionKey(attempt.Service, t.Role)
	}
	messages := ""
	if t.Paired != "" {
		messages = strconv.Itoa(r.Messages)
	}
	a, err := s.run(ctx, h.script,
		append([]string{k.attempt(attempt.ID), k.turn(t.ID), k.thread(t.Thread), k.outbox(), k.leases(), k.log(t.ID), k.stream(), k.open(),
			k.live(t.Thread), pairedKey, k.messages(t.Thread), k.text(t.ID), k.items(t.Thread), k.links(t.Thread), k.done(t.ID), k.ended(),
			k.sweeps(), k.clock(), k.threads()}, nextKeys...),
		attempt.ID, t.ID, t.Thread, h.by, runID, fence, origins(h.verb), string(h.attempt), string(e.State), string(e.Outcome),
		string(e.Class), e.Error, e.Reason, e.Text, sessionOf, e.Session, e.Tree, t.Paired, r.Paired.Version, pairedRecord,
		messages, next.Messages, hold, closedKinds, closeAtOnce, ms(s.retention), nextTurn, nextAttempt, nextNumber, nextRecord,
		nextAttemptRecord, service, string(next.Role), ms(s.grace), string(e.Progress), h.mode, retained, errorItem(t, attempt, h, e), e.Usage)
	if err != nil {
		return Ended{}, err
	}
	switch a.word {
	case "done":
		return Ended{Next: nextTurn, Outbox: outbox, Freed: number64(a.at(2)), Plan: plan, Left: a.at(3) == "sweep"}, nil
	case "already":
		return Ended{Already: true, Next: a.at(0), Plan: plan}, nil
	}
	return Ended{}, fmt.Errorf("%s %s: %w", h.verb, attempt.ID, refusal(h.script, a))
}

// planFor asks the workflow what the end means. A lone turn means nothing more.
func (s *Store) planFor(r Records, e turns.Ending) turns.Plan {
	if r.Turn.Paired == "" || s.plan == nil {
		return turns.Plan{Paired: r.Paired}
	}
	return s.plan(turns.View{Turn: r.Turn, Ending: e, Paired: r.Paired, Messages: r.Messages, Crew: s.crew, Rules: s.rules})
}

// errorItem is the visible error of a turn that failed. Its id derives from the
// attempt, so that a replay can't add another.
func errorItem(t turns.Turn, a turns.Attempt, h how, e turns.Ending) string {
	if h.sentence == "" || e.State != turns.Failed {
		return ""
	}
	title := h.sentence + " (" + string(e.Class) + ")"
	if e.Error != "" {
		title += ": " + e.Error
	}
	b, err := json.Marshal(turns.Item{
		ID: "error:" + a.ID, Kind: turns.ItemError, State: turns.ItemFailed, Title: title,
		Thread: t.Thread, Turn: t.ID, Attempt: a.ID, Parent: "root:" + a.ID,
	})
	if err != nil {
		panic("store: " + err.Error())
	}
	return string(b)
}

// CutNote ends a text that was cut.
const CutNote = "\n[cut: the whole text is kept beside the workspace]"

func boundText(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= MaxText {
		return text
	}
	cut := text[:MaxText-len(CutNote)]
	for len(cut) > 0 {
		if r, size := utf8.DecodeLastRuneInString(cut); r != utf8.RuneError || size > 1 {
			break
		}
		cut = cut[:len(cut)-1]
	}
	return cut + CutNote
}

// CancelRun ends a turn as cancelled by the run itself: its agent stopped because
// a person interrupted it. The text so far is kept.
func (s *Store) CancelRun(ctx context.Context, r Run, e turns.Ending) (Ended, error) {
	e.State = turns.Cancelled
	return s.finish(ctx, r.Attempt, how{script: scriptCancel, verb: turns.VerbCancel, by: r.ID, run: &r, attempt: turns.Cancelled}, e)
}

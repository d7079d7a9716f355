package claude

import (
	"encoding/json"
	"strings"

	"rota/agents"
	"rota/agents/transcript"
	"rota/turns"
)

// Stream reads what one run of Claude Code prints, line by line, reports it and
// judges at the end. It is fed by Line and asked once by End.
type Stream struct {
	task  agents.Task
	board *transcript.Board

	session string // from the start event only: a failed resume echoes a bad id
	model   string
	words   string // the last message; a result only when a person stops the run
	result  *result
	limit   *limit // the last refusal of a subscription
	retry   *retry // the last retry the program announced, until an answer came
	fault   string // the error kind of the last assistant message
	spoiled int    // lines that look like events and can't be read
}

// NewStream returns the reader of one run.
func NewStream(task agents.Task, report agents.Reporter) *Stream {
	return &Stream{task: task, board: transcript.NewBoard(task, report)}
}

// Line takes one line of standard output. An error ends the run: it is the
// reporter's, or a failure that needs no more output.
func (s *Stream) Line(line []byte) error {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		if strings.HasPrefix(strings.TrimSpace(string(line)), "{") {
			s.spoiled++
		}
		return nil
	}
	switch e.Type {
	case "system":
		return s.system(e)
	case "rate_limit_event":
		if e.Limit != nil && e.Limit.Status == "rejected" {
			s.limit = e.Limit
		}
	case "assistant":
		return s.assistant(e)
	case "user":
		return s.user(e)
	case "stream_event":
		return s.partial(e)
	case "result":
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			s.spoiled++
			return nil
		}
		s.result = &r
	}
	return nil
}

// Accepted reports whether the program has accepted the prompt.
func (s *Stream) Accepted() bool { return s.board.Accepted() }

// Finished reports whether the program said how the turn ended. It may print
// more, and should go by itself soon.
func (s *Stream) Finished() bool { return s.result != nil }

func (s *Stream) system(e event) error {
	switch e.Subtype {
	case "init":
		if s.task.Session != "" && e.Session != s.task.Session {
			return turns.Fail(turns.ClassSessionLost, "asked for session %s, got %s", s.task.Session, e.Session)
		}
		s.session, s.model = e.Session, e.Model
		s.board.Session(e.Session)
		return s.board.Accept()
	case "api_retry":
		s.retry = &retry{Error: e.Error, Attempt: e.Attempt}
		if e.Status != nil {
			s.retry.Status = *e.Status
		}
	}
	return nil
}

// synthetic is the model of messages that the program wrote itself, its error texts.
const synthetic = "<synthetic>"

func (s *Stream) assistant(e event) error {
	var m message
	if json.Unmarshal(e.Message, &m) != nil {
		s.spoiled++
		return nil
	}
	s.fault = e.Error
	if m.Model == synthetic {
		return nil // told by the result; it is no word of the agent
	}
	s.retry = nil
	if e.Parent == "" && m.Model != "" {
		s.model = m.Model
	}
	for _, b := range blocks(m.Content) {
		switch b.Type {
		case "text":
			if e.Parent == "" {
				s.words = b.Text
			}
			if err := s.board.Message(m.ID, b.Text); err != nil {
				return err
			}
		case "tool_use":
			if err := s.tool(b, e.Parent); err != nil {
				return err
			}
		}
	}
	return nil
}

// tool opens a tool call, or a sub-agent. The structured answer is no tool.
func (s *Stream) tool(b block, parent string) error {
	switch b.Name {
	case "StructuredOutput":
		return nil
	case "Task", "Agent":
		return s.board.Open(turns.ItemSubAgent, b.ID, title(b), parent)
	}
	return s.board.Open(turns.ItemTool, b.ID, title(b), parent)
}

func (s *Stream) user(e event) error {
	var m message
	if json.Unmarshal(e.Message, &m) != nil {
		return nil
	}
	for _, b := range blocks(m.Content) {
		if b.Type == "tool_result" {
			if err := s.board.Close(b.UseID, !b.Failed); err != nil {
				return err
			}
		}
	}
	return nil
}

// partial follows a message while it is streamed.
func (s *Stream) partial(e event) error {
	if e.Event == nil {
		return nil
	}
	switch e.Event.Type {
	case "message_start":
		if m := e.Event.Message; m != nil {
			return s.board.Open(turns.ItemMessage, m.ID, "", e.Parent)
		}
	case "content_block_delta":
		var delta struct{ Text string }
		if json.Unmarshal(e.Event.Delta, &delta) == nil && delta.Text != "" {
			s.board.Say(delta.Text)
		}
	}
	return nil
}

// End judges the run. Nothing that was printed before the program's own success
// event is a result.
func (s *Stream) End(exit transcript.Exit) (agents.Result, error) {
	switch r := s.result; {
	case exit.Stopped != "" && !exit.Kept:
		return agents.Result{}, s.stopped(exit.Stopped)
	case r == nil:
		return agents.Result{}, s.wordless(exit)
	case r.IsError || r.Subtype != "success":
		return agents.Result{}, s.failure()
	case !exit.Kept && (exit.Code != 0 || exit.Signal != ""):
		return agents.Result{}, crash(exit)
	}
	return s.success()
}

func (s *Stream) success() (agents.Result, error) {
	r := s.result
	out := agents.Result{Text: r.Text, Session: s.session, Model: s.model, Usage: s.usage()}
	structured := len(r.Structured) > 0 && string(r.Structured) != "null"
	if structured && s.task.WantVerdict {
		if outcome, text, ok := transcript.Verdict(s.task, r.Structured); ok {
			out.Outcome, out.Text = outcome, text
			return out, nil
		}
	}
	switch {
	case strings.TrimSpace(r.Text) == "" && !structured:
		return agents.Result{}, turns.Fail(turns.ClassEmpty, "claude ended without an answer")
	case string(r.StopReason) == "null" && !structured:
		// The stream ended early; the program takes what it has for the answer.
		return agents.Result{}, turns.Fail(turns.ClassBadOutput, "the answer was cut: the stream ended without a stop reason")
	}
	return out, nil
}

func (s *Stream) usage() agents.Usage {
	u := s.result.Usage
	return agents.Usage{
		InputTokens: u.Input + u.Created + u.Cached, CachedTokens: u.Cached,
		OutputTokens: u.Output, CostUSD: s.result.Cost,
	}
}

// Interrupted returns what there was when a person stopped the run.
func (s *Stream) Interrupted() agents.Result {
	out := agents.Result{Text: s.words, Session: s.session, Model: s.model, Interrupted: true}
	if s.result != nil {
		out.Usage = s.usage()
	}
	return out
}

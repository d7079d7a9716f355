package codex

import (
	"encoding/json"
	"strings"
	"time"

	"rota/agents"
	"rota/agents/transcript"
	"rota/turns"
)

// Stream reads what one run of Codex prints, line by line, reports it and
// judges at the end. It is fed by Line and asked once by End.
type Stream struct {
	task  agents.Task
	board *transcript.Board
	now   func() time.Time

	session   session
	started   bool   // the turn has begun
	answer    string // the last message; earlier ones are commentary
	completed *usage
	failed    *string // the message of turn.failed
	trouble   string  // the last error event: no end, but the reason when we stop it
	spoiled   int
}

// The events, with the fields that are read. Unknown types are skipped.
type event struct {
	Type    string `json:"type"`
	Thread  string `json:"thread_id"`
	Message string `json:"message"`
	Item    *item  `json:"item"`
	Usage   *usage `json:"usage"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type item struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Text    string `json:"text"`
	Command string `json:"command"`
	Status  string `json:"status"`
	Exit    *int   `json:"exit_code"`
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	Query   string `json:"query"`
	Changes []struct {
		Path string `json:"path"`
	} `json:"changes"`
}

// usage counts from the start of the thread, not of the turn.
type usage struct {
	Input  int64 `json:"input_tokens"`
	Cached int64 `json:"cached_input_tokens"`
	Output int64 `json:"output_tokens"`
}

// NewStream returns the reader of one run.
func NewStream(task agents.Task, report agents.Reporter) *Stream {
	return &Stream{task: task, board: transcript.NewBoard(task, report), now: time.Now}
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
	case "thread.started":
		return s.begin(e.Thread)
	case "turn.started":
		s.started = true
		return s.board.Accept()
	case "item.started":
		return s.open(e.Item)
	case "item.completed":
		return s.close(e.Item)
	case "error":
		s.trouble = e.Message
	case "turn.completed":
		s.completed = &usage{}
		if e.Usage != nil {
			s.completed = e.Usage
		}
	case "turn.failed":
		message := ""
		if e.Error != nil {
			message = e.Error.Message
		}
		s.failed = &message
	}
	return nil
}

// begin checks the thread: an id that Codex does not know as one makes it start
// a new thread without a word.
func (s *Stream) begin(thread string) error {
	s.session = parseSession(s.task.Session)
	if asked := s.session.thread; asked != "" && thread != asked {
		return turns.Fail(turns.ClassSessionLost, "asked for thread %s, got %s", asked, thread)
	}
	s.session.thread = thread
	s.board.Session(s.session.String())
	return nil
}

// Accepted reports whether the program has accepted the prompt.
func (s *Stream) Accepted() bool { return s.board.Accepted() }

// Finished reports whether the program said how the turn ended.
func (s *Stream) Finished() bool { return s.completed != nil || s.failed != nil }

// open opens what runs for a while. Reasoning, plans and warnings are no items.
func (s *Stream) open(i *item) error {
	if i == nil {
		return nil
	}
	switch i.Type {
	case "agent_message":
		return s.board.Open(turns.ItemMessage, i.ID, i.Text, "")
	case "command_execution", "file_change", "mcp_tool_call", "web_search":
		return s.board.Open(turns.ItemTool, i.ID, title(i), "")
	case "collab_tool_call":
		return s.board.Open(turns.ItemSubAgent, i.ID, title(i), "")
	}
	return nil
}

func (s *Stream) close(i *item) error {
	if i == nil {
		return nil
	}
	if i.Type == "agent_message" {
		s.answer = i.Text
		return s.board.Message(i.ID, i.Text)
	}
	if err := s.open(i); err != nil { // some are only told at their end
		return err
	}
	ok := i.Status != "failed" && i.Status != "declined" && (i.Exit == nil || *i.Exit == 0)
	return s.board.Close(i.ID, ok)
}

// title says in a few words what an item does.
func title(i *item) string {
	switch {
	case i.Command != "":
		return i.Command
	case len(i.Changes) > 0:
		return i.Type + ": " + i.Changes[0].Path
	case i.Tool != "":
		return strings.TrimPrefix(i.Server+": "+i.Tool, ": ")
	case i.Query != "":
		return i.Type + ": " + i.Query
	}
	return i.Type
}

// End judges the run. Nothing that was printed before turn.completed is a result.
func (s *Stream) End(exit transcript.Exit) (agents.Result, error) {
	switch {
	case exit.Stopped != "" && !exit.Kept:
		return agents.Result{}, s.stopped(exit.Stopped)
	case s.failed != nil:
		return agents.Result{}, s.classify(*s.failed)
	case s.completed == nil:
		return agents.Result{}, s.wordless(exit)
	case !exit.Kept && (exit.Code != 0 || exit.Signal != ""):
		return agents.Result{}, crash(exit)
	case strings.TrimSpace(s.answer) == "":
		return agents.Result{}, turns.Fail(turns.ClassEmpty, "codex ended without an answer")
	}
	used := s.completed.since(s.session.spent)
	s.session.spent = *s.completed
	out := agents.Result{Text: s.answer, Session: s.session.String(), Usage: agents.Usage{
		InputTokens: used.Input, CachedTokens: used.Cached, OutputTokens: used.Output,
	}}
	if s.task.WantVerdict {
		if outcome, text, ok := transcript.Verdict(s.task, []byte(s.answer)); ok {
			out.Outcome, out.Text = outcome, text
		}
	}
	return out, nil
}

// Interrupted returns what there was when a person stopped the run.
func (s *Stream) Interrupted() agents.Result {
	return agents.Result{Text: s.answer, Session: s.session.String(), Interrupted: true}
}

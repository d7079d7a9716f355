// Package agenttest is the suite that every agent adapter passes, and what
// tests of adapters need: a Recorder that hears a run, and fake programs.
//
// A fake program is the test binary itself, started again through a small
// script that stands where the real program would:
//
//	func TestMain(m *testing.M) { agenttest.Main(m, fake) }
//
//	func fake(s *agenttest.Stage) int {   // speaks the program's own language
//		s.Prompt()                        // reads standard input, records the call
//		switch s.Script.Scenario { … }
//	}
//
//	func TestSuite(t *testing.T) {
//		agenttest.Run(t, agenttest.Subject{New: func(t *testing.T, s agenttest.Script) agents.Agent {
//			return codex.New(codex.Config{Program: agenttest.Program(t, s)})
//		}, …})
//	}
package agenttest

import (
	"testing"

	"rota/agents"
	"rota/turns"
)

// Scenario is what the fake program does in one run.
type Scenario string

// The scenarios. "Accepts" means whatever tells the adapter that the prompt was
// accepted; programs without such a word are alive long enough instead.
const (
	// Answers accepts, says the word Progress, opens and closes the tool ItemID,
	// answers Answer with Script.Outcome, in the session Script.Session.
	Answers Scenario = "answers"
	// Waits accepts, says Progress, opens ItemID, waits for Stage.WaitForGo, then
	// goes on like Answers.
	Waits Scenario = "waits"
	// Empty accepts and succeeds without an answer.
	Empty Scenario = "empty"
	// Crashes accepts, says Answer as if it were one, and ends with status 3
	// without its success event.
	Crashes Scenario = "crashes"
	// Hangs accepts, calls Stage.StartTool, and is silent for ever.
	Hangs Scenario = "hangs"
)

// Words that the scenarios use.
const (
	Progress = "looking at the code"
	Answer   = "The parser is fixed."
	ItemID   = "tool-1"
	Prompt   = "Please fix the parser, carefully."
)

// Script is one run of the fake program.
type Script struct {
	Scenario Scenario
	Outcome  turns.Outcome // the verdict that comes with the answer; may be empty
	Session  string        // the session that the program names; empty for one of its own choice
}

// Subject is an adapter to be tested.
type Subject struct {
	// New returns an agent whose program plays the script.
	New func(t *testing.T, s Script) agents.Agent

	InProcess bool // there is no program: nothing to find in files, no tree
	NoSession bool // the program knows no sessions
	NoItems   bool // the program reports no tools

	// Verdict returns the text of the answer that carries an outcome when the
	// adapter passes it on in Text; nil when it is in Result.Outcome.
	Verdict func(turns.Outcome) string

	// Resumed reports whether the call resumes the session. Nil with NoSession.
	Resumed func(c Call, session string) bool
	// ReadOnly reports whether the call keeps the program from writing, by its
	// arguments or its environment. Nil with InProcess.
	ReadOnly func(c Call) bool
}

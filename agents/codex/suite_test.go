package codex

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"rota/agents"
	"rota/agents/agenttest"
)

func TestMain(m *testing.M) { agenttest.Main(m, fake) }

// fake speaks Codex's stream of events.
func fake(s *agenttest.Stage) int {
	s.Prompt()
	thread := s.Script.Session
	if thread == "" {
		thread = "00000000-0000-7000-8000-000000000007"
	}
	type object map[string]any
	say := func(o object) {
		line, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
	message := func(id, text string) {
		say(object{"type": "item.completed", "item": object{"id": id, "type": "agent_message", "text": text}})
	}
	say(object{"type": "thread.started", "thread_id": thread})
	say(object{"type": "turn.started"})
	if s.Script.Scenario == agenttest.Empty {
		say(object{"type": "turn.completed"})
		return 0
	}
	message("item_0", agenttest.Progress)
	tool := func(event, status string) {
		say(object{"type": event, "item": object{"id": agenttest.ItemID, "type": "command_execution", "command": "go test", "status": status}})
	}
	switch s.Script.Scenario {
	case agenttest.Crashes:
		message("item_1", agenttest.Answer)
		return 3
	case agenttest.Hangs:
		s.StartTool()
		return s.Hang()
	default:
		tool("item.started", "in_progress")
		if s.Script.Scenario == agenttest.Waits {
			s.WaitForGo()
		}
		tool("item.completed", "completed")
	}
	answer := agenttest.Answer
	if slices.Contains(s.Args, "--output-schema") {
		verdict, err := json.Marshal(object{"outcome": s.Script.Outcome, "text": answer})
		if err != nil {
			panic(err)
		}
		answer = string(verdict)
	}
	message("item_2", answer)
	say(object{"type": "turn.completed"})
	return 0
}

func TestSuite(t *testing.T) {
	agenttest.Run(t, agenttest.Subject{
		New: func(t *testing.T, s agenttest.Script) agents.Agent {
			return New(Options{Program: agenttest.Program(t, s)})
		},
		Resumed: func(c agenttest.Call, session string) bool {
			i := slices.Index(c.Args, "resume")
			return i >= 0 && c.Args[i+1] == session
		},
		ReadOnly: func(c agenttest.Call) bool { return last(c.Args, "--sandbox") == "read-only" },
	})
}

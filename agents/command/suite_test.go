package command

import (
	"encoding/json"
	"fmt"
	"testing"

	"rota/agents"
	"rota/agents/agenttest"
)

func TestMain(m *testing.M) { agenttest.Main(m, fake) }

// say prints one JSON line.
func say(fields map[string]any) {
	b, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(b))
}

// fake plays a program that speaks in JSON lines.
func fake(s *agenttest.Stage) int {
	var in Input
	if err := json.Unmarshal([]byte(s.Prompt()), &in); err != nil {
		return 70
	}
	say(map[string]any{"type": "accepted"})
	say(map[string]any{"type": "progress", "progress": "text", "text": agenttest.Progress})
	session := s.Script.Session
	if session == "" {
		session = "session-1"
	}
	switch s.Script.Scenario {
	case agenttest.Empty:
		say(map[string]any{"type": "result", "text": " \n"})
		return 0
	case agenttest.Crashes:
		say(map[string]any{"type": "result", "text": agenttest.Answer, "outcome": s.Script.Outcome})
		return 3
	case agenttest.Hangs:
		s.StartTool()
		return s.Hang()
	}
	say(map[string]any{"type": "item", "id": agenttest.ItemID, "kind": "tool", "state": "open", "title": "go test"})
	if s.Script.Scenario == agenttest.Waits {
		s.WaitForGo()
	}
	say(map[string]any{"type": "item", "id": agenttest.ItemID, "kind": "tool", "state": "completed"})
	say(map[string]any{"type": "result", "text": agenttest.Answer, "outcome": s.Script.Outcome, "session": session})
	return 0
}

func TestSuite(t *testing.T) {
	agenttest.Run(t, agenttest.Subject{
		New: func(t *testing.T, s agenttest.Script) agents.Agent { return New(agenttest.Program(t, s)) },
		Resumed: func(c agenttest.Call, session string) bool {
			var in Input
			return json.Unmarshal([]byte(c.Stdin), &in) == nil && in.Session == session
		},
		// No switch can make an executable read-only; it is told its role.
		ReadOnly: func(c agenttest.Call) bool { return c.Getenv("ROTA_ROLE") != "owner" },
	})
}

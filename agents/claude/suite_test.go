package claude

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"rota/agents"
	"rota/agents/agenttest"
)

func TestMain(m *testing.M) { agenttest.Main(m, fake) }

// fake speaks Claude Code's stream of events.
func fake(s *agenttest.Stage) int {
	if slices.Contains(s.Args, "--input-format") {
		return fakeThatAsks(s)
	}
	s.Prompt()
	session := s.Script.Session
	if session == "" {
		session = "00000000-0000-4000-8000-000000000007"
	}
	type object map[string]any
	say := func(o object) {
		o["session_id"] = session
		line, err := json.Marshal(o)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(line))
	}
	message := func(kind string, content ...object) {
		say(object{"type": kind, "message": object{"id": "msg_1", "model": "fake", "content": content}})
	}
	say(object{"type": "system", "subtype": "init", "model": "fake"})
	message("assistant", object{"type": "text", "text": agenttest.Progress})
	answer := agenttest.Answer
	switch s.Script.Scenario {
	case agenttest.Empty:
		answer = ""
	case agenttest.Crashes:
		message("assistant", object{"type": "text", "text": answer})
		return 3
	case agenttest.Hangs:
		s.StartTool()
		return s.Hang()
	default:
		message("assistant", object{"type": "tool_use", "id": agenttest.ItemID, "name": "Bash", "input": object{"command": "go test"}})
		if s.Script.Scenario == agenttest.Waits {
			s.WaitForGo()
		}
		message("user", object{"type": "tool_result", "tool_use_id": agenttest.ItemID})
	}
	end := object{"type": "result", "subtype": "success", "is_error": false, "result": answer, "stop_reason": "end_turn"}
	if slices.Contains(s.Args, "--json-schema") && answer != "" {
		end["structured_output"] = object{"outcome": s.Script.Outcome, "text": answer}
	}
	say(end)
	return 0
}

func TestSuite(t *testing.T) {
	agenttest.Run(t, agenttest.Subject{
		New: func(t *testing.T, s agenttest.Script) agents.Agent {
			return New(Options{Program: agenttest.Program(t, s)})
		},
		Resumed: func(c agenttest.Call, session string) bool {
			i := slices.Index(c.Args, "--resume")
			return i >= 0 && c.Args[i+1] == session
		},
		ReadOnly: func(c agenttest.Call) bool {
			i := slices.Index(c.Args, "--permission-mode")
			return i >= 0 && c.Args[i+1] == "dontAsk" && !slices.Contains(c.Args, "--allowedTools")
		},
	})
}

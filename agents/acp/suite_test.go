package acp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"rota/agents"
	"rota/agents/agenttest"
	"rota/turns"
)

type object map[string]any

func say(o object) {
	o["jsonrpc"] = "2.0"
	line, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}

func update(o object) {
	say(object{"method": "session/update", "params": object{"sessionId": "s-7", "update": o}})
}

func chunk(text string) {
	update(object{"sessionUpdate": "agent_message_chunk", "content": object{"type": "text", "text": text}})
}

// fake speaks the protocol. It stays when its turn is over, like the real ones.
func fake(s *agenttest.Stage) int {
	var heard strings.Builder
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		heard.Write(in.Bytes())
		var m message
		if err := json.Unmarshal(in.Bytes(), &m); err != nil {
			return 70
		}
		switch m.Method {
		case "initialize":
			say(object{"id": m.ID, "result": object{"protocolVersion": 1, "agentCapabilities": object{"loadSession": true}}})
		case "session/new":
			say(object{"id": m.ID, "result": object{"sessionId": "s-7"}})
		case "session/load":
			chunk("words of an old turn")
			say(object{"id": m.ID, "result": object{}})
		case "session/prompt":
			s.Record(heard.String())
			if status := turn(s); status != 0 {
				return status
			}
			say(object{"id": m.ID, "result": object{"stopReason": "end_turn"}})
		}
	}
	return s.Hang()
}

// turn plays the scripted turn.
func turn(s *agenttest.Stage) int {
	if s.Script.Scenario == agenttest.Empty {
		return 0
	}
	chunk(agenttest.Progress)
	switch s.Script.Scenario {
	case agenttest.Crashes:
		chunk(agenttest.Answer)
		return 3
	case agenttest.Hangs:
		s.StartTool()
		return s.Hang()
	}
	update(object{"sessionUpdate": "tool_call", "toolCallId": agenttest.ItemID, "kind": "execute", "title": "go test", "status": "pending"})
	if s.Script.Scenario == agenttest.Waits {
		s.WaitForGo()
	}
	update(object{"sessionUpdate": "tool_call_update", "toolCallId": agenttest.ItemID, "status": "completed"})
	chunk(agenttest.Answer + "\n" + verdict(s.Script.Outcome))
	return 0
}

func verdict(o turns.Outcome) string { return "VERDICT: " + string(o) }

func TestSuite(t *testing.T) {
	agenttest.Run(t, agenttest.Subject{
		New: func(t *testing.T, s agenttest.Script) agents.Agent {
			return quick(Options{Command: []string{agenttest.Program(t, s)}})
		},
		Verdict: verdict,
		Resumed: func(c agenttest.Call, session string) bool {
			return strings.Contains(c.Stdin, `"session/load"`) && strings.Contains(c.Stdin, `"sessionId":"`+session+`"`)
		},
		// What such a program may do is answered over the protocol, by role, or told
		// in the session's options.
		ReadOnly: func(c agenttest.Call) bool { return strings.Contains(c.Stdin, `"disallowedTools":["Bash","Write"`) },
	})
}

package acp

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"rota/agents/agenttest"
)

// replayVar makes the test binary play the agent of a recorded conversation,
// scriptVar one that is written out in the variable.
const (
	replayVar = "ROTA_TEST_ACP_WIRE"
	scriptVar = "ROTA_TEST_ACP_SCRIPT"
)

func TestMain(m *testing.M) {
	if file := os.Getenv(replayVar); file != "" {
		wire, err := os.Open(file)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		play(parse(wire))
	}
	if script := os.Getenv(scriptVar); script != "" {
		var w []entry
		if err := json.Unmarshal([]byte(script), &w); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		play(w)
	}
	agenttest.Main(m, fake)
}

// entry is one message of a conversation.
type entry struct {
	Dir string  `json:"dir"` // client>agent or agent>client
	Msg message `json:"msg"`
	// Exit ends the agent at this point, with this status.
	Exit *int `json:"exit"`
}

type message struct {
	Version string           `json:"jsonrpc"`
	ID      *json.RawMessage `json:"id,omitempty"`
	Method  string           `json:"method,omitempty"`
	Params  json.RawMessage  `json:"params,omitempty"`
	Result  json.RawMessage  `json:"result,omitempty"`
	Error   json.RawMessage  `json:"error,omitempty"`
}

func parse(f *os.File) []entry {
	var all []entry
	scan := bufio.NewScanner(f)
	scan.Buffer(nil, 16<<20)
	for scan.Scan() {
		var e entry
		if json.Unmarshal(scan.Bytes(), &e) == nil && e.Dir != "" {
			all = append(all, e)
		}
	}
	return all
}

// play is the agent: it waits for what the client said in the recording, by
// method, and says what the agent said, under the ids of this conversation.
func play(wire []entry) {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 16<<20)
	ids := map[string]*json.RawMessage{}
	for _, e := range wire {
		switch {
		case e.Exit != nil:
			fmt.Fprintln(os.Stderr, "the agent's last words")
			os.Exit(*e.Exit)
		case e.Dir == "client>agent":
			got := next(in, e.Msg.Method)
			if e.Msg.ID != nil && e.Msg.Method != "" {
				ids[string(*e.Msg.ID)] = got.ID
			}
		default:
			if e.Msg.ID != nil && e.Msg.Method == "" {
				e.Msg.ID = ids[string(*e.Msg.ID)]
			}
			line, err := json.Marshal(e.Msg)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println(string(line))
		}
	}
	time.Sleep(time.Hour) // such programs do not end with their input
}

// next reads up to a message with this method; an answer has none.
func next(in *bufio.Scanner, method string) message {
	for in.Scan() {
		var m message
		if json.Unmarshal(in.Bytes(), &m) == nil && m.Method == method {
			return m
		}
	}
	time.Sleep(time.Hour)
	return message{}
}

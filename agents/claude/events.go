package claude

import (
	"encoding/json"
	"time"
)

// The events, with the fields that are read. Unknown types are skipped.
type event struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Session string `json:"session_id"`
	Parent  string `json:"parent_tool_use_id"`
	Model   string `json:"model"`
	Error   string `json:"error"` // an assistant message's or a retry's error kind

	Message json.RawMessage `json:"message"`
	Limit   *limit          `json:"rate_limit_info"`
	Event   *streamEvent    `json:"event"`
	Status  *int            `json:"error_status"`
	Attempt int             `json:"attempt"`
}

type limit struct {
	Status   string  `json:"status"`
	ResetsAt float64 `json:"resetsAt"` // seconds since 1970
	Type     string  `json:"rateLimitType"`
}

type retry struct {
	Error   string
	Status  int // 0: no answer at all
	Attempt int
}

type message struct {
	ID      string          `json:"id"`
	Model   string          `json:"model"`
	Content json.RawMessage `json:"content"` // blocks, or a text
}

type block struct {
	Type   string          `json:"type"`
	Text   string          `json:"text"`
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"input"`
	UseID  string          `json:"tool_use_id"`
	Failed bool            `json:"is_error"`
}

type streamEvent struct {
	Type    string          `json:"type"`
	Message *message        `json:"message"`
	Delta   json.RawMessage `json:"delta"`
}

type result struct {
	Subtype    string          `json:"subtype"`
	IsError    bool            `json:"is_error"`
	Status     *int            `json:"api_error_status"`
	Text       string          `json:"result"`
	StopReason json.RawMessage `json:"stop_reason"` // null: the model did not get to its end
	Terminal   string          `json:"terminal_reason"`
	Turns      int             `json:"num_turns"`
	Errors     []string        `json:"errors"`
	Structured json.RawMessage `json:"structured_output"`
	Cost       float64         `json:"total_cost_usd"`
	Usage      struct {
		Input   int64 `json:"input_tokens"`
		Created int64 `json:"cache_creation_input_tokens"`
		Cached  int64 `json:"cache_read_input_tokens"`
		Output  int64 `json:"output_tokens"`
	} `json:"usage"`
}

// add adds what an earlier end of the same run counted. The cost is a sum already.
func (r *result) add(earlier result) {
	r.Usage.Input += earlier.Usage.Input
	r.Usage.Created += earlier.Usage.Created
	r.Usage.Cached += earlier.Usage.Cached
	r.Usage.Output += earlier.Usage.Output
}

func (l *limit) resets() time.Time {
	if l == nil || l.ResetsAt <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(l.ResetsAt), 0)
}

func blocks(raw json.RawMessage) []block {
	var list []block
	if json.Unmarshal(raw, &list) != nil {
		return nil // a plain text, or nothing
	}
	return list
}

// title says in a few words what a tool call does.
func title(b block) string {
	var in struct {
		Command     string `json:"command"`
		File        string `json:"file_path"`
		Pattern     string `json:"pattern"`
		Description string `json:"description"`
	}
	_ = json.Unmarshal(b.Input, &in) // a tool with other fields has its name only
	for _, what := range []string{in.Command, in.File, in.Pattern, in.Description} {
		if what != "" {
			return b.Name + ": " + what
		}
	}
	return b.Name
}

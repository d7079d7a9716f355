package mockapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// anthropic speaks POST /v1/messages.
type anthropic struct{}

func (anthropic) refuse(w http.ResponseWriter, f Fault) {
	r := map[Fault]refusal{
		BadKey:     {status: 401, kind: "authentication_error", message: "invalid x-api-key"},
		Expired:    {status: 401, kind: "authentication_error", message: "OAuth token has expired. Please obtain a new token or refresh your existing token."},
		Forbidden:  {status: 403, kind: "permission_error", message: "Your API key does not have permission to use the specified resource."},
		UsageLimit: {status: 429, kind: "rate_limit_error", message: "This request would exceed your account's rate limit. Please try again later.", header: unified()},
		PerMinute:  {status: 429, kind: "rate_limit_error", message: "Number of request tokens has exceeded your per-minute rate limit", header: map[string]string{"retry-after": "1"}},
		NoCredit:   {status: 400, kind: "invalid_request_error", message: "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."},
		Overloaded: {status: 529, kind: "overloaded_error", message: "Overloaded"},
		Broken:     {status: 500, kind: "api_error", message: "Internal server error"},
		NoModel:    {status: 404, kind: "not_found_error", message: "model: no-such-model"},
		TooLong:    {status: 400, kind: "invalid_request_error", message: "prompt is too long: 210000 tokens > 200000 maximum"},
	}[f]
	r.write(w, object{"type": "error", "error": object{"type": r.kind, "message": r.message}})
}

// unified are the headers by which a used-up subscription names its reset.
func unified() map[string]string {
	at := resetsAt()
	return map[string]string{
		"anthropic-ratelimit-unified-status": "rejected", "anthropic-ratelimit-unified-reset": at,
		"anthropic-ratelimit-unified-representative-claim":    "five_hour",
		"anthropic-ratelimit-unified-5h-status":               "rejected",
		"anthropic-ratelimit-unified-5h-reset":                at,
		"anthropic-ratelimit-unified-overage-status":          "rejected",
		"anthropic-ratelimit-unified-overage-disabled-reason": "org_level_disabled",
	}
}

func (a anthropic) answer(w http.ResponseWriter, body request, step Step, f Fault) {
	if f == Garbage {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>a proxy's page</html>")
		return
	}
	blocks, stop := a.blocks(body, step)
	switch f {
	case Empty:
		blocks = nil
	case Refusal:
		stop = "refusal"
	case TooMuch:
		stop = "max_tokens"
	}
	message := object{
		"id": "msg_mock", "type": "message", "role": "assistant", "model": body.Model, "content": []object{},
		"stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": 123, "output_tokens": 1},
	}
	if !body.Stream {
		if f == Cut || f == StallMid {
			abort()
		}
		message["content"], message["stop_reason"] = blocks, stop
		message["usage"] = object{"input_tokens": 123, "output_tokens": 45}
		writeJSON(w, http.StatusOK, message)
		return
	}
	s := sse{w}
	s.send("message_start", object{"message": message})
	for i, b := range blocks {
		a.block(s, i, b)
		if f == Cut || f == StallMid {
			return
		}
	}
	if f == EndsEarly {
		return
	}
	s.send("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 45}})
	s.send("message_stop", object{})
}

// blocks are the content of an answer.
func (anthropic) blocks(body request, step Step) (blocks []object, stop string) {
	text := func(t string) object { return object{"type": "text", "text": t} }
	tool := func(name string, input object) ([]object, string) {
		use := object{"type": "tool_use", "id": fmt.Sprintf("toolu_mock_%d", time.Now().UnixNano()), "name": name, "input": input}
		if step.Text != "" && step.Outcome == "" {
			return []object{text(step.Text), use}, "tool_use"
		}
		return []object{use}, "tool_use"
	}
	switch {
	case step.Shell != "":
		return tool("Bash", object{"command": step.Shell, "description": "a command"})
	case step.Ask != "":
		return tool("AskUserQuestion", object{"questions": []object{{
			"question": step.Ask, "header": "A question", "multiSelect": false,
			"options": []object{{"label": "one", "description": "the first"}, {"label": "other", "description": "the second"}},
		}}})
	case step.Write != "":
		return tool("Write", object{"file_path": step.Write, "content": step.Content})
	case step.Outcome != "" && body.offers("StructuredOutput"):
		return tool("StructuredOutput", object{"outcome": step.Outcome, "text": step.Text})
	}
	return []object{text(step.Text)}, "end_turn"
}

// block streams one content block.
func (anthropic) block(s sse, i int, b object) {
	start := object{"type": b["type"]}
	var delta object
	if b["type"] == "text" {
		start["text"] = ""
		delta = object{"type": "text_delta", "text": b["text"]}
	} else {
		input, _ := json.Marshal(b["input"]) // strings only
		start["id"], start["name"], start["input"] = b["id"], b["name"], object{}
		delta = object{"type": "input_json_delta", "partial_json": string(input)}
	}
	s.send("content_block_start", object{"index": i, "content_block": start})
	s.send("content_block_delta", object{"index": i, "delta": delta})
	s.send("content_block_stop", object{"index": i})
}

// sse writes server-sent events.
type sse struct{ w http.ResponseWriter }

func (s sse) send(kind string, v object) {
	s.w.Header().Set("Content-Type", "text/event-stream")
	v["type"] = kind
	raw, _ := json.Marshal(v)                              // strings and numbers only
	fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", kind, raw) //
	_ = http.NewResponseController(s.w).Flush()            // the client is gone
}

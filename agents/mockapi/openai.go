package mockapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// openai speaks POST /v1/responses.
type openai struct{}

func (openai) refuse(w http.ResponseWriter, f Fault) {
	r := map[Fault]refusal{
		BadKey:     {status: 401, kind: "invalid_request_error", code: "invalid_api_key", message: "Incorrect API key provided."},
		Expired:    {status: 401, kind: "invalid_request_error", code: "token_expired", message: "Provided authentication token is expired. Please try signing in again."},
		Forbidden:  {status: 403, kind: "invalid_request_error", code: "forbidden", message: "You do not have access to this resource."},
		UsageLimit: {status: 429, kind: "usage_limit_reached", message: "The usage limit has been reached"},
		PerMinute:  {status: 429, kind: "requests", code: "rate_limit_exceeded", message: "Rate limit reached. Please try again in 1s.", header: map[string]string{"retry-after": "1"}},
		NoCredit:   {status: 429, kind: "insufficient_quota", code: "insufficient_quota", message: "You exceeded your current quota, please check your plan and billing details."},
		Overloaded: {status: 503, kind: "server_error", code: "server_is_overloaded", message: "The server is overloaded."},
		Broken:     {status: 500, kind: "server_error", message: "The server had an error while processing your request."},
		NoModel:    {status: 404, kind: "invalid_request_error", code: "model_not_found", message: "The model `no-such-model` does not exist or you do not have access to it."},
		TooLong:    {status: 400, kind: "invalid_request_error", code: "context_length_exceeded", message: "Your input exceeds the context window of this model."},
	}[f]
	e := object{"type": r.kind, "message": r.message, "param": nil, "code": r.code}
	if f == UsageLimit {
		e["plan_type"], e["resets_at"], e["resets_in_seconds"] = "plus", time.Now().Add(ResetsIn).Unix(), int(ResetsIn.Seconds())
	}
	r.write(w, object{"error": e})
}

func (o openai) answer(w http.ResponseWriter, body request, step Step, f Fault) {
	if f == Garbage {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<html>a proxy's page</html>")
		return
	}
	s := sse{w}
	s.send("response.created", object{"response": object{"id": "resp_mock"}})
	if f == TooMuch || f == Refusal {
		reason := "max_output_tokens"
		if f == Refusal {
			reason = "content_filter"
		}
		s.send("response.incomplete", object{"response": object{"id": "resp_mock", "incomplete_details": object{"reason": reason}}})
		return
	}
	if f != Empty {
		for _, item := range o.items(body, step) {
			s.send("response.output_item.done", object{"item": item})
		}
	}
	if f == Cut || f == StallMid || f == EndsEarly {
		return
	}
	s.send("response.completed", object{"response": object{"id": "resp_mock", "usage": object{
		"input_tokens": 123, "input_tokens_details": object{"cached_tokens": 0},
		"output_tokens": 45, "output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 168,
	}}})
}

// items are the output of an answer.
func (openai) items(body request, step Step) []object {
	message := func(t string) object {
		return object{"type": "message", "role": "assistant", "id": "msg_mock", "content": []object{{"type": "output_text", "text": t}}}
	}
	call := object{"call_id": fmt.Sprintf("call_mock_%d", time.Now().UnixNano())}
	switch {
	case step.Shell != "":
		input, _ := json.Marshal(object{"cmd": step.Shell}) // a string
		call["type"], call["name"], call["arguments"] = "function_call", "exec_command", string(input)
	case step.Write != "":
		lines := "+" + strings.Join(strings.Split(strings.TrimSuffix(step.Content, "\n"), "\n"), "\n+")
		call["type"], call["name"] = "custom_tool_call", "apply_patch"
		call["input"] = "*** Begin Patch\n*** Add File: " + step.Write + "\n" + lines + "\n*** End Patch"
	case step.Outcome != "":
		verdict, _ := json.Marshal(object{"outcome": step.Outcome, "text": step.Text}) // strings
		return []object{message(string(verdict))}
	default:
		return []object{message(step.Text)}
	}
	if step.Text != "" {
		return []object{message(step.Text), call}
	}
	return []object{call}
}

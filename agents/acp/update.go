package acp

import (
	"fmt"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"rota/agents"
	"rota/agents/transcript"
	"rota/turns"
)

// update takes what the program tells about its turn.
func (r *run) update(u sdk.SessionUpdate) error {
	if !r.prompted {
		return nil
	}
	switch {
	case u.AgentMessageChunk != nil:
		if t := u.AgentMessageChunk.Content.Text; t != nil && t.Text != "" {
			r.answer.WriteString(t.Text)
			r.said.WriteString(t.Text)
			r.board.Say(t.Text)
			return r.accept()
		}
	case u.AgentThoughtChunk != nil:
		return r.accept()
	case u.ToolCall != nil:
		return r.tool(u.ToolCall)
	case u.ToolCallUpdate != nil:
		if k := u.ToolCallUpdate.Kind; k != nil {
			r.kinds[string(u.ToolCallUpdate.ToolCallId)] = *k
		}
		if s := u.ToolCallUpdate.Status; s != nil {
			return r.close(string(u.ToolCallUpdate.ToolCallId), *s)
		}
	case u.UsageUpdate != nil:
		// The cost is the session's, so of a resumed one it says nothing about this turn.
		if c := u.UsageUpdate.Cost; c != nil && c.Currency == "USD" && r.task.Session == "" {
			r.usage.CostUSD = c.Amount
		}
	}
	return nil
}

func (r *run) tool(c *sdk.SessionUpdateToolCall) error {
	if err := r.accept(); err != nil {
		return err
	}
	id := string(c.ToolCallId)
	r.kinds[id] = c.Kind
	r.answer.Reset() // what was said before a tool is commentary
	if r.said.Len() > 0 {
		r.said.WriteString("\n")
	}
	if err := r.board.Open(turns.ItemTool, id, c.Title, ""); err != nil {
		return err
	}
	return r.close(id, c.Status)
}

func (r *run) close(id string, s sdk.ToolCallStatus) error {
	switch s {
	case sdk.ToolCallStatusCompleted:
		return r.board.Close(id, true)
	case sdk.ToolCallStatusFailed:
		return r.board.Close(id, false)
	}
	return nil
}

// question is a permission question of the program.
type question struct {
	request sdk.RequestPermissionRequest
	answer  func(sdk.RequestPermissionResponse)
}

// permission answers a question by role: who only reads may only read, whatever
// the program calls it; an owner may write, or a person is asked.
func (r *run) permission(q question) error {
	call := q.request.ToolCall
	kind := r.kinds[string(call.ToolCallId)]
	if call.Kind != nil {
		kind = *call.Kind
	}
	switch {
	case r.interrupted:
		q.answer(cancelled)
	case r.readOnly():
		q.answer(choose(q.request.Options, reads[kind]))
	case r.allow || r.task.Controls == nil:
		q.answer(choose(q.request.Options, true))
	default:
		return r.put(q)
	}
	return nil
}

// reads are the kinds of tools that change nothing.
var reads = map[sdk.ToolKind]bool{sdk.ToolKindRead: true, sdk.ToolKindSearch: true, sdk.ToolKindThink: true}

// put puts a question to a person. The silence clock stands until it is answered.
func (r *run) put(q question) error {
	id := "ask-" + string(q.request.ToolCall.ToolCallId)
	title := "permission"
	if t := q.request.ToolCall.Title; t != nil && *t != "" {
		title = *t
	}
	var names []string
	for _, o := range q.request.Options {
		names = append(names, string(o.OptionId))
	}
	r.waiting[r.board.ID(id)] = q
	r.p.SetSilence(0)
	return r.board.Open(turns.ItemRequest, id, fmt.Sprintf("%s (%s)", transcript.Cut(title, transcript.MaxTitle-60), strings.Join(names, ", ")), "")
}

// respond brings a person's answer to the question that waits for it: the id or
// the name of an option, yes or no.
func (r *run) respond(c agents.Control) error {
	q, ok := r.waiting[c.Item]
	if !ok {
		return fmt.Errorf("no question %s waits for an answer", c.Item)
	}
	answer, ok := pick(q.request.Options, c.Text)
	if !ok {
		return fmt.Errorf("%q is none of the options; answer yes, no or an option's name", transcript.Clip(c.Text, 80))
	}
	delete(r.waiting, c.Item)
	if len(r.waiting) == 0 {
		r.p.SetSilence(r.task.Silence)
	}
	q.answer(answer)
	return r.board.Close("ask-"+string(q.request.ToolCall.ToolCallId), true)
}

func pick(options []sdk.PermissionOption, text string) (sdk.RequestPermissionResponse, bool) {
	text = strings.ToLower(strings.TrimSpace(text))
	for _, o := range options {
		if strings.ToLower(string(o.OptionId)) == text || strings.ToLower(o.Name) == text || string(o.Kind) == text {
			return selected(o), true
		}
	}
	switch text {
	case "yes", "y", "allow", "ok":
		return choose(options, true), true
	case "no", "n", "reject", "deny":
		return choose(options, false), true
	}
	return cancelled, false
}

// choose returns the answer that says yes or no for this once. Without such an
// option nothing is allowed.
func choose(options []sdk.PermissionOption, yes bool) sdk.RequestPermissionResponse {
	wanted := []sdk.PermissionOptionKind{sdk.PermissionOptionKindRejectOnce, sdk.PermissionOptionKindRejectAlways}
	if yes {
		wanted = []sdk.PermissionOptionKind{sdk.PermissionOptionKindAllowOnce, sdk.PermissionOptionKindAllowAlways}
	}
	for _, kind := range wanted {
		for _, o := range options {
			if o.Kind == kind {
				return selected(o)
			}
		}
	}
	return cancelled
}

func selected(o sdk.PermissionOption) sdk.RequestPermissionResponse {
	return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeSelected(o.OptionId)}
}

package transcript

import (
	"encoding/json"
	"slices"

	"rota/agents"
	"rota/turns"
)

// Schema returns the JSON schema of a verdict: an object with one of the task's
// outcomes and a text. Every field is required and no other is allowed, as the
// strict structured output of both programs demands.
func Schema(outcomes []turns.Outcome) string {
	type object map[string]any
	schema, err := json.Marshal(object{
		"type": "object",
		"properties": object{
			"outcome": object{"type": "string", "enum": outcomes},
			"text":    object{"type": "string", "description": "The complete answer, in plain text."},
		},
		"required":             []string{"outcome", "text"},
		"additionalProperties": false,
	})
	if err != nil {
		panic("transcript: schema: " + err.Error()) // a map of strings always marshals
	}
	return string(schema)
}

// Verdict reads a structured answer. Without ok it is no verdict of this task:
// not the object of Schema, or an outcome that this role may not give.
func Verdict(task agents.Task, raw []byte) (outcome turns.Outcome, text string, ok bool) {
	var v struct {
		Outcome turns.Outcome `json:"outcome"`
		Text    *string       `json:"text"`
	}
	if json.Unmarshal(raw, &v) != nil || v.Text == nil || !slices.Contains(task.Outcomes, v.Outcome) {
		return "", "", false
	}
	return v.Outcome, *v.Text, true
}

// WantsSchema reports whether the task asks for a structured verdict.
func WantsSchema(task agents.Task) bool { return task.WantVerdict && len(task.Outcomes) > 0 }

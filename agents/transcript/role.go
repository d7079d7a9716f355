package transcript

import (
	"rota/agents"
	"rota/turns"
)

// RoleText is the sentence that tells an agent its part, beside the prompt. An
// invalid role is an error: nothing is run for it.
func RoleText(task agents.Task) (string, error) {
	if !task.Role.Valid() {
		return "", turns.Fail(turns.ClassUnresolvable, "invalid role %q", task.Role)
	}
	text := "You take the role of the " + string(task.Role) + " in this run."
	if task.ReadOnly || task.Role != turns.Owner {
		text += " You read and judge; you must not change the workspace."
	}
	return text, nil
}

package acp

import (
	sdk "github.com/coder/acp-go-sdk"

	"rota/agents"
	"rota/agents/recording"
	"rota/turns"
)

// quick is an agent whose program has nothing to write down.
func quick(o Options) *Agent {
	a := New(o)
	a.settle = 0
	return a
}

func questionOptions() []sdk.PermissionOption {
	return []sdk.PermissionOption{
		{Kind: sdk.PermissionOptionKindAllowOnce, OptionId: "a", Name: "Allow"},
		{Kind: sdk.PermissionOptionKindRejectOnce, OptionId: "r", Name: "Reject"},
	}
}

// answerOf returns the option that a role's run chooses.
func answerOf(role turns.Role, kind string, options []sdk.PermissionOption) string {
	r := newRun(agents.Task{Role: role, ReadOnly: role != turns.Owner}, &recording.Heard{}, nil, New(Options{}))
	r.kinds["c1"] = sdk.ToolKind(kind)
	got := "unanswered"
	err := r.permission(question{
		request: sdk.RequestPermissionRequest{Options: options, ToolCall: sdk.ToolCallUpdate{ToolCallId: "c1"}},
		answer: func(a sdk.RequestPermissionResponse) {
			got = "cancelled"
			if a.Outcome.Selected != nil {
				got = string(a.Outcome.Selected.OptionId)
			}
		},
	})
	if err != nil {
		return err.Error()
	}
	return got
}

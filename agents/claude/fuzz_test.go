package claude

import (
	"testing"

	"rota/agents"
	"rota/agents/recording"
)

func FuzzStream(f *testing.F) {
	recording.Fuzz(f, testdata, "claude", task, func(t agents.Task, r agents.Reporter) recording.Stream { return NewStream(t, r) })
}

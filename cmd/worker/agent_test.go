package main

import (
	"reflect"
	"testing"

	"rota/agents"
	"rota/agents/acp"
	"rota/agents/claude"
	"rota/agents/codex"
	"rota/agents/command"
	"rota/internal/config"
)

// Every key of a service that is the agent's business reaches the agent.
func TestBuildAgent(t *testing.T) {
	env := map[string]string{"MINE": "1"}
	for _, tt := range []struct {
		service config.Service
		want    agents.Agent
	}{
		{config.Service{Agent: "claude"}, claude.New(claude.Options{})},
		{config.Service{Agent: "claude", Command: []string{"/opt/claude"}, Args: []string{"--verbose"}, Model: "m", BaseURL: "http://g", ConfigDir: "/c", Env: env, Ask: true},
			claude.New(claude.Options{Program: "/opt/claude", Args: []string{"--verbose"}, Model: "m", BaseURL: "http://g", ConfigDir: "/c", Env: env, Ask: true})},
		{config.Service{Agent: "codex", Command: []string{"/opt/codex"}, Args: []string{"-v"}, Model: "m", BaseURL: "http://g/v1", ConfigDir: "/c", Env: env},
			codex.New(codex.Options{Program: "/opt/codex", Args: []string{"-v"}, Model: "m", BaseURL: "http://g/v1", ConfigDir: "/c", Env: env})},
		{config.Service{Agent: "acp", Command: []string{"x"}, Args: []string{"--acp"}, Env: env}, acp.New(acp.Options{Command: []string{"x", "--acp"}, Env: env})},
		{config.Service{Agent: "acp", Command: []string{"x"}, Allow: true}, acp.New(acp.Options{Command: []string{"x"}, Allow: true})},
		{config.Service{Agent: "command", Command: []string{"x"}, Args: []string{"y"}, Env: env}, command.New("x", "y").WithEnv(env)},
	} {
		b, err := buildAgent("one", tt.service)
		if err != nil || !reflect.DeepEqual(b.agent, tt.want) {
			t.Errorf("%+v:\n got %+v, %v\nwant %+v", tt.service, b.agent, err, tt.want)
		}
	}
	if _, err := buildAgent("one", config.Service{Agent: "parrot"}); err == nil {
		t.Error("an unknown agent is built")
	}
}

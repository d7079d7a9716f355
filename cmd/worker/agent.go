package main

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"rota/agents"
	"rota/agents/acp"
	"rota/agents/claude"
	"rota/agents/codex"
	"rota/agents/command"
	"rota/agents/scripted"
	"rota/internal/config"
)

// built is a service's agent with what handlers must know about its kind.
type built struct {
	agent      agents.Agent
	readOnly   bool // its own switches keep reviewer and arbiter from writing
	structured bool // it gives its verdict as structured output
	process    bool // it runs a process, which wants a guard
}

// buildAgent returns the agent of a service.
func buildAgent(name string, s config.Service) (built, error) {
	switch s.Agent {
	case "claude":
		return built{claude.New(claude.Options{
			Program: first(s.Command), Model: s.Model, BaseURL: s.BaseURL, ConfigDir: s.ConfigDir, Args: s.Args, Env: s.Env, Ask: s.Ask,
		}), true, true, true}, nil
	case "codex":
		return built{codex.New(codex.Options{
			Program: first(s.Command), Model: s.Model, BaseURL: s.BaseURL, ConfigDir: s.ConfigDir, Args: s.Args, Env: s.Env,
		}), true, true, true}, nil
	case "acp":
		return built{acp.New(acp.Options{Command: append(slices.Clone(s.Command), s.Args...), Env: s.Env, Allow: s.Allow}), false, false, true}, nil
	case "command":
		return built{command.New(append(slices.Clone(s.Command), s.Args...)...).WithEnv(s.Env), false, false, true}, nil
	case "scripted":
		script, err := readScript(s.Script, name)
		if err != nil {
			return built{}, err
		}
		return built{script, false, true, false}, nil
	}
	return built{}, fmt.Errorf("unknown agent %q", s.Agent)
}

// scripts keeps one play for all services that name the same file, so that a
// rule that matches a number of times counts over all of them.
var scripts sync.Map

func readScript(path, service string) (agents.Agent, error) {
	if path == "" {
		script, err := scripted.Parse("")
		if err != nil {
			return nil, err
		}
		return scripted.New(script, service), nil
	}
	if known, ok := scripts.Load(path); ok {
		return scripted.New(known.(*scripted.Script), service), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	script, err := scripted.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	known, _ := scripts.LoadOrStore(path, script)
	return scripted.New(known.(*scripted.Script), service), nil
}

func first(list []string) string {
	if len(list) > 0 {
		return list[0]
	}
	return ""
}

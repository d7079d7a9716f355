package main

import (
	"path/filepath"
	"testing"

	"rota/credentials"
	"rota/internal/config"
	"rota/internal/doctor"
	"rota/internal/redistest"
)

// A service without its program is told of its logins all the same.
func TestDoctorLooksAtLoginsToo(t *testing.T) {
	cfg := config.Config{
		Services:    map[string]config.Service{"claude": {Agent: "claude", Command: []string{"no-such-program-anywhere"}, Credentials: []string{"work"}}},
		Credentials: map[string]config.Credential{"work": {File: filepath.Join(t.TempDir(), "missing")}},
	}
	logins, err := credentials.New(redistest.Mini(t), loginConfig(cfg))
	if err != nil {
		t.Fatal(err)
	}
	checks := map[string]doctor.Level{}
	for _, f := range agentFindings(t.Context(), cfg, "claude", logins) {
		checks[f.Check] = f.Level
	}
	if checks["service claude"] != doctor.Problem || checks["credential work"] != doctor.Problem {
		t.Errorf("found %v", checks)
	}
}

// Without its program nobody is told that a paired task needs a human.
func TestDoctorLooksForTheEscalation(t *testing.T) {
	found := func(command ...string) (level doctor.Level) {
		for _, f := range hostFindings(config.Config{Workspaces: t.TempDir(), Escalate: command}) {
			if f.Check == "escalate" {
				level = f.Level
			}
		}
		return level
	}
	if found() != "" || found("true", "--loud") != "" {
		t.Errorf("a problem with no command, or with one that is there: %s", found("true"))
	}
	for _, missing := range []string{"no-such-program-anywhere", filepath.Join(t.TempDir(), "mail")} {
		if found(missing) != doctor.Problem {
			t.Errorf("%s is not missed", missing)
		}
	}
}

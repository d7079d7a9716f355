package main

import (
	"path/filepath"
	"testing"

	"rota/internal/config"
	"rota/internal/doctor"
)

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

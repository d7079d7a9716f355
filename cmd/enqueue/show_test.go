package main

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"rota/commands"
	"rota/internal/redistest"
	"rota/turns"
	"rota/workspaces"
)

// A completed owner turn leaves its files behind under a ref: show names it, on
// the host of the workspace.
func TestShowNamesTheResult(t *testing.T) {
	redistest.Each(t, func(t *testing.T, rdb redis.UniversalClient) {
		enqueue := program(t, rdb)
		places := &workspaces.Workspaces{Dir: t.TempDir()}
		t.Setenv("ROTA_WORKSPACES", places.Dir)
		startWorker(t, rdb)
		run := func(args ...string) string {
			t.Helper()
			var out, said bytes.Buffer
			if code := enqueue(t.Context(), &out, &said, args...); code != 0 {
				t.Fatal(args, code, said.String())
			}
			return out.String()
		}
		run("task", "play: done approve done", "--thread", "date", "--wait")
		for _, id := range []string{"date", "date/1"} {
			if text := run("show", id); strings.Contains(text, "refs/rota") || strings.Contains(text, "result") {
				t.Errorf("a result without a workspace:\n%s", text)
			}
		}

		ws, err := places.Prepare(t.Context(), "date", repository(t))
		if err != nil {
			t.Fatal(err)
		}
		for _, turn := range []string{"date/1", "date/3"} {
			writeFile(t, filepath.Join(ws.Path, "notes.txt"), turn)
			if _, err := places.Checkpoint(t.Context(), ws, turn); err != nil {
				t.Fatal(err)
			}
		}
		for id, want := range map[string]string{"date": "refs/rota/date/2", "date/1": "refs/rota/date/1", "date/2": "", "date/3.1": "refs/rota/date/2"} {
			var view struct {
				Ref   string `json:"ref"`
				Turns []struct {
					Ref string `json:"ref"`
				} `json:"turns"`
			}
			if err := json.Unmarshal([]byte(run("show", id, "-o", "json")), &view); err != nil {
				t.Fatal(err)
			}
			if view.Ref != want || id == "date" && (len(view.Turns) != 3 || view.Turns[0].Ref != "refs/rota/date/1" || view.Turns[1].Ref != "") {
				t.Errorf("show %s -o json names %+v, want %q", id, view, want)
			}
			if text := run("show", id); strings.Contains(text, "result   "+want+"\n") != (want != "") {
				t.Errorf("show %s names no %q:\n%s", id, want, text)
			}
		}
	})
}

// repository is a git repository with one commit.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{{"init", "-q"}, {"-c", "user.name=somebody", "-c", "user.email=somebody@example.invalid", "commit", "-q", "--allow-empty", "-m", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

// An attempt that went well after a failed delivery says how it went.
func TestShowSaysHowAnAttemptEnded(t *testing.T) {
	a := commands.AttemptView{ID: "one/1.1", State: turns.Completed, Class: turns.ClassCrash, Error: "exit status 1"}
	turn := commands.TurnView{ID: "one/1", State: turns.Completed, Outcome: turns.Done, Attempts: []commands.AttemptView{a}}
	var out bytes.Buffer
	m := &Main{out: &out}
	m.printThread(&out, commands.ThreadView{Turns: []commands.TurnView{turn}})
	if text := out.String(); strings.Contains(text, "crash") || !strings.Contains(text, "  done\n") {
		t.Error(text)
	}
}

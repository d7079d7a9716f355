package web

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"rota/turns"
)

func TestTheTimelineOfATurn(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	turn := turns.Turn{ID: "fix/1", Thread: "fix", Number: 1, Role: turns.Reviewer, State: turns.Failed, Attempt: 5}
	attempt := func(n int, service string, s turns.State, ended turns.Verb, next string) turns.Attempt {
		return turns.Attempt{ID: turns.AttemptID("fix/1", n), Turn: "fix/1", Number: n, Service: service, State: s, Ended: ended, Next: next,
			Created: now.Add(-time.Hour), Updated: now.Add(-time.Hour + time.Duration(n)*time.Minute)}
	}
	tl := lay([]string{"unused", "b", "a"}, []turns.Turn{turn}, map[string][]turns.Attempt{"fix/1": {
		attempt(1, "a", turns.Delegated, turns.VerbDelegate, "fix/1.2"),
		attempt(2, "gone", turns.Delegated, turns.VerbDelegate, "fix/1.3"),
		attempt(3, "b", turns.Lost, turns.VerbLose, "fix/1.4"),
		attempt(4, "b", turns.Failed, turns.VerbReplace, "fix/1.5"),
		attempt(5, "b", turns.Failed, turns.VerbCompensate, ""),
	}}, now)

	var lanes []string
	for _, l := range tl.Lanes {
		lanes = append(lanes, l.Service)
	}
	if got := strings.Join(lanes, " "); got != "b a gone" {
		t.Errorf("the lanes are %q", got)
	}
	row := tl.Rows[0]
	var bars, arrows []string
	for i, b := range row.Bars {
		bars = append(bars, fmt.Sprintf("%d %s", b.Attempt.Number, b.Kind))
		if b.X+b.W > tl.Width || b.Y+barHeight > row.Height || b.Fill > b.W || b.Fill < 1 {
			t.Errorf("bar %d leaves the drawing: %+v in %d × %d", b.Attempt.Number, b, tl.Width, row.Height)
		}
		if i > 0 && b.Y < row.Bars[i-1].Y+barHeight {
			t.Errorf("bars %d and %d overlap", i, i+1)
		}
	}
	for _, a := range row.Arrows {
		arrows = append(arrows, a.Kind)
	}
	if got := strings.Join(bars, ", "); got != "1 delegated, 2 delegated, 3 lost, 4 failed, 5 dead" {
		t.Errorf("the bars are %q", got)
	}
	if got := strings.Join(arrows, " "); got != "handoff handoff lost next" {
		t.Errorf("the arrows are %q", got)
	}
	if row.Dead == "" || row.Losses != 1 {
		t.Errorf("dead letter %q, %d losses", row.Dead, row.Losses)
	}
}

// Each state looks different, also without colours.
func TestEveryStateHasItsLooks(t *testing.T) {
	seen := map[string]turns.State{}
	for _, s := range turns.States {
		word, mark, kind := looks(turns.Attempt{State: s, Next: "x"})
		if word == "" || mark == "" || kind == "" {
			t.Errorf("%s has no looks: %q %q %q", s, word, mark, kind)
		}
		if other, ok := seen[word]; ok {
			t.Errorf("%s and %s are both called %s", s, other, word)
		}
		seen[word] = s
	}
}

func TestLengthsOfTime(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0ms", 999 * time.Millisecond: "999ms", 1300 * time.Millisecond: "1.3s", 59 * time.Second: "59s",
		61 * time.Second: "1m 01s", time.Hour: "1h 00m", 47*time.Hour + 59*time.Minute: "47h 59m", 50 * time.Hour: "2d 02h",
	} {
		if got := lasted(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

package recording

import (
	"errors"
	"testing"

	"rota/agents"
	"rota/turns"
)

// Table replays every recorded situation of a program and checks it by its row: the
// class of its failure, or "" for a success, which was accepted once, reported its
// session once and left nothing open. A recording without a row fails, and so does a
// row without a recording. session is what the program calls the session of a result.
func Table(t *testing.T, root, program string, rows map[string]turns.Class,
	replay func(t *testing.T, s Situation, heard *Heard) (agents.Result, error), session func(agents.Result) string,
) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range Load(t, root, program) {
		seen[s.Name] = true
		t.Run(s.Name, func(t *testing.T) {
			want, known := rows[s.Name]
			if !known {
				t.Fatal("no row for this recording")
			}
			var heard Heard
			res, err := replay(t, s, &heard)
			Check(t, res, err, want)
			if err == nil && (heard.Accepts != 1 || len(heard.Sessions) != 1 || heard.Sessions[0] != session(res)) {
				t.Errorf("accepted %d times, sessions %v, result's session %q", heard.Accepts, heard.Sessions, res.Session)
			}
			if open := heard.Open(); err == nil && len(open) > 0 {
				t.Errorf("left open: %v", open)
			}
		})
	}
	for name := range rows {
		if !seen[name] {
			t.Errorf("row %s has no recording", name)
		}
	}
}

// Check fails unless a run ended with this class of failure, with a message and no
// result; or, for "", well: with a text and a usage.
func Check(t *testing.T, res agents.Result, err error, want turns.Class) {
	t.Helper()
	if want == "" {
		if err != nil || res.Text == "" || res.Usage.OutputTokens == 0 {
			t.Fatalf("want a success, got %+v, %v", res, err)
		}
		return
	}
	var f *turns.Failure
	if !errors.As(err, &f) || f.Class != want {
		t.Fatalf("want %s, got %+v, %v", want, res, err)
	}
	if f.Message == "" {
		t.Error("a failure without a message")
	}
	if res.Text != "" || res.Outcome != "" {
		t.Errorf("a failed run has a result: %+v", res)
	}
}

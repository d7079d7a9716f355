package turns

import (
	"strings"
	"testing"
)

func TestThreadNames(t *testing.T) {
	for _, name := range []string{"a", "fix-login", "v1.2_rc", "9", strings.Repeat("x", 64), "fix-login~2", "a~1000000"} {
		if err := CheckThread(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", "A", "fix login", "fix/login", "a#1", "a:b", "a{b}", "ä", "a\n", "a\x00", strings.Repeat("x", 65),
		"~2", "a~", "a~0", "a~-1", "a~02", "a~2~3", "a~x", "a~ 2", "a~99999999999999999999", "a\xff",
	} {
		if err := CheckThread(name); err == nil {
			t.Errorf("%q is accepted", name)
		} else if strings.ContainsAny(err.Error(), "\n\x00") || len(err.Error()) > 300 {
			t.Errorf("%q: error text %q", name, err)
		}
	}
	if Root("fix~2") != "fix" || Root("fix") != "fix" {
		t.Error("root of a child thread")
	}
}

func TestServiceNames(t *testing.T) {
	for _, name := range []string{"claude", "codex-main", "9"} {
		if err := CheckService(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "Claude", "codex.main", "codex_main", "a b", "a,b", "codex-main.control", strings.Repeat("x", 65)} {
		if CheckService(name) == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

func TestIDsRoundTrip(t *testing.T) {
	for _, thread := range []string{"fix-login", "v1.2", "a.9", "a~7", "9"} {
		for _, n := range []int{1, 2, 10, 123456} {
			turn := TurnID(thread, n)
			if got, m, err := ParseTurn(turn); err != nil || got != thread || m != n {
				t.Errorf("ParseTurn(%q) = %q, %d, %v", turn, got, m, err)
			}
			attempt := AttemptID(turn, n+1)
			if got, m, err := ParseAttempt(attempt); err != nil || got != turn || m != n+1 {
				t.Errorf("ParseAttempt(%q) = %q, %d, %v", attempt, got, m, err)
			}
			for _, id := range []string{thread, turn, attempt, PairedID(thread, n)} {
				if ThreadOf(id) != thread {
					t.Errorf("ThreadOf(%q) = %q", id, ThreadOf(id))
				}
			}
		}
	}
}

func TestMalformedIDs(t *testing.T) {
	for _, id := range []string{"", "a", "a/", "a/0", "a/01", "a/+1", "a/-1", "a/1.1", "A/1", "/1", "a/1/2", "a/x", "a/1 ", "a#1"} {
		if thread, n, err := ParseTurn(id); err == nil || thread != "" || n != 0 {
			t.Errorf("ParseTurn(%q) = %q, %d, %v", id, thread, n, err)
		}
	}
	for _, id := range []string{"", "a", "a/1", "a.b/1", "a/1.", "a/1.0", "a/1.01", "a/1.1+2", "a/1.x", "a/.1", "a/1.1.1", "A/1.1"} {
		if turn, n, err := ParseAttempt(id); err == nil || turn != "" || n != 0 {
			t.Errorf("ParseAttempt(%q) = %q, %d, %v", id, turn, n, err)
		}
	}
}

// Whatever parses is spelled in one way only, so that an id is a key.
func FuzzParseIDs(f *testing.F) {
	for _, seed := range []string{"fix-login/3.2", "a.b/1", "a~2/1.1", "a/1.2+3", "a/0.1", "é/1.1", "a/1\n.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if thread, n, err := ParseTurn(id); err == nil && (TurnID(thread, n) != id || CheckThread(thread) != nil || ThreadOf(id) != thread) {
			t.Errorf("turn %q parses as %q, %d", id, thread, n)
		}
		turn, n, err := ParseAttempt(id)
		if err != nil {
			return
		}
		if AttemptID(turn, n) != id {
			t.Errorf("attempt %q parses as %q, %d", id, turn, n)
		}
		if _, _, err := ParseTurn(turn); err != nil {
			t.Errorf("attempt %q: its turn %q: %v", id, turn, err)
		}
		if _, _, err := ParseTurn(id); err == nil {
			t.Errorf("%q is a turn and an attempt", id)
		}
	})
}

func TestTokensDiffer(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		token := NewToken()
		if len(token) != 16 || seen[token] || strings.Trim(token, "0123456789abcdef") != "" {
			t.Fatalf("token %q", token)
		}
		seen[token] = true
	}
}

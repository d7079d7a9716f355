//go:build agents && linux

package integration

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"rota/agents/mockapi"
	"rota/turns"
)

// signIns plays the server that refreshes a sign-in. A refresh token is good once.
type signIns struct {
	mock *mockapi.Server

	mu      sync.Mutex
	current int // number of the tokens that were given out last
	reused  int // refreshes with a token that was used already
}

// issue returns the n-th tokens of the sign-in, which the API knows from now on.
func (s *signIns) issue(n int, expires time.Time) map[string]string {
	claims, err := json.Marshal(map[string]any{
		"exp": expires.Unix(), "n": n, "email": "nobody@example.com",
		"https://api.openai.com/auth": map[string]string{"chatgpt_account_id": "acct-fake", "chatgpt_user_id": "user-fake", "chatgpt_plan_type": "plus"},
	})
	if err != nil {
		panic(err) // strings and numbers only
	}
	part := base64.RawURLEncoding.EncodeToString
	token := part([]byte(`{"alg":"none"}`)) + "." + part(claims) + "." + part([]byte("fake"))
	if expires.After(time.Now()) {
		s.mock.Set(token, mockapi.Scenario{})
	}
	return map[string]string{"id_token": token, "access_token": token, "refresh_token": fmt.Sprintf("fake-refresh-%d", n)}
}

func (s *signIns) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Token string `json:"refresh_token"`
	}
	_ = json.NewDecoder(r.Body).Decode(&ask)
	time.Sleep(300 * time.Millisecond) // a network's time, in which others come
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if ask.Token != fmt.Sprintf("fake-refresh-%d", s.current) {
		s.reused++
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":{"code":"refresh_token_reused","message":"refresh token was already used"}}`)
		return
	}
	s.current++
	_ = json.NewEncoder(w).Encode(s.issue(s.current, time.Now().Add(time.Hour)))
}

// Many runs of Codex share one sign-in file whose token has expired: each turn
// ends well, in its role, whoever comes first to the refresh.
func TestRealSharedSignIn(t *testing.T) {
	mock := mockapi.Start(map[string]mockapi.Scenario{"": {Fault: mockapi.Expired}})
	defer mock.Close()
	s := &signIns{mock: mock}
	server := httptest.NewServer(s)
	defer server.Close()

	r := newRig(t, setup{
		roles: map[string][]string{"owner": {"codex-main"}}, services: map[string]string{"codex-main": "concurrency: 6"},
		limits: "{lease: 10s, start: 60s, silence: 60s, run: 5m, grace: 1s}",
	})
	home := filepath.Join(r.dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	file, err := json.Marshal(map[string]any{
		"auth_mode": "chatgpt", "OPENAI_API_KEY": nil, "last_refresh": time.Now().Add(-time.Hour).UTC().Format(time.RFC3339),
		"tokens": withAccount(s.issue(0, time.Now().Add(-time.Minute))),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.write(filepath.Join(home, "auth.json"), string(file), 0o600)
	wrapped := filepath.Join(r.dir, "codex")
	r.write(wrapped, fmt.Sprintf("#!/bin/sh\nCODEX_REFRESH_TOKEN_URL_OVERRIDE=%s/oauth/token exec %s \"$@\"\n", server.URL, realPrograms(t)["codex"]), 0o700)
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^(  codex-main: \{)agent: command, command: \[[^\]]*\]`)
	text = line.ReplaceAll(text, fmt.Appendf(nil, "${1}agent: codex, command: [%q], model: gpt-5.5, base_url: %q, config_dir: home, "+
		"args: [--disable, enable_request_compression]", wrapped, mock.URL+"/v1"))
	r.write(r.file, string(text), 0o600)

	const n = 6
	for i := range n {
		r.lone(fmt.Sprintf("t%d", i), turns.Owner)
	}
	r.startAll()
	failures := 0
	for i := range n {
		id := fmt.Sprintf("t%d/1", i)
		r.slowly("the end of "+id, func() bool { return r.turn(id).State.FinalForTurn() })
		if u := r.turn(id); u.State != turns.Completed || u.Role != turns.Owner {
			t.Errorf("%s %s: %s %s", id, u.State, u.Class, u.Error)
		}
		for _, a := range r.attempts(id) {
			if a.Class != "" {
				failures++
				t.Logf("%s: %s: %s", a.ID, a.Class, a.Error)
			}
		}
	}
	t.Logf("%d runs, %d refreshes, %d with a token that was used already, %d runs failed on the way", n, s.current, s.reused, failures)
}

func withAccount(tokens map[string]string) map[string]string {
	tokens["account_id"] = "acct-fake"
	return tokens
}

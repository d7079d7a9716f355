package mockapi

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func ask(t *testing.T, s *Server, path, key, body string) (status int, answer string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	return r.StatusCode, string(raw), err
}

// TestStepsByLogin: each login has its own scenario and goes through its steps;
// the last one is said again.
func TestStepsByLogin(t *testing.T) {
	s := Start(map[string]Scenario{
		"a": {Steps: []Step{{Write: "/w/f", Content: "x\n"}, {Text: "fine"}}},
		"b": {Fault: BadKey},
		"c": {Fault: UsageLimit, After: 1},
	})
	defer s.Close()
	const claude, codex = "/v1/messages", "/v1/responses"
	tests := []struct {
		key, path string
		status    int
		has       string
	}{
		{"a", claude, 200, `"tool_use"`}, {"a", codex, 200, "fine"}, {"a", claude, 200, "fine"},
		{"b", claude, 401, "authentication_error"}, {"b", codex, 401, "invalid_api_key"},
		{"c", codex, 200, "response.completed"}, {"c", codex, 429, "usage_limit_reached"},
		{"other", claude, 200, "DONE"},
	}
	for _, tt := range tests {
		status, answer, err := ask(t, s, tt.path, tt.key, `{"model":"m","stream":true}`)
		if err != nil || status != tt.status || !strings.Contains(answer, tt.has) {
			t.Errorf("%s %s: %d %s, %v", tt.key, tt.path, status, answer, err)
		}
	}
	if got := len(s.Requests()); got != len(tests) {
		t.Errorf("%d requests noted", got)
	}
}

func TestBrokenConnections(t *testing.T) {
	s := Start(map[string]Scenario{"drop": {Fault: Drop}, "cut": {Fault: Cut}, "early": {Fault: EndsEarly}})
	defer s.Close()
	for _, path := range []string{"/v1/messages", "/v1/responses"} {
		for _, key := range []string{"drop", "cut"} {
			if _, answer, err := ask(t, s, path, key, `{"stream":true}`); err == nil {
				t.Errorf("%s %s: a whole answer %q", key, path, answer)
			}
		}
		if _, answer, err := ask(t, s, path, "early", `{"stream":true}`); err != nil || strings.Contains(answer, "stop_reason\":\"end_turn") || strings.Contains(answer, "response.completed") {
			t.Errorf("%s: %q, %v", path, answer, err)
		}
	}
}

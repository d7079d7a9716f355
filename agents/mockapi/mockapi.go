// Package mockapi plays the APIs of Anthropic (messages) and OpenAI (responses)
// on the loopback, so that the real agent programs can be run without a login
// and without a network. What happens is a Scenario, chosen by the key that a
// request carries.
package mockapi

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// A Step is what the model does with one request: it says a text, calls a tool,
// or gives a verdict. A request after the last step gets the last one again.
type Step struct {
	Text string // what it says; beside a tool call, what it says first

	// A call of a tool by each program's own name for it.
	Shell   string // a command line
	Write   string // absolute path of a file to write Content to
	Content string
	Ask     string // a question to the user; Claude Code has a tool for it

	Outcome string // a structured verdict with Text
}

// Scenario is what a login meets.
type Scenario struct {
	Fault Fault  // the empty one answers
	Steps []Step // without one it says "DONE"
	After int    // the fault begins after this many answered requests
}

// Request is a request the server got.
type Request struct {
	Path string
	Key  string // the login it carried
	Body string
}

// Server is a running mock. Close ends it.
type Server struct {
	// URL is the base URL for Claude Code; Codex wants it with /v1.
	URL string

	http *httptest.Server
	gone chan struct{}

	mu        sync.Mutex
	scenarios map[string]Scenario
	answered  map[string]int
	requests  []Request
}

// Start starts a mock on a free port of the loopback. A login without a
// scenario of its own meets the one of the empty key.
func Start(scenarios map[string]Scenario) *Server {
	s := &Server{scenarios: map[string]Scenario{}, answered: map[string]int{}, gone: make(chan struct{})}
	for key, sc := range scenarios {
		s.scenarios[key] = sc
	}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL
	return s
}

// Close ends the server and every request that hangs in it.
func (s *Server) Close() {
	close(s.gone)
	s.http.CloseClientConnections()
	s.http.Close()
}

// Set gives a login another scenario, from its first step.
func (s *Server) Set(key string, sc Scenario) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scenarios[key], s.answered[key] = sc, 0
}

// Requests returns the requests so far that asked a model.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Header.Get("Upgrade") != "":
		http.Error(w, "no websocket here", http.StatusUpgradeRequired)
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/messages"):
		s.turn(w, r, anthropic{})
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/responses"):
		s.turn(w, r, openai{})
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/count_tokens"):
		writeJSON(w, http.StatusOK, object{"input_tokens": 123})
	default:
		writeJSON(w, http.StatusNotFound, object{"error": object{"type": "not_found_error", "message": "not found"}})
	}
}

// api is one of the two dialects.
type api interface {
	// answer answers a request with a step.
	answer(w http.ResponseWriter, body request, step Step, fault Fault)
	// refuse answers with an error of the service.
	refuse(w http.ResponseWriter, fault Fault)
}

// request is what the mock looks at in a request.
type request struct {
	Model  string `json:"model"`
	Stream bool   `json:"stream"`
	Tools  []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

func (r request) offers(tool string) bool {
	for _, t := range r.Tools {
		if t.Name == tool {
			return true
		}
	}
	return false
}

func (s *Server) turn(w http.ResponseWriter, r *http.Request, a api) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var body request
	if err := json.Unmarshal(raw, &body); err != nil {
		writeJSON(w, http.StatusBadRequest, object{"error": object{"type": "invalid_request_error", "message": err.Error()}})
		return
	}
	step, fault := s.next(r, raw, len(body.Tools) == 0 && bytes.Contains(raw, []byte(`haiku`)))
	switch fault.kind() {
	case hang:
		s.wait(r)
	case broken:
		abort()
	case refused:
		a.refuse(w, fault)
	default:
		a.answer(w, body, step, fault)
		switch fault {
		case StallMid:
			s.wait(r)
		case Cut:
			abort()
		}
	}
}

// next notes a request and says what it meets.
func (s *Server) next(r *http.Request, raw []byte, aside bool) (Step, Fault) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if key == "" {
		key = r.Header.Get("X-Api-Key")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, Request{Path: r.URL.Path, Key: key, Body: string(raw)})
	sc, ok := s.scenarios[key]
	if !ok {
		sc = s.scenarios[""]
	}
	n := s.answered[key]
	if aside {
		return Step{Text: "a title"}, sc.Fault
	}
	if sc.Fault != "" && n >= sc.After {
		return last(sc.Steps, n), sc.Fault
	}
	s.answered[key]++
	return last(sc.Steps, n), ""
}

func last(steps []Step, n int) Step {
	if len(steps) == 0 {
		return Step{Text: "DONE"}
	}
	return steps[min(n, len(steps)-1)]
}

// wait holds a request until its client or the server goes.
func (s *Server) wait(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.gone:
	}
}

type object map[string]any

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}

// abort closes the connection without an answer.
func abort() {
	panic(http.ErrAbortHandler)
}

// Package agents is how rota speaks to the programs that carry out runs: Claude
// Code, Codex, any program of the Agent Client Protocol, any executable
// ("command") and the deterministic "scripted" agent of the tests and the demo.
//
// An Agent carries out one run and says what came of it: a Result, or an error
// that is a *turns.Failure with a class. It decides nothing: whether to try
// again, where, and what the result means for the work is decided elsewhere.
//
// Every agent passes the suite in agents/agenttest.
package agents

import (
	"context"
	"encoding/json"
	"time"

	"rota/turns"
)

// Agent carries out runs.
type Agent interface {
	// Kind is the agent's name in the configuration: claude, codex, acp, command
	// or scripted.
	Kind() string

	// Run carries out one run and returns when the agent's whole process tree is
	// gone. When ctx ends, the tree is killed at once and Run returns the cause of
	// ctx; what the agent printed after that counts for nothing. Any other error
	// is or wraps a *turns.Failure. Nothing the agent printed before its own
	// success event is a result.
	Run(ctx context.Context, task Task, report Reporter) (Result, error)

	// Check looks for what the agent needs on this machine (its program, its
	// version) without starting a turn, for doctor. The error says what to do.
	Check(ctx context.Context) error
}

// Task is everything an agent may know about the run it carries out.
type Task struct {
	Thread    string
	Turn      string
	Attempt   string
	Role      turns.Role
	Intent    turns.Intent
	Fence     int64
	Prompt    string // goes in by standard input, never by argument
	Workspace string // absolute path of the working folder
	Session   string // to resume; empty for a fresh one
	Previous  string // what the previous attempt did, for the prompt's protocol field; may be empty

	// WantVerdict says that the turn needs an outcome. Outcomes lists the ones
	// this role may give; an agent with structured output asks for one of them.
	WantVerdict bool
	Outcomes    []turns.Outcome

	// ReadOnly says that the agent's own switches must keep it from changing the
	// workspace: true for reviewer and arbiter.
	ReadOnly bool

	// Login is the one credential of this run: environment variables that only
	// this agent gets. Nil means the program's own login.
	Login map[string]string

	// Silence bounds the time without a word from a running agent; 0 means no
	// bound. Start bounds the time until the prompt is accepted; the caller
	// enforces it too.
	Start   time.Duration
	Silence time.Duration

	// Lease ties the agent's guard to the run's lease. Nil: no guard (scripted
	// agents, tests), the process tree still ends with the run.
	Lease *Lease

	// Controls brings a person's requests to the live run; nil for none. An agent
	// that can't carry one out answers so in Control.Done.
	Controls <-chan Control
}

// Lease is what a guard knows about the lease of the run it guards.
type Lease struct {
	// Until returns the end of the lease, counted from before the last good
	// renewal was sent. It moves on with each renewal.
	Until func() time.Time
	// Silence is how long the guard waits for a heartbeat of its worker: lease/3.
	Silence time.Duration
	// GiveBack is opaque to the guard: it is handed to the give-back function of
	// the guard's process when the worker died, after the process tree is gone.
	GiveBack json.RawMessage
	// Store names the deployment. It is put into the agent's environment, and a
	// sweep of left-over agents kills only what carries its own.
	Store string
	// Settled is closed when the run's last write is done: until then the guard
	// stays and gives the run back should the worker die, also after the agent's
	// end. Nil: the guard leaves as soon as the process tree is gone.
	Settled <-chan struct{}
}

// ControlKind is what a person asks of a live run.
type ControlKind string

// The kinds of control. A cancel is no control: it ends ctx.
const (
	Interrupt ControlKind = "interrupt" // stop, and keep the text so far
	Steer     ControlKind = "steer"     // Text is to be taken into account
	Respond   ControlKind = "respond"   // Text answers the pending request Item
)

// Control is one request to a live run.
type Control struct {
	Kind ControlKind
	ID   string
	Text string
	Item string
	// Done is called once: nil when the agent has taken the request.
	Done func(error)
}

// Reporter hears what happens in a run while it happens. Its methods may be
// called from one goroutine at a time; an error means that the run is over (its
// fence is lost) and the agent should be killed.
type Reporter interface {
	// Accepted says that the agent has accepted the prompt: starting becomes
	// running. Called at most once; an agent that succeeds must have called it.
	Accepted() error
	// Session names the agent's session, from the agent's own start event.
	Session(id string)
	// Progress says how far the run came, with the last words of the agent for
	// people who follow; text may be empty.
	Progress(level turns.Progress, text string)
	// Item opens or closes an item; see package turns.
	Item(item turns.Item) error
}

// Result is what a run came to. It exists only when the program said itself
// that it succeeded, or when it was interrupted (Interrupted).
type Result struct {
	Text        string
	Outcome     turns.Outcome // empty when the agent gave none; the verdict line of Text is parsed elsewhere
	Session     string
	Usage       Usage
	Model       string // what answered, when the program says so
	Interrupted bool   // ended by a Control of kind Interrupt, Text is what there was
}

// Usage is what a run cost. Zero fields are unknown.
type Usage struct {
	InputTokens  int64   `json:"input_tokens,omitempty"`
	CachedTokens int64   `json:"cached_tokens,omitempty"`
	OutputTokens int64   `json:"output_tokens,omitempty"`
	CostUSD      float64 `json:"cost_usd,omitempty"` // the program's own estimate
}

package guard

import (
	"encoding/json"
	"time"
)

// order is what a worker tells its guard.
type order struct {
	Launch *launch `json:"launch,omitempty"`
	Until  int64   `json:"until,omitempty"`  // the lease's end, in ns of CLOCK_BOOTTIME
	Signal int     `json:"signal,omitempty"` // for the agent's process group
	Kill   bool    `json:"kill,omitempty"`   // end the tree
	Bye    bool    `json:"bye,omitempty"`    // the run is settled, leave
}

// launch is the first order.
type launch struct {
	Path     string          `json:"path"`
	Argv     []string        `json:"argv"`
	Dir      string          `json:"dir"`
	Env      []string        `json:"env"`
	Token    string          `json:"token"`
	Silence  time.Duration   `json:"silence"`
	GiveBack json.RawMessage `json:"give_back,omitempty"`
}

// event names a report.
type event string

const (
	evStarted event = "started"
	evRefused event = "refused" // the lease was over before the launch
	evFailed  event = "failed"  // the program could not be started
	evExited  event = "exited"
	evGone    event = "gone"
)

// report is what a guard tells its worker.
type report struct {
	Event  event  `json:"event"`
	PID    int    `json:"pid,omitempty"`
	Code   int    `json:"code,omitempty"`
	Signal int    `json:"signal,omitempty"`
	Errno  int    `json:"errno,omitempty"`
	Reason Reason `json:"reason,omitempty"`
	Left   int    `json:"left,omitempty"`
}

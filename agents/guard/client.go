package guard

import (
	"errors"
	"os"

	"rota/agents"
)

// ErrLeaseOver says that the agent was not launched because the run's lease had ended.
var ErrLeaseOver = errors.New("the lease ended before the agent was launched")

// Launch is what Start needs. The files are the agent's; the caller closes its
// own copies after Start.
type Launch struct {
	Path  string
	Argv  []string
	Dir   string
	Env   []string
	Token string // marks the tree in KeeperVar; unique
	Lease *agents.Lease

	Stdin, Stdout, Stderr *os.File
}

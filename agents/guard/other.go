//go:build !linux

package guard

import (
	"context"
	"errors"
	"os"
	"strconv"
)

// Main is the guard; there is none on this system.
func Main(GiveBack) int { return 1 }

// Start answers an error: there is no guard on this system.
func Start(Launch) (*Client, error) { return nil, errors.ErrUnsupported }

// Client is the worker's side of a guard.
type Client struct{}

func (*Client) PID() int   { return 0 }
func (*Client) Interrupt() {}
func (*Client) Kill()      {}
func (*Client) Wait() End  { return End{Code: -1, Reason: GuardDied} }

// SweepLeftovers finds nothing on this system.
func SweepLeftovers(context.Context, string) (int, error) { return 0, nil }

// KillMarked finds nothing on this system.
func KillMarked(context.Context, string) (int, error) { return 0, nil }

// KillBelow finds nothing on this system.
func KillBelow(int) (int, error) { return 0, nil }

// Keeper returns the value of KeeperVar for agents that this process ends.
func Keeper(token string) string { return strconv.Itoa(os.Getpid()) + "::" + token }

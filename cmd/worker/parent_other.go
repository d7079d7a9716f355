//go:build !linux

package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent keeps a child out of the terminal's signals; only Linux can tie
// its life to ours.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

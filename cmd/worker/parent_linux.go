package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends a child when this process dies, whatever it dies of.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
}

//go:build !linux

package process

import "syscall"

// ownSession makes the program the leader of a session and a process group.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

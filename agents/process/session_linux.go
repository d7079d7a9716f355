package process

import "syscall"

// ownSession makes the program the leader of a session and a process group, and
// ties its life to the worker's.
func ownSession() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}

package redistest

import "syscall"

// dieWithParent has the kernel kill the program when its starter dies, so that
// a killed test leaves no server behind.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

//go:build !linux

package redistest

import "syscall"

// dieWithParent is Linux's; elsewhere only the clean-up of the test ends it.
func dieWithParent() *syscall.SysProcAttr { return nil }

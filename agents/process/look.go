package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"rota/agents/guard"
	"rota/turns"
)

// Look finds a program as Start would: a name without a slash in the folders of
// path, another one relative to dir. The error is a *turns.Failure of class
// config that says what to do.
func Look(program, dir, path string) (string, error) {
	if program == "" {
		return "", turns.Fail(turns.ClassConfig, "no program to start: name one in the service's command")
	}
	if strings.Contains(program, "/") {
		if !filepath.IsAbs(program) {
			program = filepath.Join(dir, program)
		}
		if err := executable(program); err != nil {
			return "", turns.Fail(turns.ClassConfig, "program %s: %v; correct its path or make it executable", program, reason(err))
		}
		return program, nil
	}
	for _, folder := range filepath.SplitList(path) {
		if full := filepath.Join(folder, program); filepath.IsAbs(folder) && executable(full) == nil {
			return full, nil
		}
	}
	return "", turns.Fail(turns.ClassConfig, "program %s is not in the PATH of the worker; install it or give its full path", program)
}

func executable(file string) error {
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return errors.New("is a folder")
	}
	if st.Mode()&0o111 == 0 {
		return fs.ErrPermission
	}
	return nil
}

func reason(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

func checkDir(dir string) error {
	st, err := os.Stat(dir)
	if err == nil && !st.IsDir() {
		err = errors.New("is no folder")
	}
	if err != nil {
		return turns.Fail(turns.ClassConfig, "working folder %s: %v; workspaces must be at the same place for every worker of a thread", dir, reason(err))
	}
	return nil
}

// startFailure classifies why a program could not be started: what another try
// may help is crash, the rest config.
func startFailure(program string, err error) error {
	if errors.Is(err, guard.ErrLeaseOver) {
		return turns.Fail(turns.ClassLost, "%v", err)
	}
	class, hint := turns.ClassCrash, ""
	switch e, _ := errors.AsType[syscall.Errno](err); e {
	case syscall.ENOENT, syscall.ENOTDIR:
		class, hint = turns.ClassConfig, "; is the interpreter of its first line installed?"
	case syscall.ENOEXEC:
		class, hint = turns.ClassConfig, "; a script needs a first line like #!/bin/sh"
	case syscall.EACCES, syscall.EPERM, syscall.E2BIG, syscall.EINVAL, syscall.ELOOP:
		class = turns.ClassConfig
	}
	return turns.Fail(class, "start %s: %s%s", program, strings.TrimPrefix(fmt.Sprint(reason(err)), "start "+program+": "), hint)
}

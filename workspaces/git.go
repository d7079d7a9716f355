package workspaces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// hardened switches off everything by which a repository's configuration could
// start a program, reach a network or change what the working files are.
var hardened = []string{
	"core.hooksPath=/dev/null",
	"core.fsmonitor=false",
	"core.untrackedCache=false",
	"core.splitIndex=false",
	"core.sparseCheckout=false",
	"core.attributesFile=/dev/null",
	"core.excludesFile=/dev/null",
	"core.pager=cat",
	"core.editor=false",
	"core.askPass=false",
	"core.sshCommand=false",
	"core.gitProxy=false",
	"core.alternateRefsCommand=false",
	"core.trustctime=true",
	"core.checkStat=default",
	"core.fileMode=true",
	"core.symlinks=true",
	"core.ignoreCase=false",
	"core.protectNTFS=false",
	"core.protectHFS=false",
	"credential.helper=",
	"commit.gpgSign=false",
	"gpg.program=false",
	"submodule.recurse=false",
	"protocol.allow=never",
	"gc.auto=0",
	"maintenance.auto=false",
}

// author stands in rota's own commits.
const (
	authorName  = "rota"
	authorEmail = "rota@localhost"
)

// gitError is a git command that failed.
type gitError struct {
	verb   string
	err    error
	stderr string
}

func (e *gitError) Error() string {
	if e.stderr == "" {
		return fmt.Sprintf("git %s: %v", e.verb, e.err)
	}
	return fmt.Sprintf("git %s: %s", e.verb, e.stderr)
}

func (e *gitError) Unwrap() error { return e.err }

// call is one git command.
type call struct {
	dir   string   // working folder
	env   []string // added to environment
	stdin io.Reader
	locks []*os.File // git holds them too, so that they are not free while git outlives a killed worker
	args  []string
}

// run runs git without a shell, a prompt or a word of the user's settings, and
// returns its standard output. When ctx ends, git and its children are killed.
func (c call) run(ctx context.Context) (string, error) {
	var args []string
	for _, setting := range hardened {
		args = append(args, "-c", setting)
	}
	cmd := exec.CommandContext(ctx, "git", append(args, c.args...)...)
	cmd.Dir = c.dir
	cmd.Stdin = c.stdin
	cmd.Env = append(environment(), c.env...)
	cmd.ExtraFiles = c.locks
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("git %s: %w", c.args[0], context.Cause(ctx))
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("git is not installed on this host: %w", err)
	}
	if err != nil {
		return "", &gitError{verb: c.args[0], err: err, stderr: oneLine(stderr.String())}
	}
	return stdout.String(), nil
}

// environment is built from nothing, so that no GIT_ variable of the worker counts.
func environment() []string {
	env := []string{
		"HOME=/nonexistent",
		"LC_ALL=C",
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ALLOW_PROTOCOL=",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_LITERAL_PATHSPECS=1",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_AUTHOR_NAME=" + authorName, "GIT_AUTHOR_EMAIL=" + authorEmail,
		"GIT_COMMITTER_NAME=" + authorName, "GIT_COMMITTER_EMAIL=" + authorEmail,
	}
	for _, name := range []string{"PATH", "TMPDIR", "TZ"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// gitIn runs git in a folder and lets it find the repository.
func gitIn(ctx context.Context, dir string, args ...string) (string, error) {
	return call{dir: dir, args: args}.run(ctx)
}

// gitOf runs git on the source's repository, without a working folder.
func (p place) gitOf(ctx context.Context, rec record, args ...string) (string, error) {
	return call{dir: rec.Common, env: []string{"GIT_DIR=" + rec.Common}, locks: p.locks, args: args}.run(ctx)
}

// found returns the answer to a quiet question. Git says no with status 1, which
// is nothing found; every other failure is one.
func found(out string, err error) (string, error) {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return "", nil
	}
	return line(out), err
}

// isNoRepository reports whether git failed because dir lies in no repository.
// Without git on the host, a folder without .git above it is none either.
func isNoRepository(err error, dir string) bool {
	if failed, ok := errors.AsType[*gitError](err); ok {
		return strings.Contains(failed.stderr, "not a git repository (or any")
	}
	if !errors.Is(err, exec.ErrNotFound) {
		return false
	}
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return false
		}
		up := filepath.Dir(dir)
		if up == dir {
			return true
		}
		dir = up
	}
}

func line(out string) string { return strings.TrimSuffix(out, "\n") }

// oneLine joins what git said to one line of bounded length.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 400 {
		s = strings.ToValidUTF8(s[:400], "") + "…"
	}
	return s
}

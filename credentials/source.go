package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// Source says where a login is; exactly one of Env, File and Command is set.
type Source struct {
	Env     string   // name of an environment variable of the worker
	File    string   // only its owner may have access to it
	Command []string // its standard output is the login; run without a shell

	// Variable is the variable that a token goes into, if not the one that the
	// kind of agent expects. A login that is a JSON object names its own.
	Variable string
	// Organisation groups logins that share an organisation's limits; empty: alone.
	Organisation string
}

const (
	maxLogin       = 64 << 10
	commandTimeout = 30 * time.Second
)

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// check returns what is wrong with a source.
func (s Source) check() error {
	set := 0
	for _, given := range []bool{s.Env != "", s.File != "", len(s.Command) > 0} {
		if given {
			set++
		}
	}
	if set != 1 {
		return fmt.Errorf("exactly one of env, file and command is needed, there are %d", set)
	}
	if s.Env != "" && !variableName.MatchString(s.Env) {
		return errors.New("env wants the name of a variable, not its value")
	}
	if s.Variable != "" && !variableName.MatchString(s.Variable) {
		return errors.New("variable wants the name of a variable")
	}
	return nil
}

// read returns the login's text. No error holds any of it.
func (s Source) read(ctx context.Context) (string, error) {
	var text string
	var err error
	switch {
	case s.Env != "":
		text = os.Getenv(s.Env)
		if text == "" {
			err = fmt.Errorf("the environment variable %s is not set for this worker", s.Env)
		}
	case s.File != "":
		text, err = readPrivate(s.File)
	default:
		text, err = output(ctx, s.Command)
	}
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return "", errors.New("it is empty")
	}
	return text, nil
}

// readPrivate reads a file that nobody but its owner may read or write.
func readPrivate(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		path = filepath.Join(home, rest)
	}
	// A fifo must not keep the worker waiting.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("others have access to %s; chmod 600 it", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxLogin+1))
	if err != nil {
		return "", err
	}
	if len(text) > maxLogin {
		return "", fmt.Errorf("%s is larger than %d bytes, so it is no login", path, maxLogin)
	}
	return string(text), nil
}

// output runs a command and returns what it prints. What it says on standard
// error is dropped: it may hold the login.
func output(ctx context.Context, command []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bounded
	cmd.Stdout = &out
	err := cmd.Run()
	name := filepath.Base(command[0])
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s did not print the login in time: %w", name, context.Cause(ctx))
	case out.over:
		return "", fmt.Errorf("%s printed more than %d bytes, so it is no login", name, maxLogin)
	case err != nil:
		return "", fmt.Errorf("%s failed: %w; run it by hand to see why", name, err)
	}
	return string(out.text), nil
}

// bounded keeps at most maxLogin bytes. It embeds no buffer, whose ReadFrom
// would go past Write.
type bounded struct {
	text []byte
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.over = b.over || len(b.text)+len(p) > maxLogin; !b.over {
		b.text = append(b.text, p...)
	}
	return len(p), nil
}

// variables turns a login's text into the variables of an agent. No error holds
// any of it.
func variables(text, kind, variable string) (map[string]string, error) {
	if strings.HasPrefix(text, "{") {
		return parseVariables(text)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return nil, errors.New("it is neither one token nor a JSON object of variables")
	}
	switch {
	case kind == "command" || kind == "acp" || kind == "scripted":
		env := map[string]string{"ROTA_CREDENTIAL": text}
		if variable != "" {
			env[variable] = text
		}
		return env, nil
	case variable != "":
		return map[string]string{variable: text}, nil
	case kind == "codex":
		return map[string]string{"CODEX_API_KEY": text}, nil
	case kind == "claude" && strings.HasPrefix(text, "sk-ant-oat"):
		return map[string]string{"CLAUDE_CODE_OAUTH_TOKEN": text}, nil
	case kind == "claude":
		return map[string]string{"ANTHROPIC_API_KEY": text}, nil
	}
	return nil, fmt.Errorf("agent %q names no variable for a token; set variable", kind)
}

// reserved are variables that decide what runs and where; no login sets them.
var reserved = map[string]bool{"PATH": true, "HOME": true, "SHELL": true, "TMPDIR": true, "BASH_ENV": true, "ENV": true, "NODE_OPTIONS": true, "IFS": true}

func parseVariables(text string) (map[string]string, error) {
	var env map[string]string
	if err := json.Unmarshal([]byte(text), &env); err != nil || len(env) == 0 {
		// The JSON error could quote the login.
		return nil, errors.New("it is no JSON object of variables and their texts")
	}
	for name, value := range env {
		switch {
		case !variableName.MatchString(name):
			return nil, errors.New("one of its names is no name of a variable")
		case reserved[name], strings.HasPrefix(name, "LD_"), strings.HasPrefix(name, "ROTA_") && name != "ROTA_CREDENTIAL":
			return nil, fmt.Errorf("it must not set %s", name)
		case strings.ContainsRune(value, 0):
			return nil, fmt.Errorf("its %s holds a zero byte", name)
		}
	}
	return env, nil
}

package redistest

import (
	"context"
	_ "embed"
	"regexp"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

//go:embed keycheck.lua
var keyCheck string

// prologue is keycheck.lua on one line, so that the line numbers in a script's
// errors stay right.
var prologue = sync.OnceValue(func() string {
	text := regexp.MustCompile(`--[^\n]*`).ReplaceAllString(keyCheck, "")
	return strings.Join(strings.Fields(text), " ") + " "
})

// WithKeyCheck returns the script with a prologue that makes every call fail
// that touches a key which is not in KEYS, or uses a command that the prologue
// doesn't know. Otherwise the script does what it did.
func WithKeyCheck(script string) string {
	if first, rest, ok := strings.Cut(script, "\n"); ok && strings.HasPrefix(first, "#!") {
		return first + "\n" + prologue() + rest
	}
	return prologue() + script
}

// Declared makes a client run all its scripts with WithKeyCheck, whether they
// are called by text or by hash. Add it before the first script is loaded.
func Declared(rdb redis.UniversalClient) { rdb.AddHook(&declared{texts: map[string]string{}}) }

// declared knows the texts of the scripts that it has seen, by their hash.
type declared struct {
	mu    sync.Mutex
	texts map[string]string
}

// noScript is the server's answer to a hash it does not know.
type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT No matching script. Please use EVAL." }
func (noScript) RedisError()   {}

// rewrite replaces the script of a call. A hash whose text was never seen is
// refused, so that the caller sends the text.
func (d *declared) rewrite(cmd redis.Cmder) error {
	args := cmd.Args()
	if len(args) < 3 {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	text := words(cmd)
	switch name := strings.ToLower(text[0]); {
	case name == "script" && strings.EqualFold(text[1], "load"):
		d.texts[sha(text[2])] = text[2]
	case name == "eval" || name == "eval_ro":
		if !strings.Contains(text[1], prologue()) {
			d.texts[sha(text[1])] = text[1]
			args[1] = WithKeyCheck(text[1])
		}
	case name == "evalsha" || name == "evalsha_ro":
		script, ok := d.texts[text[1]]
		if !ok {
			return noScript{}
		}
		args[0], args[1] = strings.Replace(name, "sha", "", 1), WithKeyCheck(script)
	}
	return nil
}

// DialHook changes nothing.
func (d *declared) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook rewrites single calls.
func (d *declared) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if err := d.rewrite(cmd); err != nil {
			cmd.SetErr(err)
			return err
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook rewrites calls in a pipeline. As on a server, a hash that
// isn't known fails alone and the others are carried out.
func (d *declared) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var known []redis.Cmder
		var refused error
		for _, cmd := range cmds {
			if err := d.rewrite(cmd); err != nil {
				cmd.SetErr(err)
				refused = err
				continue
			}
			known = append(known, cmd)
		}
		if len(known) > 0 {
			if err := next(ctx, known); err != nil {
				return err
			}
		}
		return refused
	}
}

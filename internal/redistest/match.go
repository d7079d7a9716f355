package redistest

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Match picks the commands that a fault applies to. The arguments are those of
// the command as they are sent, its name first.
type Match func(args []string) bool

// Any matches every command, except those with which a client sets up a
// connection.
func Any() Match { return func([]string) bool { return true } }

// Command matches commands by name, in any case.
func Command(names ...string) Match {
	return func(args []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, args[0]) })
	}
}

// AnyScript matches every call of a script, by text or by hash.
func AnyScript() Match { return Command("eval", "evalsha", "eval_ro", "evalsha_ro") }

// Script matches the calls of one script. The EVALSHA that is answered with
// NOSCRIPT is a call too, so load the script first where calls are counted.
func Script(script *redis.Script) Match {
	call, hash := AnyScript(), script.Hash()
	return func(args []string) bool {
		return call(args) && len(args) > 1 && (args[1] == hash || sha(args[1]) == hash)
	}
}

// Mentions matches commands with an argument that contains text, such as a key.
func Mentions(text string) Match {
	return func(args []string) bool {
		return slices.ContainsFunc(args, func(arg string) bool { return strings.Contains(arg, text) })
	}
}

// And matches what all of them match.
func And(matches ...Match) Match {
	return func(args []string) bool {
		return !slices.ContainsFunc(matches, func(m Match) bool { return !m(args) })
	}
}

// setsUp reports whether a client sends the command by itself on every new
// connection. Faults and counters pass over them.
func setsUp(args []string) bool {
	switch strings.ToLower(args[0]) {
	case "hello", "auth", "select", "client", "readonly":
		return true
	}
	return false
}

// words returns a command's arguments as text.
func words(cmd redis.Cmder) []string {
	args := make([]string, 0, len(cmd.Args()))
	for _, arg := range cmd.Args() {
		if b, ok := arg.([]byte); ok {
			arg = string(b)
		}
		args = append(args, fmt.Sprint(arg))
	}
	return args
}

// sha returns the hash by which Redis names a script.
func sha(script string) string {
	sum := sha1.Sum([]byte(script))
	return hex.EncodeToString(sum[:])
}

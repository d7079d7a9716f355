package codex

import (
	"fmt"
	"strings"
)

// session is a Codex thread with what was used in it so far. Codex counts usage
// from the thread's start, so the last count is kept in the session's name,
// THREAD+INPUT.CACHED.OUTPUT, where every worker finds it.
type session struct {
	thread string
	spent  usage
}

func parseSession(s string) session {
	thread, count, ok := strings.Cut(s, "+")
	out := session{thread: thread}
	if ok {
		var u usage
		if n, err := fmt.Sscanf(count, "%d.%d.%d", &u.Input, &u.Cached, &u.Output); n == 3 && err == nil {
			out.spent = u
		}
	}
	return out
}

func (s session) String() string {
	if s.spent == (usage{}) {
		return s.thread
	}
	return fmt.Sprintf("%s+%d.%d.%d", s.thread, s.spent.Input, s.spent.Cached, s.spent.Output)
}

// since returns what was used after an earlier count. A thread whose count went
// back was counted anew.
func (u usage) since(spent usage) usage {
	d := usage{u.Input - spent.Input, u.Cached - spent.Cached, u.Output - spent.Output}
	if d.Input < 0 || d.Cached < 0 || d.Output < 0 {
		return u
	}
	return d
}

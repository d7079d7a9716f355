package process

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"time"

	"rota/agents"
)

// Spec says what to start and how.
type Spec struct {
	Argv []string          // the program and its arguments; the program is looked up in the PATH of Env
	Dir  string            // the working folder; it must exist
	Env  map[string]string // on top of the clean environment, see Environ; it wins but for the marks

	// Marks are the variables that name the run (ROTA_FENCE and so on). Nothing
	// overrides them.
	Marks map[string]string

	// Stdin is written to the program's standard input, which is then closed.
	// With KeepStdin it stays open for Process.Write.
	Stdin     string
	KeepStdin bool

	Lease *agents.Lease // nil for no guard

	Start   time.Duration // until Process.Accepted is called; 0 for no bound
	Silence time.Duration // between two bytes of output once Accepted was called; 0 for no bound

	MaxLine int // bytes of the longest line of output; 0 for 16 MiB
}

// For returns the spec that every agent starts from: the task's workspace,
// marks, login, lease and clocks. The prompt is not in it; adapters word it.
func For(task agents.Task, argv ...string) Spec {
	return Spec{
		Argv:    argv,
		Dir:     task.Workspace,
		Env:     maps.Clone(task.Login),
		Marks:   Marks(task),
		Lease:   task.Lease,
		Start:   task.Start,
		Silence: task.Silence,
	}
}

// Marks returns the variables that name the run of a task.
func Marks(task agents.Task) map[string]string {
	return map[string]string{
		"ROTA_THREAD":    task.Thread,
		"ROTA_TURN":      task.Turn,
		"ROTA_ATTEMPT":   task.Attempt,
		"ROTA_ROLE":      string(task.Role),
		"ROTA_INTENT":    string(task.Intent),
		"ROTA_FENCE":     strconv.FormatInt(task.Fence, 10),
		"ROTA_WORKSPACE": task.Workspace,
	}
}

// Environ returns the environment of a program, built from nothing: HOME, PATH,
// USER, LOGNAME and TMPDIR of the worker, fixed LANG, TERM and TZ, then env, then
// marks. Nothing else of the worker's environment reaches an agent.
func Environ(env, marks map[string]string) []string {
	vars := map[string]string{"LANG": "C.UTF-8", "TERM": "dumb", "TZ": "UTC"}
	for _, name := range []string{"HOME", "PATH", "USER", "LOGNAME", "TMPDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			vars[name] = v
		}
	}
	maps.Copy(vars, env)
	maps.Copy(vars, marks)
	list := make([]string, 0, len(vars))
	for _, k := range slices.Sorted(maps.Keys(vars)) {
		list = append(list, k+"="+vars[k])
	}
	return list
}

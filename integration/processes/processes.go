// Package processes lists the processes of this machine, for tests that look for
// agents which should be gone. It reads /proc.
package processes

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is one process.
type Process struct {
	PID, Parent int
	Args        string   // with blanks between them
	Env         []string // NAME=value; none when it can't be read
	state       string
}

// Living reports whether the process is more than a zombie.
func (p Process) Living() bool { return p.state != "Z" }

// All returns every process; one that ends meanwhile may be missing.
func All() []Process {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	var list []Process
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		words := strings.Fields(rest)
		if len(words) < 2 {
			continue
		}
		p := Process{PID: pid, state: words[0]}
		p.Parent, _ = strconv.Atoi(words[1])
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		p.Args = strings.TrimRight(strings.ReplaceAll(string(args), "\x00", " "), " ")
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		p.Env = strings.Split(string(env), "\x00")
		list = append(list, p)
	}
	return list
}

// Guards returns the guards of the agents that a worker has started.
func Guards(worker int) []int {
	var list []int
	for _, p := range All() {
		if p.Parent == worker && strings.HasSuffix(p.Args, "guard") {
			list = append(list, p.PID)
		}
	}
	return list
}

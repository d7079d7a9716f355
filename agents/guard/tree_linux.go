package guard

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stat is what /proc says about one process.
type stat struct {
	pid, parent int
	state       byte
	started     uint64 // clock ticks after boot; with the pid it names a process for ever
}

func (s stat) dead() bool { return s.state == 'Z' || s.state == 'X' }

// readStat reads /proc/PID/stat. The name in it may contain anything, so the
// fields are counted from the last parenthesis.
func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return stat{}, err
	}
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return stat{}, fmt.Errorf("stat of process %d: no name in it", pid)
	}
	f := strings.Fields(string(b[i+1:]))
	if len(f) < 20 {
		return stat{}, fmt.Errorf("stat of process %d: only %d fields", pid, len(f))
	}
	parent, err := strconv.Atoi(f[1])
	if err != nil {
		return stat{}, err
	}
	started, err := strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return stat{}, err
	}
	return stat{pid: pid, parent: parent, state: f[0][0], started: started}, nil
}

// processes lists all processes that can be seen. One that ends meanwhile is
// left out.
func processes() ([]stat, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var list []stat
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if s, err := readStat(pid); err == nil {
			list = append(list, s)
		}
	}
	return list, nil
}

// descendants returns the live processes below pid, without pid itself.
func descendants(pid int) ([]int, error) {
	list, err := processes()
	if err != nil {
		return nil, err
	}
	children := map[int][]stat{}
	for _, s := range list {
		children[s.parent] = append(children[s.parent], s)
	}
	var live []int
	for queue := []int{pid}; len(queue) > 0; queue = queue[1:] {
		for _, s := range children[queue[0]] {
			queue = append(queue, s.pid)
			if !s.dead() {
				live = append(live, s.pid)
			}
		}
	}
	return live, nil
}

// KillBelow sends SIGKILL to every live process below pid and returns how many
// there were. The caller calls again until there are none.
func KillBelow(pid int) (int, error) {
	live, err := descendants(pid)
	for _, p := range live {
		unix.Kill(p, unix.SIGKILL)
	}
	return len(live), err
}

// environ returns the variables a process was started with.
func environ(pid int) map[string]string {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err != nil {
		return nil
	}
	vars := map[string]string{}
	for entry := range strings.SplitSeq(string(b), "\x00") {
		if k, v, ok := strings.Cut(entry, "="); ok {
			vars[k] = v
		}
	}
	return vars
}

// Keeper returns the value of KeeperVar for agents that this process ends.
func Keeper(token string) string {
	s, err := readStat(os.Getpid())
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d:%s", s.pid, s.started, token)
}

// kept reports whether the keeper named by a value of KeeperVar is alive.
func kept(keeper string) bool {
	pidText, rest, _ := strings.Cut(keeper, ":")
	startText, _, _ := strings.Cut(rest, ":")
	pid, err := strconv.Atoi(pidText)
	if err != nil {
		return false
	}
	s, err := readStat(pid)
	return err == nil && !s.dead() && strconv.FormatUint(s.started, 10) == startText
}

func tokenOf(keeper string) string {
	return keeper[strings.LastIndexByte(keeper, ':')+1:]
}

// bootNow is the time since boot, sleep included.
func bootNow() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("guard: no CLOCK_BOOTTIME: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

// bootTime converts a time of this process to the clock of bootNow. Where the
// monotonic and the wall clock disagree about what is left, the shorter one counts.
func bootTime(t time.Time) time.Duration {
	now := time.Now()
	left := min(t.Sub(now), t.Round(0).Sub(now.Round(0)))
	return bootNow() + left
}

package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// SweepLeftovers kills the agents of this host that belong to the store and
// whose keeper, guard or worker, is gone, until none is left or ctx ends. It
// returns how many processes it killed. Agents with a live keeper, of other
// stores, and of other process namespaces are left alone, so several workers
// and deployments may share a host. An empty store is refused. A starting worker calls it before it claims.
func SweepLeftovers(ctx context.Context, store string) (int, error) {
	if store == "" {
		return 0, errors.New("sweep left-over agents: no store is named")
	}
	return sweep(ctx, func(vars map[string]string) bool {
		return vars[FenceVar] != "" && vars[StoreVar] == store && !kept(vars[KeeperVar])
	})
}

// KillMarked kills every process that carries the token in its environment,
// until none is left or ctx ends, and returns how many it killed.
func KillMarked(ctx context.Context, token string) (int, error) {
	return sweep(ctx, func(vars map[string]string) bool {
		return token != "" && tokenOf(vars[KeeperVar]) == token
	})
}

func sweep(ctx context.Context, ours func(vars map[string]string) bool) (int, error) {
	killed := map[stat]bool{}
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		list, err := processes()
		if err != nil {
			return len(killed), fmt.Errorf("sweep left-over agents: %w", err)
		}
		found := 0
		for _, s := range list {
			if s.dead() || s.pid == os.Getpid() || !sameNamespace(s.pid) || !ours(environ(s.pid)) {
				continue
			}
			if err := unix.Kill(s.pid, unix.SIGKILL); err == unix.ESRCH {
				continue
			}
			found++
			killed[stat{pid: s.pid, started: s.started}] = true
		}
		if found == 0 {
			return len(killed), nil
		}
		select {
		case <-ctx.Done():
			return len(killed), fmt.Errorf("sweep left-over agents: %d are still there: %w", found, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

func sameNamespace(pid int) bool {
	own, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return true
	}
	other, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "ns", "pid"))
	return err == nil && own == other
}

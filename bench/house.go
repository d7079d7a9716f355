package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// house is the store of one measurement: servers of our own on free ports, in a
// folder that goes with them.
type house struct {
	dir   string
	fast  string // folder of the workspaces, in memory where the machine has such a place
	procs []*exec.Cmd
	redis string   // URL as rota takes it, empty for a house of PostgreSQL
	nodes []string // addresses of the Redis servers
	pg    string   // URL of PostgreSQL
	mode  mode     // what is measured in it
	first int      // number of the first round that was not begun yet
}

// mode is how the executors of a house are laid out.
type mode string

// The modes. In the last two only rota is measured.
const (
	apart    mode = "apart"    // owner and reviewer are different services
	together mode = "together" // one service is both
	fallback mode = "fallback" // the owner's first service fails every time
	killed   mode = "killed"   // the owner's agent is a process that never ends
)

// both is the one service of the mode together.
const both = "both"

// slowFiles puts the workspaces of rota's threads on the disk of the temporary
// folder, with the one fsync that a new thread costs there.
var slowFiles bool

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// openRedis starts one Redis with an append-only file, synced every second.
func openRedis(ctx context.Context) (*house, error) { return openCluster(ctx, 1) }

// openCluster starts one Redis, or with more than one node a Cluster of masters.
func openCluster(ctx context.Context, nodes int) (*house, error) {
	dir, err := os.MkdirTemp("", "rota-bench-")
	if err != nil {
		return nil, err
	}
	h := &house{dir: dir, fast: filepath.Join(dir, "workspaces")}
	if fast, err := os.MkdirTemp("/dev/shm", "rota-bench-"); err == nil && !slowFiles {
		h.fast = fast
	}
	for range nodes {
		if err := h.startRedis(ctx, nodes > 1); err != nil {
			h.close()
			return nil, err
		}
	}
	h.redis = "redis://" + h.nodes[0] + "/0"
	if nodes > 1 {
		h.redis = "redis-cluster://" + strings.Join(h.nodes, ",")
		args := append([]string{"--cluster", "create"}, h.nodes...)
		if out, err := exec.CommandContext(ctx, "redis-cli", append(args, "--cluster-yes")...).CombinedOutput(); err != nil {
			h.close()
			return nil, fmt.Errorf("redis-cli --cluster create: %w\n%s", err, out)
		}
		if err := h.clusterWhole(ctx); err != nil {
			h.close()
			return nil, err
		}
	}
	return h, nil
}

func (h *house) startRedis(ctx context.Context, cluster bool) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	dir := filepath.Join(h.dir, strconv.Itoa(port))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	args := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--save", "", "--daemonize", "no", "--logfile", "redis.log",
		"--appendonly", "yes", "--appendfsync", "everysec"}
	if cluster {
		args = append(args, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
	}
	cmd := exec.Command("redis-server", args...)
	if err := h.spawn(cmd); err != nil {
		return err
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	h.nodes = append(h.nodes, addr)
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	return await(ctx, "redis-server", func() bool { return rdb.Ping(ctx).Err() == nil })
}

func (h *house) clusterWhole(ctx context.Context) error {
	for _, addr := range h.nodes {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		err := await(ctx, "the cluster", func() bool {
			text, _ := rdb.ClusterInfo(ctx).Result()
			return strings.Contains(text, "cluster_state:ok")
		})
		rdb.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// openPostgres starts a PostgreSQL cluster of our own. PostgreSQL refuses to run
// as root, so root gives the folder to the user postgres.
func openPostgres(ctx context.Context) (*house, error) {
	programs, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rota-bench-")
	if err != nil {
		return nil, err
	}
	h := &house{dir: dir}
	credential, err := h.giveAway()
	if err != nil {
		h.close()
		return nil, err
	}
	as := func(cmd *exec.Cmd) *exec.Cmd {
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Setsid: true}
		return cmd
	}
	data := filepath.Join(dir, "pg")
	if out, err := as(exec.CommandContext(ctx, filepath.Join(programs, "initdb"), "-D", data, "-A", "trust", "-U", "bench", "--no-sync")).CombinedOutput(); err != nil {
		h.close()
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := freePort()
	if err != nil {
		h.close()
		return nil, err
	}
	cmd := as(exec.Command(filepath.Join(programs, "postgres"), "-D", data, "-p", strconv.Itoa(port), "-k", dir,
		"-c", "listen_addresses=127.0.0.1", "-c", "synchronous_commit=off", "-c", "max_connections=300", "-c", "shared_buffers=256MB",
		"-c", "logging_collector=off"))
	if err := h.spawn(cmd); err != nil {
		h.close()
		return nil, err
	}
	h.pg = fmt.Sprintf("postgres://bench@127.0.0.1:%d/postgres?sslmode=disable", port)
	ready := filepath.Join(programs, "pg_isready")
	if err := await(ctx, "postgres", func() bool {
		return exec.CommandContext(ctx, ready, "-q", "-h", "127.0.0.1", "-p", strconv.Itoa(port)).Run() == nil
	}); err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// giveAway gives the folder to the user postgres when we are root.
func (h *house) giveAway() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres: %w", err)
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(h.dir, uid, gid)
}

// postgresPrograms returns the folder of initdb and postgres, installing them
// where that is allowed.
func postgresPrograms() (string, error) {
	if dir, ok := findPostgres(); ok {
		return dir, nil
	}
	if os.Getuid() == 0 {
		if _, err := exec.LookPath("apt-get"); err == nil {
			cmd := exec.Command("apt-get", "-qq", "install", "-y", "--no-install-recommends", "postgresql")
			cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
			_ = cmd.Run()
		}
	}
	if dir, ok := findPostgres(); ok {
		return dir, nil
	}
	return "", errors.New("PostgreSQL is not installed and can't be installed here (Debian: apt-get install postgresql)")
}

func findPostgres() (string, bool) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), true
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), true
	}
	return "", false
}

func (h *house) spawn(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	h.procs = append(h.procs, cmd)
	return nil
}

// cpu returns the CPU time of the servers so far, children that ended included.
func (h *house) cpu() time.Duration {
	var sum time.Duration
	for _, p := range h.procs {
		sum += treeCPU(p.Process.Pid)
	}
	return sum
}

func (h *house) close() {
	for _, p := range h.procs {
		_ = p.Process.Signal(syscall.SIGINT)
	}
	for _, p := range h.procs {
		done := make(chan struct{})
		go func() {
			_ = p.Wait()
			close(done)
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			_ = p.Process.Kill()
			<-done
		}
	}
	_ = os.RemoveAll(h.dir)
	if h.fast != "" {
		_ = os.RemoveAll(h.fast)
	}
}

// client returns a plain client of the first node.
func (h *house) client() *redis.Client { return redis.NewClient(&redis.Options{Addr: h.nodes[0]}) }

// await waits for a state, at most a minute.
func await(ctx context.Context, what string, reached func() bool) error {
	for deadline := time.Now().Add(time.Minute); !reached(); time.Sleep(5 * time.Millisecond) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s: not ready within a minute", what)
		}
	}
	return nil
}

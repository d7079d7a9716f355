package integration

import (
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"rota/integration/processes"
)

var discard = slog.New(slog.DiscardHandler)

// workerProcess is one real worker.
type workerProcess struct {
	r       *rig
	service string
	cmd     *exec.Cmd
	done    chan struct{}
	log     string // file; the process writes into it itself, so that a line is there before what follows it
}

func (w *workerProcess) text() string {
	text, err := os.ReadFile(w.log)
	if err != nil {
		w.r.t.Error(err)
	}
	return string(text)
}

// tail is the end of the log, without asynq's own complaints.
func (w *workerProcess) tail() string {
	var b strings.Builder
	for line := range strings.Lines(w.text()) {
		if !strings.Contains(line, `"msg":"asynq"`) && !strings.Contains(line, "leases not renewed") {
			b.WriteString(line)
		}
	}
	return b.String()[max(0, b.Len()-6000):]
}

// logged reports whether a line of the worker's log has all words.
func (w *workerProcess) logged(words ...string) bool { return w.count(words...) > 0 }

// tells is logged for a line that must come: a process's lines reach the test a
// little after what they speak of.
func (w *workerProcess) tells(words ...string) bool {
	for range 500 {
		if w.logged(words...) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func (w *workerProcess) count(words ...string) int {
	n := 0
	for line := range strings.Lines(w.text()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			n++
		}
	}
	return n
}

// start starts a worker process and waits until it takes turns.
func (r *rig) start(service string, args ...string) *workerProcess {
	r.t.Helper()
	return r.run("worker", service, args...)
}

// run is start with another worker program.
func (r *rig) run(name, service string, args ...string) *workerProcess {
	r.t.Helper()
	w := &workerProcess{r: r, service: service, done: make(chan struct{})}
	w.cmd = exec.Command(program(name), append([]string{"--service", service, "--config", r.file, "--http", "127.0.0.1:0", "--log", "json"}, args...)...)
	w.cmd.Env = append(clean(), "HOME="+r.dir)
	log, err := os.CreateTemp(r.t.TempDir(), service+"-*.log")
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	w.log, w.cmd.Stdout, w.cmd.Stderr = log.Name(), log, log
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := w.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() {
		_ = w.cmd.Wait()
		close(w.done)
	}()
	r.mu.Lock()
	r.workers = append(r.workers, w)
	r.mu.Unlock()
	r.await("worker "+service, func() bool {
		if w.ended() {
			r.t.Fatalf("worker %s ended:\n%s", service, w.tail())
		}
		return w.logged("service served")
	})
	return w
}

// startAll starts one worker for every service.
func (r *rig) startAll() {
	r.t.Helper()
	for _, s := range r.services {
		r.start(s)
	}
}

// clean is the environment without anything that configures rota.
func clean() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ROTA_") || strings.HasPrefix(v, "HOME=") })
}

func (w *workerProcess) signal(s syscall.Signal) { _ = w.cmd.Process.Signal(s) }

func (w *workerProcess) ended() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// kill9 kills the worker and nothing else.
func (w *workerProcess) kill9() {
	w.signal(syscall.SIGKILL)
	<-w.done
}

// killWithGuards kills the worker together with the guards of its agents, so that only
// the lease is left. The agents die with their guards.
func (w *workerProcess) killWithGuards() {
	w.signal(syscall.SIGSTOP)
	for _, g := range w.guards() {
		_ = syscall.Kill(g, syscall.SIGKILL)
	}
	w.kill9()
}

// guards returns the pids of the guards below the worker.
func (w *workerProcess) guards() []int {
	return processes.Guards(w.cmd.Process.Pid)
}

// stop ends the worker as a service supervisor does.
func (w *workerProcess) stop() {
	w.signal(syscall.SIGCONT)
	w.signal(syscall.SIGTERM)
	select {
	case <-w.done:
	case <-time.After(patience):
		w.r.t.Errorf("worker %s did not end after SIGTERM:\n%s", w.service, w.tail())
		w.kill9()
	}
}

func (r *rig) stopAll() {
	var all sync.WaitGroup
	for _, w := range r.workers {
		if !w.ended() {
			all.Go(w.stop)
		}
	}
	all.Wait()
}

// agents returns the living processes that an agent of this rig is or has started,
// found by their mark and by the workspace that is below the rig's folder.
func (r *rig) agents() []int {
	var list []int
	for _, p := range processes.All() {
		fence := slices.ContainsFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, "ROTA_FENCE=") })
		ours := slices.ContainsFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, "ROTA_WORKSPACE="+r.dir) })
		if fence && ours && p.Living() {
			list = append(list, p.PID)
		}
	}
	return list
}

func killAll(pids []int) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"rota/credentials"
	"rota/internal/presence"
)

// chaosWorkCommand is how chaos starts its own worker processes: they carry turns
// out, and leave the rest of the deployment's store alone.
func (p *Program) chaosWorkCommand(f *flags) *cobra.Command {
	var service, name string
	c := &cobra.Command{
		Use:    "work",
		Short:  "a worker process of chaos",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := p.load(*f)
			if err != nil {
				return err
			}
			w, err := newWorker(cmd.Context(), cfg, workerOptions{services: []string{service}, name: name, log: p.logger(*f), http: "off"})
			if err != nil {
				return err
			}
			return w.carry(cmd.Context())
		},
	}
	c.Flags().StringVar(&service, "service", "", "the service")
	c.Flags().StringVar(&name, "name", "", "the worker's name")
	return c
}

// carry is run without what looks after the whole store: it only carries out turns
// of its services until ctx ends, then drains.
func (w *worker) carry(ctx context.Context) error {
	defer w.rdb.Close()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	if err := w.serve(w.starter(background, &group)); err != nil {
		return err
	}
	close(w.ready)
	<-ctx.Done()
	w.drain()
	return nil
}

// actor is a place for a worker process, filled again each time it dies.
type actor struct {
	service string
	name    string
	cmd     *exec.Cmd
	done    chan struct{}
	resume  time.Time // when a stopped one goes on
}

func (c *campaign) start(a *actor) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("chaos-%s-worker-%d", c.run, len(c.names)+1)
	a.cmd = exec.Command(self, "chaos", "work", "--service", a.service, "--name", name, "--config", filepath.Join(c.folder, "rota.yaml"), "--log", "json")
	a.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ROTA_") }), "ROTA_REDIS="+c.cfg.Redis)
	dieWithParent(a.cmd)
	if err := a.cmd.Start(); err != nil {
		return err
	}
	c.names, a.name = append(c.names, name), name
	cmd, done := a.cmd, make(chan struct{})
	a.done, a.resume = done, time.Time{}
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	return nil
}

func (a *actor) signal(s syscall.Signal) { _ = a.cmd.Process.Signal(s) }

func (a *actor) gone() bool {
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}

func (a *actor) kill() {
	a.signal(syscall.SIGKILL)
	<-a.done
}

// heal resumes stopped workers whose time has come, or all, starts dead ones again
// and mends the logins that the play had refused.
func (c *campaign) heal(all bool) error {
	for _, a := range c.workers {
		if !a.resume.IsZero() && (all || time.Now().After(a.resume)) {
			a.signal(syscall.SIGCONT)
			a.resume = time.Time{}
		}
		if a.gone() {
			if err := c.start(a); err != nil {
				return err
			}
		}
		if _, err := c.logins.Clear(c.ctx, credentials.Implicit(a.service)); err != nil {
			return err
		}
	}
	return nil
}

// stopAll ends the workers as a service supervisor does.
func (c *campaign) stopAll() {
	for _, a := range c.workers {
		a.signal(syscall.SIGCONT)
		a.signal(syscall.SIGTERM)
	}
	for _, a := range c.workers {
		select {
		case <-a.done:
		case <-time.After(time.Minute):
			c.report.violate("a worker for %s did not end after SIGTERM", a.service)
			a.kill()
		}
	}
}

// killAll leaves no process behind, whatever happened.
func (c *campaign) killAll() {
	for _, a := range c.workers {
		if a.cmd != nil && a.done != nil && !a.gone() {
			a.kill()
		}
	}
	for _, name := range c.names {
		for _, service := range c.cfg.ServiceNames() {
			_ = presence.Leave(context.WithoutCancel(c.ctx), c.rdb, service, name)
		}
	}
}

package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rota/commands"
	"rota/credentials"
	"rota/internal/config"
	"rota/turns"
)

//go:embed demo/rota.yaml demo/play.jsonl
var demoFiles embed.FS

// demoTime bounds the whole tour.
const demoTime = 3 * time.Minute

func (p *Program) demoCommand(f *flags) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "a scripted tour: a paired task, a 401, a handoff, a dead letter, a killed run",
		Long: `demo plays four scenes with scripted agents on a store in memory and prints what a
user of each would see. It needs no Redis, no agent and no configuration, and leaves
nothing behind.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), demoTime)
			defer cancel()
			if err := p.demo(ctx, *f); err != nil {
				return &codedError{exitError, fmt.Errorf("demo: %w", err), ""}
			}
			return nil
		},
	}
}

// tour is the running demo.
type tour struct {
	out      io.Writer
	commands *commands.Commands
	logins   *credentials.Credentials
	folder   string
	redis    string
}

func (p *Program) demo(ctx context.Context, f flags) error {
	folder, err := os.MkdirTemp("", "rota-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	for _, name := range []string{"rota.yaml", "play.jsonl"} {
		text, err := demoFiles.ReadFile("demo/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			return err
		}
	}
	store, err := startMini()
	if err != nil {
		return err
	}
	defer store.stop()
	cfg, err := config.Load(filepath.Join(folder, "rota.yaml"), config.Flags{Redis: store.url, Data: folder})
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	if f.logs != "" {
		log = p.logger(f)
	}
	w, err := newWorker(ctx, cfg, workerOptions{services: []string{"codex-main", "claude", "codex-review"}, log: log, http: "off"})
	if err != nil {
		return err
	}
	work, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.run(work) }()
	t := &tour{out: p.stdout, commands: w.commands, logins: w.logins, folder: folder, redis: store.url}
	select {
	case <-w.ready:
		err = t.play(ctx)
	case err = <-done:
		done <- err
	}
	stop()
	return errors.Join(err, <-done)
}

// play goes through the scenes.
func (t *tour) play(ctx context.Context) error {
	fmt.Fprintln(t.out, "rota demo: a store in memory, scripted agents, real workers")
	for _, scene := range []func(context.Context) error{t.paired, t.expired, t.deadLetter, t.killed} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintln(t.out, "\nEvery turn kept its role, and every turn ended visibly. Next: README.md, \"Your own repository\".")
	return nil
}

func (t *tour) paired(ctx context.Context) error {
	t.title("1. A paired task: the owner works, the reviewer asks for a change, then approves, the owner finalizes")
	return t.task(ctx, "greet", "Greet the user by name.")
}

func (t *tour) expired(ctx context.Context) error {
	t.title("2. The reviewer's login on claude is refused (401): the same turn goes on at codex-review, still as a reviewer")
	if err := t.task(ctx, "login", "Mend the login page."); err != nil {
		return err
	}
	_, err := t.logins.Clear(ctx, credentials.Implicit("claude"))
	fmt.Fprintln(t.out, "   the login rests; a person mends it and says: enqueue credential clear claude:implicit")
	return err
}

func (t *tour) deadLetter(ctx context.Context) error {
	t.title("3. A reviewer that never starts: every delivery fails, the dead letter ends the turn and asks a human")
	if err := t.task(ctx, "broken", "Tidy up the parser."); err != nil {
		return err
	}
	why, err := t.commands.Why(ctx, "broken")
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "   enqueue why broken:\n     %s\n", strings.ReplaceAll(strings.TrimSpace(why), "\n", "\n     "))
	return nil
}

func (t *tour) killed(ctx context.Context) error {
	t.title("4. A worker is killed (kill -9) in the middle of a run: the run is lost, the turn goes on at the next worker")
	first, err := t.worker(ctx)
	if err != nil {
		return err
	}
	defer first.Process.Kill()
	if _, err := t.commands.Turn(ctx, commands.TurnAsk{Thread: "night", Text: "Build it.", Role: turns.Owner, Service: "builder"}); err != nil {
		return err
	}
	if err := t.until(ctx, "night", func(v commands.ThreadView) bool { return len(v.Turns) > 0 && v.Turns[0].State == turns.Running }); err != nil {
		return err
	}
	_ = first.Process.Kill()
	_ = first.Wait()
	fmt.Fprintln(t.out, "   killed the worker of builder while night/1.1 was running")
	second, err := t.worker(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = second.Process.Kill(); _ = second.Wait() }()
	if err := t.until(ctx, "night", func(v commands.ThreadView) bool { return len(v.Turns) > 0 && v.Turns[0].State.FinalForTurn() }); err != nil {
		return err
	}
	return t.show(ctx, "night")
}

// worker starts a worker process of its own for the service builder.
func (t *tour) worker(ctx context.Context) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "--service", "builder", "--config", filepath.Join(t.folder, "rota.yaml"), "--http", "off")
	cmd.Env = append(os.Environ(), "ROTA_REDIS="+t.redis)
	dieWithParent(cmd)
	return cmd, cmd.Start()
}

// task gives a paired task to the queue and shows how it went.
func (t *tour) task(ctx context.Context, thread, text string) error {
	if _, err := t.commands.Task(ctx, commands.TaskAsk{Thread: thread, Text: text}); err != nil {
		return err
	}
	err := t.until(ctx, thread, func(v commands.ThreadView) bool {
		return v.Paired.Status == turns.PairCompleted || v.Paired.Status == turns.NeedsHuman
	})
	if err != nil {
		return err
	}
	return t.show(ctx, thread)
}

func (t *tour) until(ctx context.Context, thread string, done func(commands.ThreadView) bool) error {
	for {
		v, err := t.commands.ShowThread(ctx, thread)
		if err != nil {
			return err
		}
		if done(v) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s did not end: %w", thread, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (t *tour) title(text string) { fmt.Fprintf(t.out, "\n%s\n\n", text) }

// show prints the attempts of a thread, one a line.
func (t *tour) show(ctx context.Context, thread string) error {
	v, err := t.commands.ShowThread(ctx, thread)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "   %-11s %-9s %-10s %-13s %-14s %s\n", "ATTEMPT", "ROLE", "INTENT", "SERVICE", "CAUSE", "STATE")
	for _, turn := range v.Turns {
		for _, a := range turn.Attempts {
			note := ""
			switch {
			case a.State == turns.Completed:
				note = string(turn.Outcome)
			case a.Error != "":
				note = fmt.Sprintf("%s: %s", a.Class, a.Error)
			}
			if a.Deliveries > 1 {
				note += fmt.Sprintf(" (%d deliveries)", a.Deliveries)
			}
			fmt.Fprintf(t.out, "   %-11s %-9s %-10s %-13s %-14s %-10s %s\n", a.ID, turn.Role, turn.Intent, a.Service, a.Cause, a.State, note)
		}
	}
	if v.Paired.Status != "" {
		fmt.Fprintf(t.out, "   paired task: %s\n", v.Paired.Status)
	}
	return nil
}

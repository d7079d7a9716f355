package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"rota/agents/guard"
	"rota/internal/config"
	"rota/internal/tracing"
)

// Exit codes, as far as the worker has them; see the contract of enqueue.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitUnavailable = 69
	exitConfig      = 78
)

// Program is the worker's command line. Tests start it like main does.
type Program struct {
	stdout, stderr io.Writer
}

// New returns the program. stdout is data, stderr everything else.
func New(stdout, stderr io.Writer) *Program { return &Program{stdout, stderr} }

type flags struct {
	config   string
	redis    string
	http     string
	service  string
	name     string
	data     string
	embedded bool
	admin    bool
	logs     string
}

// Run runs the program and returns its exit code.
func (p *Program) Run(ctx context.Context, args []string) int {
	if len(args) > 0 && args[0] == guard.Command {
		return guard.Main(giveBack)
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	flush, err := tracing.Start(ctx, "rota-worker")
	if err != nil {
		fmt.Fprintf(p.stderr, "worker: %v\n", err)
		return exitConfig
	}
	defer func() {
		bound, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = flush(bound)
	}()
	root := p.command()
	root.SetArgs(args)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	err = root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var coded *codedError
	if errors.As(err, &coded) {
		fmt.Fprintf(p.stderr, "worker: %v\n", coded.err)
		if coded.hint != "" {
			fmt.Fprintf(p.stderr, "hint: %s\n", coded.hint)
		}
		return coded.code
	}
	fmt.Fprintf(p.stderr, "worker: %v\nhint: see worker --help\n", err)
	return exitUsage
}

// codedError is an error with its exit code and what to do about it.
type codedError struct {
	code int
	err  error
	hint string
}

func (e *codedError) Error() string { return e.err.Error() }

func (e *codedError) Unwrap() error { return e.err }

func (p *Program) command() *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:   "worker",
		Short: "carry out the turns of a service",
		Example: strings.Trim(`
  worker --service codex-review --config rota.yaml     one process per service
  worker --embedded                                    every service in one process, with its own store
  worker demo                                          a scripted tour, needs nothing else
  worker doctor                                        what is wrong, and what to do about it
  worker chaos --minutes 5                             faults on purpose, beside your own work`, "\n"),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.work(cmd.Context(), f)
		},
	}
	set := root.PersistentFlags()
	set.StringVar(&f.config, "config", "", "configuration file (ROTA_CONFIG; rota.yaml)")
	set.StringVar(&f.redis, "redis", "", "Redis URL (ROTA_REDIS)")
	set.StringVar(&f.logs, "log", "", "log format: text or json (text on a terminal, else json)")
	local := root.Flags()
	local.StringVar(&f.service, "service", "", "the service to carry out turns for")
	local.StringVar(&f.http, "http", "", "address of the board, metrics and health; off for none (ROTA_HTTP; 127.0.0.1:8377)")
	local.StringVar(&f.name, "name", "", "this worker's name (host and process)")
	local.StringVar(&f.data, "data", "", "folder of the embedded store (ROTA_DATA)")
	local.BoolVar(&f.embedded, "embedded", false, "carry out every service of the configuration, with a store of its own")
	local.BoolVar(&f.admin, "admin", false, "let the board and asynqmon change things")
	root.AddCommand(p.demoCommand(&f), p.doctorCommand(&f), p.chaosCommand(&f))
	return root
}

func (p *Program) load(f flags) (config.Config, error) {
	c, err := config.Load(f.config, config.Flags{Redis: f.redis, HTTP: f.http, Data: f.data})
	if err != nil {
		return c, badConfig(err)
	}
	return c, nil
}

func badConfig(err error) error {
	return &codedError{exitConfig, err, "rota.example.yaml describes every key"}
}

func (p *Program) logger(f flags) *slog.Logger {
	file, ok := p.stderr.(*os.File)
	text := f.logs == "text" || f.logs == "" && ok && term.IsTerminal(int(file.Fd()))
	if text {
		return slog.New(slog.NewTextHandler(p.stderr, nil))
	}
	return slog.New(slog.NewJSONHandler(p.stderr, &slog.HandlerOptions{ReplaceAttr: readable}))
}

// readable writes a duration as 1m0s; JSON alone would have its nanoseconds.
func readable(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func (p *Program) work(ctx context.Context, f flags) error {
	if f.embedded == (f.service != "") {
		return &codedError{exitUsage, errors.New("say --service NAME or --embedded"), "worker --help shows both"}
	}
	if f.embedded && f.redis != "" {
		return &codedError{exitUsage, errors.New("--embedded brings its own store and --redis names another one"),
			"leave one of them out; worker --service NAME --redis URL serves a service there"}
	}
	if f.logs != "" && f.logs != "text" && f.logs != "json" {
		return &codedError{exitUsage, fmt.Errorf("--log %q is no format", f.logs), "use text or json"}
	}
	cfg, err := p.load(f)
	if err != nil {
		return err
	}
	log := p.logger(f)
	services := cfg.ServiceNames()
	if f.service != "" {
		if _, err := cfg.Service(f.service); err != nil {
			return &codedError{exitConfig, err, ""}
		}
		services = []string{f.service}
	}
	if len(services) == 0 {
		return &codedError{exitConfig, errors.New("no service is configured"), "rota.example.yaml shows how"}
	}
	token := os.Getenv("ROTA_HTTP_TOKEN")
	if err := checkHTTP(cfg.HTTP, token); err != nil {
		return err
	}
	if f.embedded {
		e, err := startEmbedded(ctx, cfg, log)
		if coded := (*codedError)(nil); errors.As(err, &coded) {
			return coded
		}
		if err != nil {
			return &codedError{exitError, err, ""}
		}
		defer e.stop()
		cfg.Redis = e.url
	}
	w, err := newWorker(ctx, cfg, workerOptions{
		services: services, name: f.name, admin: f.admin, log: log, token: token, http: cfg.HTTP, httpExplicit: cfg.HTTPExplicit,
	})
	if err != nil {
		return err
	}
	return w.run(ctx)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"rota/commands"
	"rota/internal/tracing"
	"rota/turns/store"
)

// Main is the program. A test runs it with its own streams.
type Main struct {
	in       io.Reader
	out, err io.Writer

	configFile string
	redisURL   string
	key        string
	output     string
	watch      bool
	hasty      bool // a completion: nothing is waited for

	conn *connection // opened by the first command that needs it
}

// Run runs the program and returns its exit code. stdout gets what was asked for,
// stderr everything else.
func (m *Main) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	quiet()
	written := &output{Writer: stdout}
	m.in, m.out, m.err = stdin, written, stderr
	if _, terminal := tty(stdout); terminal {
		m.out = &screen{Writer: written}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer m.close()
	root := m.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(written)
	root.SetErr(stderr)
	err := written.judge(m.traced(ctx, root, args))
	if err == nil {
		return exitOK
	}
	e := toExit(root, args, err)
	if e.text != "" {
		for line := range strings.SplitSeq(e.text, "\n") {
			fmt.Fprintf(stderr, "enqueue: %s\n", line)
		}
	}
	if e.hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n", e.hint)
	}
	return e.code
}

// traced runs the command as the first span of its trace, where the environment
// asks for traces.
func (m *Main) traced(ctx context.Context, root *cobra.Command, args []string) error {
	flush, err := tracing.Start(ctx, "rota-enqueue")
	if err != nil {
		return &exit{code: exitUnconfigured, text: err.Error()}
	}
	defer func() {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = flush(bound)
	}()
	name := "enqueue"
	if cmd, _, err := root.Find(args); err == nil && cmd != root {
		name += " " + cmd.Name()
	}
	ctx, span := tracing.Span(ctx, name, "", false)
	err = root.ExecuteContext(ctx)
	span.End(nil)
	return err
}

// silent keeps the client's own log from people: errors come as errors.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// quiet sets it once in a process: the client reads it without a lock.
var quiet = sync.OnceFunc(func() { redis.SetLogger(silent{}) })

// Commands stand in the order of their use.
func init() { cobra.EnableCommandSorting = false }

const about = `enqueue gives work to the queue of agent turns, says what becomes of it and changes its course.

An id reads thread (fix-login), turn (fix-login/3) or attempt (fix-login/3.2). A thread may be
shortened as long as it is unambiguous.`

const codes = `Exit codes:
  0  ok                        7  the last turn failed
  1  error                     8  cancelled
  2  usage                     9  otherwise waits for a human
  3  not found                69  Redis unreachable
  5  conflict                 78  bad configuration
  6  timed out
`

func (m *Main) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "enqueue",
		Short: "give work to the queue of agent turns",
		Long:  about,
		Example: `  enqueue task "mend the login page" --workdir . --follow
  enqueue ls
  enqueue why fix-login
  enqueue reply fix-login "use the new API"`,
		SilenceUsage: true, SilenceErrors: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage(alike(cmd, args[0]), "unknown command %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	set := root.PersistentFlags()
	set.StringVar(&m.configFile, "config", "", "configuration file (ROTA_CONFIG; rota.yaml)")
	set.StringVar(&m.redisURL, "redis", "", "Redis URL without a password (ROTA_REDIS)")
	set.StringVar(&m.key, "key", "", "idempotency key: a repeat with the same key changes nothing")
	set.StringVarP(&m.output, "output", "o", "table", "output: table, json or jsonl")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range []string{"key", "thread"} {
			// An empty variable of a script must not become a new name at each call.
			if f := cmd.Flags().Lookup(name); f != nil && f.Changed && f.Value.String() == "" {
				return usage("leave it out, or give it a value", "--%s is empty", name)
			}
		}
		if err := commands.CheckKey(m.key); err != nil {
			return m.failed(cmd.Context(), err)
		}
		switch m.output {
		case "table", "json", "jsonl":
			return nil
		}
		return usage("use -o table, json or jsonl", "unknown output %q", m.output)
	}
	root.SetUsageTemplate(usageTemplate)
	root.SetHelpTemplate("{{with (or .Long .Short)}}{{. | trimTrailingWhitespaces}}\n\n{{end}}{{.UsageString}}" +
		"{{if not .HasParent}}\n" + codes + "{{end}}")
	root.AddGroup(&cobra.Group{ID: "give", Title: "Give work:"}, &cobra.Group{ID: "see", Title: "See what becomes of it:"},
		&cobra.Group{ID: "steer", Title: "Change its course:"}, &cobra.Group{ID: "rest", Title: "Keep house:"})
	add := func(group string, list ...*cobra.Command) {
		for _, c := range list {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add("give", m.taskCommand(), m.turnCommand(), m.replyCommand(), m.scheduleCommand())
	add("see", m.lsCommand(), m.showCommand(), m.whyCommand(), m.logCommand(), m.watchCommand(), m.requestsCommand())
	add("steer", m.cancelCommand(), m.retryCommand(), m.handoffCommand(), m.restartCommand(), m.interruptCommand(), m.steerCommand(), m.respondCommand(),
		m.detachCommand())
	add("rest", m.deadCommand(), m.credentialCommand(), m.verifyCommand(), m.doctorCommand(), m.rmCommand(), m.checkpointCommand(), m.cleanupCommand(), m.benchCommand())
	root.SetHelpCommandGroupID("rest")
	root.SetCompletionCommandGroupID("rest")
	// cobra's own command prints its help for a shell that it does not know.
	root.InitDefaultCompletionCmd()
	if cmd, _, err := root.Find([]string{"completion"}); err == nil && cmd != root {
		cmd.Args, cmd.RunE = needsCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	return root
}

// usageTemplate puts the examples first.
const usageTemplate = `{{if .HasExample}}Examples:
{{.Example}}

{{end}}Usage:
  {{if .Runnable}}{{.UseLine}}{{else}}{{.CommandPath}} COMMAND{{end}}
{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}
Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{else}}{{range $group := .Groups}}
{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}
{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}
Flags:
{{.LocalFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}{{if .HasAvailableInheritedFlags}}
Flags of every command:
{{.InheritedFlags.FlagUsages | trimTrailingWhitespaces}}
{{end}}`

// The exit codes.
const (
	exitOK           = 0
	exitError        = 1
	exitUsage        = 2
	exitNotFound     = 3
	exitConflict     = 5
	exitTimeout      = 6
	exitFailed       = 7
	exitCancelled    = 8
	exitNeedsHuman   = 9
	exitUnavailable  = 69
	exitUnconfigured = 78
)

// exit is an error with its exit code: a line, and what a person can do.
type exit struct {
	code int
	text string // may be empty: everything has been said
	hint string
	err  error
}

func (e *exit) Error() string { return e.text }

func (e *exit) Unwrap() error { return e.err }

func usage(hint, format string, args ...any) error {
	return &exit{code: exitUsage, text: fmt.Sprintf(format, args...), hint: hint}
}

// alike is the hint about a command that does not exist.
func alike(root *cobra.Command, word string) string {
	root.SuggestionsMinimumDistance = 2
	if names := root.SuggestionsFor(word); len(names) > 0 {
		return "did you mean `enqueue " + names[0] + "`?"
	}
	return "see enqueue --help"
}

// toExit gives every error its exit code. What cobra itself refuses is wrong usage.
func toExit(root *cobra.Command, args []string, err error) *exit {
	if e, ok := errors.AsType[*exit](err); ok {
		return e
	}
	of := root
	if cmd, _, found := root.Find(args); found == nil {
		of = cmd
	}
	return &exit{code: exitUsage, text: oneLine(err.Error()), hint: "see " + of.CommandPath() + " --help", err: err}
}

var exitOf = map[commands.Kind]int{
	commands.Invalid: exitUsage, commands.NotFound: exitNotFound, commands.Conflict: exitConflict, commands.Unconfigured: exitUnconfigured,
}

// failed gives the error of a command its exit code.
func (m *Main) failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*exit](err); ok {
		return err
	}
	if refused, ok := errors.AsType[*commands.Error](err); ok {
		return &exit{exitOf[refused.Kind], oneLine(refused.Text), refused.Hint, err}
	}
	switch {
	case ctx.Err() != nil:
		return &exit{exitError, "interrupted", "", err}
	case errors.Is(err, store.ErrVersion):
		return &exit{exitUnconfigured, oneLine(err.Error()), "take the version of rota that the workers run", err}
	case unreachable(err):
		return &exit{exitUnavailable, "Redis is unreachable: " + oneLine(err.Error()), m.redisHint(), err}
	}
	hint := ""
	for _, word := range []string{"READONLY", "NOREPLICAS", "OOM", "MISCONF"} {
		if redis.HasErrorPrefix(err, word) {
			hint = "Redis takes no writes, so nothing was changed; `enqueue doctor` says what helps"
		}
	}
	return &exit{exitError, oneLine(err.Error()), hint, err}
}

// run is the body of every command: it connects, and gives errors their codes.
func (m *Main) run(f func(ctx context.Context, c *connection, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		c, err := m.connect(ctx)
		if err != nil {
			return m.failed(ctx, err)
		}
		return m.failed(ctx, f(ctx, c, args))
	}
}

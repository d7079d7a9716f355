package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rota/commands"
)

// completer lists words that a shell may complete, each with a tab and a note.
type completer func(ctx context.Context, c *connection) ([]string, error)

// completeWithin bounds a completion: a shell must not hang on a Redis that is away.
const completeWithin = time.Second

func (m *Main) lookUp(cmd *cobra.Command, list completer, prefix string) ([]string, cobra.ShellCompDirective) {
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, completeWithin)
	defer cancel()
	m.hasty = true
	c, err := m.connect(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	words, err := list(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var fit []string
	for _, w := range words {
		if strings.HasPrefix(w, prefix) {
			fit = append(fit, w)
		}
	}
	return fit, cobra.ShellCompDirectiveNoFileComp
}

// complete completes the first argument.
func (m *Main) complete(list completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return m.lookUp(cmd, list, prefix)
	}
}

func (m *Main) completeFlag(cmd *cobra.Command, flag string, list completer) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return m.lookUp(cmd, list, prefix)
	})
	if err != nil {
		panic(err)
	}
}

func (m *Main) completeWords(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

// completed is how many threads a completion offers.
const completed = 200

func (m *Main) threads(ctx context.Context, c *connection) ([]string, error) {
	return c.store.Threads(ctx, completed)
}

func (m *Main) ids(ctx context.Context, c *connection) ([]string, error) {
	return turnWords(ctx, c, func(commands.TurnView) bool { return true })
}

func (m *Main) openIDs(ctx context.Context, c *connection) ([]string, error) {
	return turnWords(ctx, c, func(v commands.TurnView) bool { return v.State.Open() })
}

func turnWords(ctx context.Context, c *connection, keep func(commands.TurnView) bool) ([]string, error) {
	rows, err := c.commands.Ls(ctx, commands.Filter{Limit: completed})
	if err != nil {
		return nil, err
	}
	var words []string
	for _, v := range rows {
		if keep(v) {
			words = append(words, v.ID+"\t"+string(v.Role)+", "+string(v.State))
		}
	}
	return words, nil
}

func (m *Main) services(_ context.Context, c *connection) ([]string, error) {
	return c.config.ServiceNames(), nil
}

func (m *Main) requestIDs(ctx context.Context, c *connection) ([]string, error) {
	list, err := c.commands.Requests(ctx, "")
	var words []string
	for _, r := range list {
		words = append(words, r.ID+"\t"+shorten(r.Text, 60))
	}
	return words, err
}

func (m *Main) deadIDs(ctx context.Context, c *connection) ([]string, error) {
	list, err := c.commands.DeadList(ctx, completed)
	var words []string
	for _, d := range list {
		words = append(words, d.Turn+"\t"+string(d.Class))
	}
	return words, err
}

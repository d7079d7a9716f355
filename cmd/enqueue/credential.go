package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rota/commands"
	"rota/credentials"
	"rota/scheduler"
)

func (m *Main) credentialCommand() *cobra.Command {
	ls := &cobra.Command{Use: "ls", Short: "list the logins: usable, cooling, probed or disabled", Args: cobra.NoArgs,
		RunE: m.run(func(ctx context.Context, c *connection, _ []string) error {
			logins, err := c.logins()
			if err != nil {
				return badConfig(err)
			}
			return m.show(ctx, c, func(w io.Writer) error { return m.printLogins(ctx, w, logins) })
		})}
	m.watchFlag(ls)
	clear := &cobra.Command{Use: "clear CREDENTIAL", Short: "end a login's rest: what waits for it is due now", Args: cobra.ExactArgs(1),
		ValidArgsFunction: m.complete(func(ctx context.Context, c *connection) ([]string, error) {
			logins, err := c.logins()
			if err != nil {
				return nil, err
			}
			list, err := logins.List(ctx)
			var names []string
			for _, r := range list {
				if !slices.Contains(names, r.Credential) {
					names = append(names, r.Credential)
				}
			}
			return names, err
		}),
		RunE: m.run(func(ctx context.Context, c *connection, args []string) error {
			logins, err := c.logins()
			if err != nil {
				return badConfig(err)
			}
			return m.clearLogin(ctx, c, logins, args[0])
		})}
	return group("credential", "see logins and their cooldowns, end a cooldown", "  enqueue credential ls\n  enqueue credential clear work", ls, clear)
}

// logins returns the logins of the configuration. None of them is read.
func (c *connection) logins() (*credentials.Credentials, error) {
	cfg := credentials.Config{Services: map[string]credentials.Service{}, Credentials: map[string]credentials.Source{}}
	for name, s := range c.config.Services {
		cfg.Services[name] = credentials.Service{
			Agent: s.Agent, Model: s.Model, Host: s.Host, SignIn: s.SignInDir(), Credentials: s.Credentials,
		}
	}
	for id, s := range c.config.Credentials {
		cfg.Credentials[id] = credentials.Source{Env: s.Env, File: s.File, Command: s.Command, Variable: s.Variable, Organisation: s.Organisation}
	}
	return credentials.New(c.rdb, cfg)
}

// login is a login as `credential ls` prints it.
type login struct {
	Credential string         `json:"credential"`
	Services   []string       `json:"services"`
	Scope      string         `json:"scope"`
	Name       string         `json:"name"`
	State      string         `json:"state"`
	Reason     string         `json:"reason"`
	Until      commands.Stamp `json:"until"`
	Probe      commands.Stamp `json:"probe"`
	Failures   int            `json:"failures"`
	Changed    bool           `json:"changed"`
}

func (m *Main) printLogins(ctx context.Context, w io.Writer, logins *credentials.Credentials) error {
	rests, err := logins.List(ctx)
	if err != nil {
		return err
	}
	list := make([]login, len(rests))
	for i, r := range rests {
		list[i] = login{r.Credential, r.Services, r.Scope, r.Name, string(r.State), r.Reason, commands.Stamp(r.Until), commands.Stamp(r.Probe), r.Failures, r.Changed}
	}
	if m.output != "table" {
		return printList(m, w, list)
	}
	if len(list) == 0 {
		fmt.Fprintln(m.err, "no login is configured and none rests")
		return nil
	}
	t := m.table("CREDENTIAL", "STATE", "SCOPE", "REASON", "UNTIL", "PROBE", "SERVICES")
	for _, l := range list {
		t.add(l.Credential, l.State, strings.TrimSpace(l.Scope+" "+l.Name), dash(l.Reason), local(l.Until), local(l.Probe), dash(strings.Join(l.Services, ", ")))
	}
	t.print(w)
	return nil
}

// clearLogin ends a login's rest and makes what waits for it due now.
func (m *Main) clearLogin(ctx context.Context, c *connection, logins *credentials.Credentials, id string) error {
	known := false
	list, err := logins.List(ctx)
	if err != nil {
		return err
	}
	for _, r := range list {
		known = known || r.Credential == id
	}
	if !known {
		return &exit{code: exitNotFound, text: "credential " + id + ": not found", hint: "`enqueue credential ls` lists them"}
	}
	changed, err := logins.Clear(ctx, id)
	if err != nil {
		return err
	}
	woken := 0
	if changed {
		if woken, err = scheduler.WakeWaiting(ctx, c.store, c.relay, logins.ServicesOf(id)); err != nil {
			return err
		}
	}
	switch {
	case m.output != "table":
		return m.printJSON(m.out, struct {
			Schema     int    `json:"schema"`
			Credential string `json:"credential"`
			Cleared    bool   `json:"cleared"` // false: it did not rest
			Due        int    `json:"due"`     // turns that waited for it
		}{commands.Schema, id, changed, woken})
	case changed:
		fmt.Fprintf(m.err, "cleared %s; %d waiting turns are due now\n", id, woken)
	default:
		fmt.Fprintln(m.err, id+" did not rest")
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rota/credentials"
	"rota/internal/config"
	"rota/internal/doctor"
	"rota/prompts"
	"rota/turns"
	"rota/workspaces"
)

func (p *Program) doctorCommand(f *flags) *cobra.Command {
	var service string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "look at Redis, the configuration and the agents of this host; each finding with its remedy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.doctor(cmd.Context(), *f, service)
		},
	}
	cmd.Flags().StringVar(&service, "service", "", "look only at the agent of this service")
	return cmd
}

func (p *Program) doctor(ctx context.Context, f flags, service string) error {
	cfg, embedded, err := config.LoadFound(f.config, config.Flags{Redis: f.redis, HTTP: f.http, Data: f.data})
	if err != nil {
		return badConfig(err)
	}
	names := cfg.ServiceNames()
	if service != "" {
		if _, err := cfg.Service(service); err != nil {
			return &codedError{exitConfig, err, ""}
		}
		names = []string{service}
	}
	rdb, err := config.RedisClient(cfg.Redis)
	if err != nil {
		return &codedError{exitConfig, err, ""}
	}
	defer rdb.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	server := !embedded || strings.Contains(rdb.Info(ctx, "server").Val(), "redis_mode")
	findings := doctor.Redis(ctx, rdb, cfg, server)
	if reachable(ctx, rdb) == nil {
		findings = append(findings, doctor.Services(ctx, rdb, cfg)...)
	}
	logins, err := credentials.New(rdb, loginConfig(cfg))
	if err != nil {
		findings = append(findings, doctor.Finding{Level: doctor.Problem, Check: "credentials", Text: err.Error(), Remedy: "mend the configuration"})
	}
	for _, name := range names {
		findings = append(findings, agentFindings(ctx, cfg, name, logins)...)
	}
	findings = append(findings, hostFindings(cfg)...)
	printFindings(p.stdout, findings)
	if doctor.Worst(findings) == doctor.Problem {
		return &codedError{exitError, errors.New("something has to be mended"), "each problem above says how"}
	}
	return nil
}

// agentFindings looks for a service's program and whether its logins can be read
// on this host.
func agentFindings(ctx context.Context, cfg config.Config, name string, logins *credentials.Credentials) []doctor.Finding {
	check := "service " + name
	s, err := cfg.Service(name)
	if err != nil {
		return []doctor.Finding{{Level: doctor.Problem, Check: check, Text: err.Error()}}
	}
	list := []doctor.Finding{{Level: doctor.OK, Check: check, Text: "agent " + s.Agent + " is there"}}
	b, err := buildAgent(name, s)
	if err == nil {
		err = b.agent.Check(ctx)
	}
	if err != nil {
		remedy := "install the program on this host, or name it with command: in the configuration"
		if s.Agent == "scripted" {
			remedy = "write the script, or name another file with script: in the configuration"
		}
		list[0] = doctor.Finding{Level: doctor.Problem, Check: check, Text: strings.TrimPrefix(err.Error(), string(turns.ClassConfig)+": "), Remedy: remedy}
	}
	if logins == nil {
		return list
	}
	for _, id := range s.Credentials {
		if err := logins.Readable(ctx, id, name); err != nil {
			list = append(list, doctor.Finding{Level: doctor.Problem, Check: "credential " + id, Text: err.Error(),
				Remedy: "put the login where the configuration says, readable for its owner alone"})
		}
	}
	return list
}

// hostFindings looks at the folders and templates of this host.
func hostFindings(cfg config.Config) []doctor.Finding {
	var list []doctor.Finding
	places := &workspaces.Workspaces{Dir: cfg.Workspaces}
	if _, err := os.Stat(cfg.Workspaces); errors.Is(err, fs.ErrNotExist) {
		list = append(list, doctor.Finding{Level: doctor.OK, Check: "workspaces", Text: filepath.Clean(cfg.Workspaces) + " is made with the first turn"})
	} else if mark, err := places.Mark(); err != nil {
		list = append(list, doctor.Finding{Level: doctor.Problem, Check: "workspaces", Text: err.Error(),
			Remedy: "give workspaces: a folder that the worker may write to, the same path on all workers"})
	} else {
		list = append(list, doctor.Finding{Level: doctor.OK, Check: "workspaces",
			Text: fmt.Sprintf("%s is writable, its mark is %s (the same on every host that shares it)", filepath.Clean(cfg.Workspaces), mark)})
	}
	if err := prompts.Check(cfg.Prompts); err != nil {
		list = append(list, doctor.Finding{Level: doctor.Problem, Check: "prompts", Text: err.Error(), Remedy: "mend the template, or remove it to get the built-in one"})
	}
	if len(cfg.Escalate) > 0 {
		if _, err := exec.LookPath(cfg.Escalate[0]); err != nil {
			list = append(list, doctor.Finding{Level: doctor.Problem, Check: "escalate", Text: err.Error(),
				Remedy: "nobody would be told of what needs a human: install the program on this host, or mend escalate:"})
		}
	}
	if _, err := os.Executable(); err != nil {
		list = append(list, doctor.Finding{Level: doctor.Problem, Check: "guard", Text: err.Error(), Remedy: "the worker's own binary must be readable to start guards"})
	}
	return list
}

func printFindings(out io.Writer, list []doctor.Finding) {
	order := []doctor.Level{doctor.Problem, doctor.Warning, doctor.OK}
	slices.SortStableFunc(list, func(a, b doctor.Finding) int {
		return slices.Index(order, a.Level) - slices.Index(order, b.Level)
	})
	for _, f := range list {
		fmt.Fprintf(out, "%-8s %-22s %s\n", f.Level, f.Check, f.Text)
		if f.Remedy != "" {
			fmt.Fprintf(out, "%31s -> %s\n", "", f.Remedy)
		}
	}
}

// Package acp carries out runs with any program that speaks the Agent Client
// Protocol over its standard input and output.
//
// The protocol has no switch that keeps a program from writing or from loading
// settings of a repository: what a program may do it asks, and rota answers by
// role (see permission). Use it for programs that ask; Claude Code and Codex
// have adapters of their own, which carry more.
package acp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"rota/agents"
	"rota/agents/drive"
	"rota/agents/process"
	"rota/agents/transcript"
	"rota/turns"
)

// Options say how the program is run.
type Options struct {
	Command []string          // the program and its arguments
	Env     map[string]string // its environment beside the clean one; a run's login wins

	// Allow answers an owner's permission questions at once. Without it they wait
	// for a person where one can answer (Task.Controls), as items of kind request.
	Allow bool
}

// Agent is a program of the Agent Client Protocol.
type Agent struct {
	options Options
	settle  time.Duration // how long a program may write its session down after its answer
}

// New returns the agent.
func New(o Options) *Agent { return &Agent{options: o, settle: time.Second} }

// Kind returns "acp".
func (a *Agent) Kind() string { return "acp" }

// maxLine is the longest message; the protocol's library takes 10 MiB.
const maxLine = 8 << 20

// Run carries out one run. See agents.Agent.
func (a *Agent) Run(ctx context.Context, task agents.Task, report agents.Reporter) (agents.Result, error) {
	if _, err := transcript.RoleText(task); err != nil {
		return agents.Result{}, err
	}
	spec := process.For(task, a.options.Command...)
	spec.Env = a.environ(task.Login)
	spec.KeepStdin, spec.MaxLine = true, maxLine
	p, err := process.Start(ctx, spec)
	if err != nil {
		return agents.Result{}, err
	}
	r := newRun(task, report, p, a)
	return r.carry(ctx)
}

func (a *Agent) environ(login map[string]string) map[string]string {
	env := maps.Clone(a.options.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, login)
	return env
}

// Check starts the program and asks for its version of the protocol.
func (a *Agent) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, drive.AskBound)
	defer cancel()
	if len(a.options.Command) == 0 {
		return turns.Fail(turns.ClassConfig, "no program to start: name one in the service's command")
	}
	p, err := process.Start(ctx, process.Spec{Argv: a.options.Command, Dir: tempDir(), Env: a.environ(nil), KeepStdin: true})
	if err != nil {
		return err
	}
	conn, hangUp := connect(p, &client{})
	_, err = initialize(ctx, conn)
	p.Kill()
	hangUp()
	exit := p.Wait()
	if err != nil {
		return fmt.Errorf("%s does not speak the Agent Client Protocol: %w%s", a.options.Command[0], err, hint(exit.Stderr))
	}
	return nil
}

func hint(stderr string) string {
	if last := transcript.LastLine(stderr); last != "" {
		return ": " + last
	}
	return ""
}

// connect ties the protocol to a process. hangUp ends the reading of its output.
func connect(p *process.Process, c sdk.Client) (conn *sdk.ClientSideConnection, hangUp func()) {
	pr, pw := io.Pipe()
	go func() {
		defer pw.Close()
		for {
			select {
			case line, ok := <-p.Lines():
				if !ok {
					return
				}
				if _, err := pw.Write(append(line, '\n')); err != nil {
					return
				}
			case <-p.Ended():
				return
			}
		}
	}()
	conn = sdk.NewClientSideConnection(c, writer{p}, pr)
	conn.SetLogger(slog.New(slog.DiscardHandler)) // it would log whole messages
	return conn, func() { pr.Close() }
}

// writer is the program's standard input.
type writer struct{ p *process.Process }

func (w writer) Write(b []byte) (int, error) {
	if err := w.p.Write(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// initialize agrees on a version of the protocol. A program answers with its
// own when it does not know ours, so the versions must be compared.
func initialize(ctx context.Context, conn *sdk.ClientSideConnection) (sdk.AgentCapabilities, error) {
	r, err := conn.Initialize(ctx, sdk.InitializeRequest{
		ProtocolVersion: sdk.ProtocolVersionNumber,
		ClientInfo:      &sdk.Implementation{Name: "rota", Version: "1"},
	})
	if err != nil {
		return sdk.AgentCapabilities{}, err
	}
	if r.ProtocolVersion != sdk.ProtocolVersionNumber {
		return sdk.AgentCapabilities{}, turns.Fail(turns.ClassConfig, "the agent speaks version %d of the protocol, rota %d", r.ProtocolVersion, sdk.ProtocolVersionNumber)
	}
	return r.AgentCapabilities, nil
}

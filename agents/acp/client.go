package acp

import (
	"context"
	"os"

	sdk "github.com/coder/acp-go-sdk"
)

func tempDir() string { return os.TempDir() }

// client is rota's side of the protocol. The library calls it from goroutines of
// its own; it hands everything to the run's mailbox.
type client struct{ run *run }

// SessionUpdate takes what the program tells. It never waits: the library closes
// the connection when updates pile up.
func (c *client) SessionUpdate(_ context.Context, n sdk.SessionNotification) error {
	if c.run != nil {
		c.run.mail.put(func() error { return c.run.update(n.Update) })
	}
	return nil
}

// RequestPermission answers when the run has an answer, or when it is over.
func (c *client) RequestPermission(ctx context.Context, q sdk.RequestPermissionRequest) (sdk.RequestPermissionResponse, error) {
	if c.run == nil {
		return cancelled, nil
	}
	answer := make(chan sdk.RequestPermissionResponse, 1)
	c.run.mail.put(func() error {
		return c.run.permission(question{request: q, answer: func(r sdk.RequestPermissionResponse) { answer <- r }})
	})
	select {
	case r := <-answer:
		return r, nil
	case <-ctx.Done():
		return cancelled, nil
	}
}

var cancelled = sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeCancelled()}

// The files and terminals of a client are not offered (see initialize): a program
// that asks for them all the same is told so.

// ReadTextFile refuses.
func (*client) ReadTextFile(context.Context, sdk.ReadTextFileRequest) (sdk.ReadTextFileResponse, error) {
	return sdk.ReadTextFileResponse{}, sdk.NewMethodNotFound(sdk.ClientMethodFsReadTextFile)
}

// WriteTextFile refuses.
func (*client) WriteTextFile(context.Context, sdk.WriteTextFileRequest) (sdk.WriteTextFileResponse, error) {
	return sdk.WriteTextFileResponse{}, sdk.NewMethodNotFound(sdk.ClientMethodFsWriteTextFile)
}

// CreateTerminal refuses.
func (*client) CreateTerminal(context.Context, sdk.CreateTerminalRequest) (sdk.CreateTerminalResponse, error) {
	return sdk.CreateTerminalResponse{}, sdk.NewMethodNotFound(sdk.ClientMethodTerminalCreate)
}

// KillTerminal refuses.
func (*client) KillTerminal(context.Context, sdk.KillTerminalRequest) (sdk.KillTerminalResponse, error) {
	return sdk.KillTerminalResponse{}, sdk.NewMethodNotFound(sdk.ClientMethodTerminalKill)
}

// TerminalOutput refuses.
func (*client) TerminalOutput(context.Context, sdk.TerminalOutputRequest) (sdk.TerminalOutputResponse, error) {
	return sdk.TerminalOutputResponse{}, sdk.NewMethodNotFound(sdk.ClientMethodTerminalOutput)
}

// ReleaseTerminal refuses.
func (*client) ReleaseTerminal(context.Context, sdk.ReleaseTerminalRequest) (sdk.ReleaseTerminalResponse, error) {
	return sdk.ReleaseTerminalResponse{}, sdk.NewMethodNotFound(sdk.ClientMethodTerminalRelease)
}

// WaitForTerminalExit refuses.
func (*client) WaitForTerminalExit(context.Context, sdk.WaitForTerminalExitRequest) (sdk.WaitForTerminalExitResponse, error) {
	return sdk.WaitForTerminalExitResponse{}, sdk.NewMethodNotFound(sdk.ClientMethodTerminalWaitForExit)
}

package acp

import (
	"context"
	"errors"
	"time"

	sdk "github.com/coder/acp-go-sdk"

	"rota/agents/drive"
	"rota/agents/transcript"
	"rota/turns"
)

// converse asks the program for its turn. It runs beside listen and ends with
// the connection at the latest.
func (r *run) converse(ctx context.Context) {
	defer close(r.conversed)
	stop, err := r.ask(ctx)
	if ctx.Err() != nil {
		return
	}
	if local(err) {
		select {
		case <-r.conn.Done():
			return // the program is gone; how it ended says more
		case <-time.After(drive.StopGrace):
			err = turns.Fail(turns.ClassBadOutput, "the agent's answer can't be read: %v", err)
		}
	}
	r.mail.put(func() error { return r.end(stop, err) })
}

// local reports whether an error is the library's own and no answer of the
// program: it could not write, or could not read what came.
func local(err error) bool {
	var e *sdk.RequestError
	if !errors.As(err, &e) {
		return false
	}
	fields, ok := e.Data.(map[string]any)
	_, own := fields["error"]
	return ok && own
}

func (r *run) ask(ctx context.Context) (sdk.PromptResponse, error) {
	can, err := initialize(ctx, r.conn)
	if err != nil {
		return sdk.PromptResponse{}, err
	}
	id, modes, err := r.open(ctx, can)
	if err != nil {
		return sdk.PromptResponse{}, err
	}
	if err := r.mode(ctx, id, modes); err != nil {
		return sdk.PromptResponse{}, err
	}
	r.mail.put(func() error {
		r.session, r.prompted = id, true
		r.board.Session(string(id))
		return nil
	})
	// The protocol has no word for an accepted prompt: a program that still
	// listens after a moment has accepted it.
	accept := time.AfterFunc(acceptAfter, func() { r.mail.put(r.accept) })
	defer accept.Stop()
	return r.conn.Prompt(ctx, sdk.PromptRequest{SessionId: id, Prompt: []sdk.ContentBlock{sdk.TextBlock(r.task.Prompt)}})
}

const acceptAfter = time.Second

// open opens the session: the one asked for or none.
func (r *run) open(ctx context.Context, can sdk.AgentCapabilities) (sdk.SessionId, *sdk.SessionModeState, error) {
	dir, none, meta := r.task.Workspace, []sdk.McpServer{}, r.meta()
	asked := sdk.SessionId(r.task.Session)
	switch {
	case asked == "":
		s, err := r.conn.NewSession(ctx, sdk.NewSessionRequest{Meta: meta, Cwd: dir, McpServers: none})
		return s.SessionId, s.Modes, err
	case can.SessionCapabilities.Resume != nil:
		s, err := r.conn.ResumeSession(ctx, sdk.ResumeSessionRequest{Meta: meta, SessionId: asked, Cwd: dir, McpServers: none})
		return asked, s.Modes, lostSession(err)
	case can.LoadSession:
		s, err := r.conn.LoadSession(ctx, sdk.LoadSessionRequest{Meta: meta, SessionId: asked, Cwd: dir, McpServers: none})
		return asked, s.Modes, lostSession(err)
	}
	return "", nil, turns.Fail(turns.ClassSessionLost, "the agent can't resume a session")
}

// meta is the protocol's place for what one program only understands; others
// skip it. Claude Code's adapter takes options there: a repository's settings
// and servers stay out, and who only reads has no tool that writes.
func (r *run) meta() map[string]any {
	options := map[string]any{"settingSources": []string{"user"}, "strictMcpConfig": true}
	if r.readOnly() {
		options["disallowedTools"] = []string{"Bash", "Write", "Edit", "NotebookEdit"}
	}
	text, _ := transcript.RoleText(r.task) // checked by Run
	return map[string]any{
		"claudeCode":   map[string]any{"options": options},
		"systemPrompt": map[string]any{"append": text},
	}
}

// mode sets the mode in which the program asks before it writes: a repository's
// settings may have chosen another.
func (r *run) mode(ctx context.Context, id sdk.SessionId, modes *sdk.SessionModeState) error {
	if modes == nil {
		return nil
	}
	wanted := []sdk.SessionModeId{"default", "auto"}
	if r.readOnly() {
		wanted = []sdk.SessionModeId{"read-only", "default"}
	}
	for _, want := range wanted {
		for _, m := range modes.AvailableModes {
			if m.Id != want {
				continue
			}
			if modes.CurrentModeId == want {
				return nil
			}
			_, err := r.conn.SetSessionMode(ctx, sdk.SetSessionModeRequest{SessionId: id, ModeId: want})
			return err
		}
	}
	return nil
}

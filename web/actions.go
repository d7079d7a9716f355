package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"rota/commands"
)

// action is a change that a form asks for: its fields, and where to go after it.
type action func(b *board, ctx context.Context, f fields) (commands.Result, error)

// fields are what a form sent.
type fields struct{ Key, ID, To, Text string }

var actions = map[string]action{
	"cancel": func(b *board, ctx context.Context, f fields) (commands.Result, error) {
		return b.Commands.Cancel(ctx, f.Key, f.ID)
	},
	"retry": func(b *board, ctx context.Context, f fields) (commands.Result, error) {
		return b.Commands.Retry(ctx, f.Key, f.ID)
	},
	"handoff": func(b *board, ctx context.Context, f fields) (commands.Result, error) {
		return b.Commands.Handoff(ctx, f.Key, f.ID, f.To)
	},
	"reply": func(b *board, ctx context.Context, f fields) (commands.Result, error) {
		return b.Commands.Reply(ctx, commands.ReplyAsk{Key: f.Key, Thread: f.ID, Text: f.Text, ToOwner: f.To == "owner"})
	},
	"clear": (*board).clear,
}

// act carries out a form's command and leads back to the page it came from.
func (b *board) act(w http.ResponseWriter, r *http.Request) {
	do, ok := actions[r.PathValue("verb")]
	switch {
	case !b.Admin:
		b.fail(w, r, http.StatusForbidden, "read-only: start the worker with --admin to change anything")
		return
	case !ok:
		b.fail(w, r, http.StatusNotFound, "there is no such action")
		return
	}
	if err := r.ParseForm(); err != nil {
		code := http.StatusBadRequest
		if _, big := errors.AsType[*http.MaxBytesError](err); big {
			code = http.StatusRequestEntityTooLarge
		}
		b.fail(w, r, code, "this form can't be read")
		return
	}
	if !b.fromOwnForm(r) {
		b.fail(w, r, http.StatusForbidden, "this form is not from a page of this board, or an old one: load the page again")
		return
	}
	f := fields{Key: r.PostFormValue("key"), ID: r.PostFormValue("id"), To: r.PostFormValue("to"), Text: r.PostFormValue("text")}
	result, err := do(b, r.Context(), f)
	b.leaveNote(w, r, b.noteOf(r, result, err))
	back := local(r.PostFormValue("back"))
	if err == nil && result.Turn != "" && r.PathValue("verb") == "retry" {
		back = turnURL(result.Turn)
	}
	http.Redirect(w, r, back, http.StatusSeeOther)
}

func (b *board) noteOf(r *http.Request, result commands.Result, err error) note {
	if err == nil {
		b.Log.Info("action from the board", "verb", r.PathValue("verb"), "turn", result.Turn, "text", result.Text)
		if result.Note != "" {
			result.Text += " (" + result.Note + ")"
		}
		return note{Text: result.Text}
	}
	if refused, ok := errors.AsType[*commands.Error](err); ok {
		if refused.Hint != "" {
			return note{Text: refused.Text + " (" + refused.Hint + ")", Bad: true}
		}
		return note{Text: refused.Text, Bad: true}
	}
	b.Log.Warn("action failed", "verb", r.PathValue("verb"), "err", err)
	return note{Text: "the store can't be written now; nothing is known of what came of it: look before you try again", Bad: true}
}

// clear ends what keeps a login from being used, and makes what waits for it due.
func (b *board) clear(ctx context.Context, f fields) (commands.Result, error) {
	if b.Config.Credentials == nil {
		return commands.Result{}, &commands.Error{Kind: commands.Unconfigured, Text: "this worker knows no credentials"}
	}
	changed, err := b.Config.Credentials.Clear(ctx, f.ID)
	if err != nil {
		return commands.Result{}, err
	}
	if !changed {
		return commands.Result{Already: true, Text: f.ID + " was not resting"}, nil
	}
	waiting, err := b.Store.WaitingFor(ctx, b.Config.Credentials.ServicesOf(f.ID))
	if err != nil {
		return commands.Result{}, err
	}
	for _, e := range waiting {
		if _, err := b.Commands.Retry(ctx, f.Key+":"+e.Turn, e.Turn); err != nil && commands.KindOf(err) == "" {
			return commands.Result{}, err
		}
	}
	return commands.Result{Text: fmt.Sprintf("cleared %s; %d waiting turns are due now", f.ID, len(waiting))}, nil
}

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rota/commands"
	"rota/turns"
)

// asker speaks Claude Code's protocol of a run with an open input: it asks whether it
// may run a command, runs it when it may, and ends with what it heard.
const asker = `#!/bin/sh
read -r prompt
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"fake"}'
echo '{"type":"assistant","message":{"model":"fake","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"touch made"}}]}}'
echo '{"type":"control_request","request_id":"r1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"touch made"},"tool_use_id":"t1"}}'
read -r answer || exit 71
case "$answer" in
*'"behavior":"allow"'*) touch made; heard="I was allowed to." ;;
*) heard=$(printf '%s' "$answer" | sed 's/.*"message":"\([^"]*\)".*/\1/') ;;
esac
echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1"}]}}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"'"$heard"'","stop_reason":"end_turn","session_id":"s-1"}'
cat > /dev/null
`

// A worker runs a Claude Code that asks: the question is listed, a person answers it
// on the command line, and the same run goes on with that answer.
func TestRespondToClaude(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ thread, answer, heard string }{
		{"yes", "yes", "I was allowed to."},
		{"no", "no", "This was not allowed."},
		{"words", "use the Makefile", "use the Makefile"},
	} {
		t.Run(c.thread, func(t *testing.T) {
			t.Parallel()
			r := askingClaude(t, longLease)
			turn := r.lone(c.thread, turns.Owner)
			q := r.question(turn)
			if _, said, code := r.enqueue("respond", q.ID, c.answer); code != 0 || !strings.Contains(said, "(respond): taken") {
				t.Errorf("respond: exit %d, %s", code, said)
			}
			r.wentOn(turn, c.heard, c.answer == "yes")
			if _, said, code := r.enqueue("respond", q.ID, "yes"); code != 3 {
				t.Errorf("answered twice: exit %d, %s", code, said)
			}
		})
	}
}

// A question that nobody answers within the limit of silence is closed, and the
// agent goes on as after a no.
func TestNobodyRespondsToClaude(t *testing.T) {
	t.Parallel()
	r := askingClaude(t, "{lease: 3s, start: 20s, silence: 2s, run: 90s, grace: 1s}")
	turn := r.lone("silent", turns.Owner)
	r.wentOn(turn, "This was not allowed.", false)
	items, err := r.store.DoneItems(t.Context(), turn)
	r.ok(err)
	closed := 0
	for _, i := range items {
		if i.Kind == turns.ItemRequest && i.State == turns.ItemCancelled && strings.HasSuffix(i.Title, "(nobody answered within 2s)") {
			closed++
		}
	}
	if closed != 1 {
		t.Errorf("items %+v", items)
	}
}

// askingClaude is a rig whose owner is the asker, with a worker.
func askingClaude(t *testing.T, limits string) *rig {
	t.Helper()
	r := newRig(t, solo(limits, "claude"))
	path := filepath.Join(r.dir, "asker")
	r.write(path, asker, 0o700)
	r.configure("{agent: command, command: ["+quoted(program("puppet"), r.dir)+", claude]}", fmt.Sprintf("{agent: claude, command: [%q], ask: true}", path))
	r.start("claude")
	return r
}

// question waits until the run of a turn asks, on the command line too.
func (r *rig) question(turn string) commands.Request {
	r.t.Helper()
	var list []commands.Request
	r.await("the question of "+turn, func() bool {
		list, _ = r.commands.Requests(r.t.Context(), turns.ThreadOf(turn))
		return len(list) == 1
	})
	if list[0].Turn != turn || list[0].Text != "Bash: touch made (yes, no, or why not)" {
		r.t.Errorf("asked %+v", list[0])
	}
	if out, said, code := r.enqueue("requests"); code != 0 || !strings.Contains(out, list[0].ID+"  "+list[0].Text) {
		r.t.Errorf("requests: exit %d, %s%s", code, out, said)
	}
	return list[0]
}

// wentOn: the one run of the turn ended with what it heard, and did what it was
// allowed to, nothing else.
func (r *rig) wentOn(turn, heard string, made bool) {
	r.t.Helper()
	u := r.ends(turn)
	text, err := r.store.Text(r.t.Context(), turn)
	r.ok(err)
	if u.State != turns.Completed || text != heard {
		r.t.Errorf("%s is %s and says %q, want %q", turn, u.State, text, heard)
	}
	if list := r.attempts(turn); len(list) != 1 || list[0].Deliveries != 1 {
		r.t.Errorf("it took the attempts %+v", list)
	}
	_, err = os.Stat(filepath.Join(r.dir, "data", "workspaces", "trees", turns.ThreadOf(turn), "made"))
	if (err == nil) != made {
		r.t.Errorf("the command was run: %v (%v)", err == nil, err)
	}
	if list, err := r.commands.Requests(r.t.Context(), ""); err != nil || len(list) > 0 {
		r.t.Errorf("still asked: %+v, %v", list, err)
	}
}

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// standIn is a program in the place of the real claude or codex. It reads the
// prompt, notes the run and prints what the real program printed in the situation
// that its login meets.
const standIn = `#!/bin/sh
cat > /dev/null
login="$ANTHROPIC_API_KEY$CLAUDE_CODE_OAUTH_TOKEN$CODEX_API_KEY"
: "${login:=none}"
while read -r text name play code; do
	[ "$text" = "$login" ] || continue
	printf '%%s %%s %%s %%s %%s\n' "$ROTA_ATTEMPT" "$ROTA_ROLE" "$ROTA_INTENT" %[2]s "$name" >> %[1]s/met
	if [ -e %[1]s/hold."$name" ]; then
		: > %[1]s/held."$name"
		while [ -e %[1]s/hold."$name" ]; do sleep 0.05; done
	fi
	[ "$play" = answer ] && play="%[1]s/%[2]s.answer.$ROTA_ROLE"
	cat "$play"
	[ "$code" -gt 1 ] && cat "$play" >&2 && code=1
	exit "$code"
done < %[1]s/%[2]s.meets
exit 70
`

// meeting says what a login meets: a situation of agents/testdata that ends with
// exit status 1, or an answer with the role's good verdict.
type meeting struct {
	login string // its text; none for the program's own sign-in
	name  string // in the ledger
	where string // the situation; empty for an answer
	echo  bool   // the program prints its login wherever it can
}

// newLoginRig is a rig whose services of these names run stand-ins of a kind of
// agent, which may be followed by more keys of the service; the others run puppets.
func newLoginRig(t *testing.T, s setup, kinds map[string]string) *rig {
	t.Helper()
	r := newRig(t, s)
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	for service, keys := range kinds {
		kind, more, _ := strings.Cut(keys, ", ")
		path := filepath.Join(r.dir, service)
		r.write(path, fmt.Sprintf(standIn, r.dir, service), 0o700)
		line := regexp.MustCompile(`(?m)^(  ` + service + `: \{)agent: command, command: \[[^\]]*\]`)
		if !line.Match(text) {
			t.Fatalf("no service %s in\n%s", service, text)
		}
		if more != "" {
			more = ", " + more
		}
		text = line.ReplaceAll(text, fmt.Appendf(nil, "${1}agent: %s, command: [%q]%s", kind, path, more))
		for role, outcome := range verdicts {
			r.write(filepath.Join(r.dir, service+".answer."+role), answer(t, kind, outcome, "all good"), 0o600)
		}
	}
	r.write(r.file, string(text), 0o600)
	return r
}

var verdicts = map[string]string{"owner": "done", "reviewer": "approve", "arbiter": "proceed"}

// write puts a file into place in one step.
func (r *rig) write(path, text string, mode os.FileMode) {
	r.t.Helper()
	err := os.WriteFile(path+".new", []byte(text), mode)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// recorded is what a real program printed in a situation.
func recorded(t *testing.T, kind, situation string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../agents/testdata", kind, situation, "stdout.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// answer is a recorded answer with another verdict in it.
func answer(t *testing.T, kind, outcome, text string) string {
	t.Helper()
	situation := map[string]string{"claude": "json_schema", "codex": "output_schema"}[kind]
	verdict := fmt.Sprintf(`{"outcome":%q,"text":%q}`, outcome, text)
	was := recorded(t, kind, situation)
	now := strings.NewReplacer(`{"verdict":"accept"}`, verdict, `{\"verdict\":\"accept\"}`, strings.ReplaceAll(verdict, `"`, `\"`)).Replace(was)
	if now == was {
		t.Fatalf("the recording %s/%s has no verdict to change", kind, situation)
	}
	return now
}

// meets says what the logins of a service meet from now on.
func (r *rig) meets(service, kind string, list ...meeting) {
	r.t.Helper()
	var b strings.Builder
	for _, m := range list {
		play, code := "answer", 0
		if m.where != "" || m.echo {
			play = filepath.Join(r.dir, service+"."+m.name+".play")
			text := ""
			if m.where == "" {
				text = answer(r.t, kind, "approve", "approved with "+m.login)
			} else {
				text, code = recorded(r.t, kind, m.where), 1
			}
			if m.echo {
				text, code = echoed(kind, text, m.login), 3*code
			}
			r.write(play, text, 0o600)
		}
		fmt.Fprintf(&b, "%s %s %s %d\n", m.login, m.name, play, code)
	}
	r.write(filepath.Join(r.dir, service+".meets"), b.String(), 0o600)
}

// echoed is an output in which the program shows its login: in its error, and in
// the call of a tool.
func echoed(kind, text, login string) string {
	for _, sentence := range []string{"Invalid API key", "unexpected status 401 Unauthorized"} {
		text = strings.ReplaceAll(text, sentence, sentence+" "+login)
	}
	tool := `{"type":"assistant","message":{"id":"msg_tool","model":"m","content":[{"type":"text","text":"I have LOGIN"},` +
		`{"type":"tool_use","id":"t_1","name":"Bash","input":{"command":"echo LOGIN"}}]}}`
	after := `{"type":"system","subtype":"init"`
	if kind == "codex" {
		tool = `{"type":"item.started","item":{"id":"item_9","type":"command_execution","command":"echo LOGIN","status":"in_progress"}}`
		after = `{"type":"turn.started"`
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(line)
		if strings.HasPrefix(line, after) {
			b.WriteString(strings.ReplaceAll(tool, "LOGIN", login) + "\n")
		}
	}
	return b.String()
}

// met lists the runs of stand-ins for a turn: attempt, role, intent, service, login.
func (r *rig) met(turn string) []string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dir, "met"))
	if err != nil && !os.IsNotExist(err) {
		r.t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, turn+".") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

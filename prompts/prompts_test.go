package prompts

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rota/pairs"
	"rota/turns"
)

var update = flag.Bool("update", false, "write the golden files")

// inputs are the prompts of the golden files: each intent plainly and with all there is.
func inputs() map[string]Input {
	all := map[string]Input{}
	for _, i := range turns.Intents {
		all[string(i)] = Input{Role: i.Role(), Intent: i, Task: "Mend the login."}
		all[string(i)+"-full"] = Input{
			Role: i.Role(), Intent: i, Task: "Mend the login.\n\n## Your verdict\nVERDICT: done", Reminder: true, Structured: i == turns.Review,
			Messages: []turns.Message{{Text: "Also the logout."}, {Text: "Today.", Note: "may have been seen already"}},
			History: []Said{
				{turns.Owner, turns.Done, "Mended.\nTests pass."},
				{turns.Reviewer, turns.Changes, "login.go:12: the error is dropped."},
			},
			Previous: "I have edited login.go and now run the tests.",
		}
	}
	return all
}

func TestGolden(t *testing.T) {
	for name, in := range inputs() {
		got, err := Render("", in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		file := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s (-update writes it):\n%s", name, file, got)
		}
	}
}

// TestWhatEveryPromptSays does not depend on the golden files.
func TestWhatEveryPromptSays(t *testing.T) {
	for name, in := range inputs() {
		got, err := Render("", in)
		if err != nil {
			t.Fatal(err)
		}
		says := func(words string) bool { return strings.Contains(got, words) }
		if !strings.HasPrefix(got, "You are the "+string(in.Role)) || !says("> Mend the login.") {
			t.Errorf("%s: who or what is missing", name)
		}
		if says("must not change anything") != (in.Role != turns.Owner) {
			t.Errorf("%s: right to change the workspace", name)
		}
		for _, r := range turns.Roles {
			for _, o := range turns.Outcomes(r) {
				_, err := turns.ParseOutcome(in.Role, string(o))
				if says("\n- "+string(o)+": ") != (err == nil) {
					t.Errorf("%s: choice of %s", name, o)
				}
				if meanings[o] == "" {
					t.Errorf("%s means nothing", o)
				}
			}
		}
		if says("`"+pairs.VerdictLine("CHOICE")+"`") == in.Structured || says("structured answer") != in.Structured {
			t.Errorf("%s: how to give the verdict", name)
		}
		for _, words := range []string{"Also the logout.", "may have been seen", "the error is dropped", "now run the tests", "had no valid verdict"} {
			if says(words) != strings.HasSuffix(name, "-full") {
				t.Errorf("%s: %q", name, words)
			}
		}
	}
}

// TestPromptIsNoVerdict: an agent that repeats its prompt has given no verdict.
func TestPromptIsNoVerdict(t *testing.T) {
	for name, in := range inputs() {
		got, err := Render("", in)
		if err != nil {
			t.Fatal(err)
		}
		if o, err := pairs.ParseVerdict(in.Role, got); err == nil {
			t.Errorf("%s: %s", name, o)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	for name, in := range map[string]Input{
		"no role":                {Intent: turns.Work},
		"no intent":              {Role: turns.Owner},
		"role against intent":    {Role: turns.Owner, Intent: turns.Review},
		"another role's outcome": {Role: turns.Owner, Intent: turns.Work, Outcomes: []turns.Outcome{turns.Approve}},
	} {
		if got, err := Render("", in); err == nil || got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestOwnTemplates(t *testing.T) {
	dir := t.TempDir()
	own := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	work := Input{Role: turns.Owner, Intent: turns.Work, Task: "Mend it."}
	review := Input{Role: turns.Reviewer, Intent: turns.Review, Task: "Mend it."}

	own("owner-work.md", "{{.Role}}, do: {{.Task}}{{template \"verdict\" .}}")
	if got, err := Render(dir, work); err != nil || !strings.HasPrefix(got, "owner, do: Mend it.\n## Your verdict\n") {
		t.Errorf("own template: %q, %v", got, err)
	}
	builtIn, _ := Render("", review)
	if got, err := Render(dir, review); err != nil || got != builtIn {
		t.Errorf("a template without a file of its own: %q, %v", got, err)
	}
	if err := Check(dir); err != nil {
		t.Errorf("good templates: %v", err)
	}
	for _, bad := range []string{"{{.Rolle}}", "{{if}}", "{{template \"nothing\" .}}", " \n"} {
		own("owner-work.md", bad)
		if got, err := Render(dir, work); err == nil {
			t.Errorf("template %q gives %q", bad, got)
		}
		if err := Check(dir); err == nil || !strings.Contains(err.Error(), "owner-work.md") {
			t.Errorf("check of %q: %v", bad, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "owner-work.md")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "owner-work.md"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := Render(dir, work); err == nil {
		t.Errorf("an unreadable file was passed over: %q", got)
	}
}

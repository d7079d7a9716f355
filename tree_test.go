package rota_test

import (
	"bytes"
	"go/ast"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// banned are words that say nothing; no exported name, package or file has them.
var banned = []string{"manager", "helper", "util", "common", "base", "processor", "data", "info"}

// borrowed are exported names with a banned word that is not ours: it is what
// another program calls the thing. The key is folder and name.
var borrowed = map[string]string{
	"agents/claude.BaseURL":       "the program's own setting",
	"agents/codex.BaseURL":        "the program's own setting",
	"internal/config.BaseURL":     "as the programs call it",
	"internal/config.Data":        "the key data of rota.yaml, the folder of the embedded store",
	"internal/config.DefaultData": "as Data",
	"workspaces.Base":             "git's word for the commit a branch starts at",
	"workspaces.Common":           "git's word for the folder that worktrees share",
}

// isBorrowed also lets every package implement asynq.Logger, which has Info.
func isBorrowed(dir, name string) bool { return name == "Info" || borrowed[dir+"."+name] != "" }

func TestNames(t *testing.T) {
	for _, file := range sources(t) {
		stem := strings.TrimSuffix(path.Base(file.path), ".go")
		for _, word := range append(strings.Split(stem, "_"), file.syntax.Name.Name) {
			if isBanned(word) {
				t.Errorf("%s: %q is a banned word in a file's or package's name", file.path, word)
			}
		}
		if file.test() {
			continue
		}
		for _, name := range exported(file.syntax) {
			if !isBorrowed(file.dir, name) && slices.ContainsFunc(camelWords(name), isBanned) {
				t.Errorf("%s: %s has a banned word in its name", file.path, name)
			}
		}
	}
}

func TestNamesAreSplitIntoWords(t *testing.T) {
	for name, want := range map[string]bool{
		"TurnManager": true, "BaseURL": true, "ParseUtils": true, "HTTPHelper": true, "DataDir": true, "FileInfo": true,
		"Database": false, "Metadata": false, "Informed": false, "Basement": false, "TurnID": false,
	} {
		if got := slices.ContainsFunc(camelWords(name), isBanned); got != want {
			t.Errorf("%s (%v): banned %v, want %v", name, camelWords(name), got, want)
		}
	}
}

func isBanned(word string) bool {
	word = strings.ToLower(word)
	return slices.Contains(banned, word) || slices.Contains(banned, strings.TrimSuffix(word, "s"))
}

// camelWords splits TurnID into Turn, ID.
func camelWords(name string) []string {
	var words []string
	for i, r := range name {
		runes := []rune(name)
		upper := unicode.IsUpper(r)
		afterLower := i > 0 && unicode.IsLower(runes[i-1])
		beforeLower := i > 0 && i+1 < len(runes) && unicode.IsLower(runes[i+1])
		if i == 0 || upper && (afterLower || beforeLower) {
			words = append(words, "")
		}
		words[len(words)-1] += string(r)
	}
	return words
}

// exported returns the exported names that a file declares, with the fields and
// methods of its types.
func exported(file *ast.File) []string {
	var names []string
	keep := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id != nil && id.IsExported() {
				names = append(names, id.Name)
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.FuncDecl:
			keep(n.Name)
			return false
		case *ast.TypeSpec:
			keep(n.Name)
		case *ast.ValueSpec:
			keep(n.Names...)
		case *ast.StructType:
			for _, field := range n.Fields.List {
				keep(field.Names...)
			}
		case *ast.InterfaceType:
			for _, method := range n.Methods.List {
				keep(method.Names...)
			}
		}
		return true
	})
	return names
}

func TestEveryPackageHasAComment(t *testing.T) {
	commented := map[string]bool{}
	for _, file := range sources(t) {
		if !file.test() {
			commented[file.dir] = commented[file.dir] || file.syntax.Doc != nil
		}
	}
	for dir, ok := range commented {
		if !ok {
			t.Errorf("%s: no file has a package comment that tells a newcomer what it is for", dir)
		}
	}
}

// secrets are the shapes of real keys. A made-up key in a test says on its line
// that it is fake.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`sk-ant-[a-z]+[0-9]{2}-[A-Za-z0-9_-]{20,}`),
	regexp.MustCompile(`\bsk-(proj-)?[A-Za-z0-9]{32,}`),
	regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9_]{40,}`),
	regexp.MustCompile(`\bAKIA[0-9A-Z]{16}\b`),
	regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}`),
	regexp.MustCompile(`\bxox[abprs]-[0-9A-Za-z-]{20,}`),
	regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----\s*$`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{20,}\.eyJ[A-Za-z0-9_-]{20,}\.[A-Za-z0-9_-]{20,}`),
}

// machine are absolute paths of the machines on which this was written.
var machine = regexp.MustCompile(`(^|[^A-Za-z0-9_.\-/}])/(work|root|tmp/h)/`)

func TestNothingPrivateIsCommitted(t *testing.T) {
	for _, name := range tree(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			continue // not a text
		}
		if !suspicious(text) {
			continue
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			if what := private(line); what != "" {
				t.Errorf("%s:%d: %s", name, number, what)
			}
		}
	}
}

// marks are in every text that private could object to. Looking for them first
// keeps the test quick on long recordings.
var marks = []string{"work/", "root/", "tmp/h/", "sk-", "gh", "AKIA", "AIza", "xox", "PRIVATE KEY", "eyJ", "github_pat_"}

func suspicious(text []byte) bool {
	return slices.ContainsFunc(marks, func(mark string) bool { return bytes.Contains(text, []byte(mark)) })
}

// private says what a line must not contain, or "".
func private(line string) string {
	if machine.MatchString(line) {
		return "a path of a machine"
	}
	if strings.Contains(strings.ToLower(line), "fake") {
		return ""
	}
	for _, shape := range secrets {
		if shape.MatchString(line) {
			return "the shape of a secret; a made-up one says on its line that it is fake"
		}
	}
	return ""
}

func TestPrivateIsFound(t *testing.T) {
	slash := "/"
	key := strings.Repeat("aB3", 14)
	for line, want := range map[string]bool{
		`cd ` + slash + `root/x`:                    true,
		`"` + slash + `work/main"`:                  true,
		`https://example.com/work/1`:                false,
		`homework/root/x`:                           false,
		`token = "sk-ant-` + `api03-` + key + `"`:   true,
		`token = "sk-` + key + `"`:                  true,
		`token = "sk-` + key + `" // fake`:          false,
		`token = "sk-not-a-key"`:                    false,
		"-----BEGIN RSA" + " PRIVATE KEY-----\n":    true,
		`"-----BEGIN PRIVATE KEY-----", "x"`:        false,
		"AKIA" + strings.ToUpper(key[:12]) + "WXYZ": true,
	} {
		if got := suspicious([]byte(line)) && private(line) != ""; got != want {
			t.Errorf("%q: found %v, want %v", line, got, want)
		}
	}
}

// ignoredFolders returns the folders in the root that .gitignore keeps out.
func ignoredFolders(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(".gitignore")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "/") && strings.HasSuffix(line, "/") {
			folders = append(folders, strings.Trim(line, "/"))
		}
	}
	return folders
}

// TestDependenciesAreExplained holds docs/dependencies.md against go.mod.
func TestDependenciesAreExplained(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile("docs/dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	direct := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^(?:require )?\s*(\S+\.\S+/\S+) v\S+$`).FindAllStringSubmatch(string(mod), -1) {
		direct[match[1]] = true
	}
	explained := map[string]bool{}
	for _, match := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(doc), -1) {
		explained[match[1]] = true
	}
	if len(direct) < 5 {
		t.Fatalf("only %d modules read from go.mod", len(direct))
	}
	for name := range direct {
		if !explained[name] {
			t.Errorf("docs/dependencies.md does not say why %s is needed", name)
		}
	}
	for name := range explained {
		if !direct[name] {
			t.Errorf("docs/dependencies.md explains %s, which go.mod does not need directly", name)
		}
	}
}

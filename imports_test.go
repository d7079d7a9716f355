// Package rota_test holds the tests about the source tree itself: who may import
// whom, how things are named, and what must never be committed.
package rota_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "rota"

// Third-party modules, by what they are for.
const (
	redisClient = "github.com/redis/go-redis/v9"
	taskQueue   = "github.com/hibiken/asynq"
)

// rule says what the packages in and below a folder may import. The rule of the
// longest matching folder applies. An entry stands for a package and everything
// below it.
type rule struct {
	dir   string
	ours  []string // the only packages of ours it may import, besides its own folder; everything: all but never
	never []string // packages of ours it may not import
	third []string // the only modules it may import; everything: all
	why   string
}

var everything = []string{"*"}

// outside is what holds everything together and knows all; what it is made of
// must not know it.
var outside = []string{"cmd", "handlers", "scheduler", "web", "integration"}

// imports is the table of docs/architecture.md. Test files are free, except
// that nothing but the integration tests may import cmd.
var imports = []rule{
	{dir: "turns", why: "the domain knows nobody"},
	{dir: "turns/store", ours: []string{"turns", "internal/pipeline"}, third: []string{redisClient}, why: "the domain in Redis, nothing else"},
	{dir: "pairs", ours: []string{"turns"}, why: "the workflow is pure"},
	{dir: "tasks", ours: []string{"turns", "internal/pipeline"}, third: []string{taskQueue, redisClient}, why: "tasks carry turns, they don't read them"},
	{dir: "agents", ours: []string{"turns", "internal"}, third: everything, why: "an agent carries out one run and decides nothing"},
	{dir: "prompts", ours: []string{"turns", "pairs"}, why: "a prompt is written from the turn alone"},
	{dir: "commands", ours: everything, never: outside, third: everything, why: "what is asked of the queue doesn't know who asks"},
	{dir: "credentials", ours: everything, never: outside, third: everything, why: "logins don't know who uses them"},
	{dir: "workspaces", ours: everything, never: outside, third: everything, why: "folders don't know who works in them"},
	{dir: "handlers", ours: everything, never: []string{"scheduler", "cmd", "web", "integration"}, third: everything, why: "handlers and scheduler meet only in the store"},
	{dir: "scheduler", ours: everything, never: []string{"handlers", "cmd", "web", "integration", "agents"}, third: everything, why: "handlers and scheduler meet only in the store"},
	{dir: "web", ours: everything, never: []string{"handlers", "cmd", "integration"}, third: everything, why: "the board reads the store and carries out nothing"},
	{dir: "internal", ours: everything, never: outside, third: everything, why: "plumbing doesn't know the house"},
	{dir: "internal/pipeline", third: []string{redisClient}, why: "it knows only the client that it mends"},
	{dir: "internal/redistest", third: everything, why: "a Redis for tests knows nothing of turns"},
	{dir: "cmd", ours: everything, never: []string{"integration"}, third: everything, why: "only cmd knows all"},
	{dir: "integration", ours: everything, third: everything, why: "tests from the outside"},
	{dir: "model", ours: []string{"turns", "pairs", "handlers", "scheduler", "tasks", "internal"}, never: []string{"turns/store"}, why: "the model is a twin of what it models, over the pure domain"},
	{dir: "bench", ours: everything, third: everything, why: "it measures everything"},
	{dir: "deploy", third: everything, why: "files and the test that reads them"},
	{dir: ".", third: everything, why: "tests about the tree"},
}

func TestImports(t *testing.T) {
	for _, file := range sources(t) {
		r, ok := ruleFor(file.dir)
		if !ok {
			t.Errorf("%s: no rule for this folder; say in imports_test.go what it may import", file.path)
			continue
		}
		for _, spec := range file.syntax.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if reason := r.refuses(file, name); reason != "" {
				t.Errorf("%s imports %s: %s (%s)", file.path, name, reason, r.why)
			}
		}
	}
}

func TestRulesRefuse(t *testing.T) {
	for _, row := range []struct {
		path, name string
		refused    bool
	}{
		{"turns/turn.go", "time", false},
		{"turns/turn.go", "rota/turns/store", true},
		{"turns/turn.go", redisClient, true},
		{"turns/store/open.go", "rota/turns", false},
		{"turns/store/open.go", redisClient, false},
		{"turns/store/open.go", taskQueue, true},
		{"turns/store/open.go", "rota/pairs", true},
		{"turns/store/open_test.go", "rota/internal/redistest", false},
		{"turns/store/open_test.go", "rota/cmd/worker", true},
		{"pairs/table.go", "rota/turns/store", true},
		{"agents/claude/run.go", "rota/agents", false},
		{"agents/claude/run.go", "rota/handlers", true},
		{"handlers/attempt.go", "rota/scheduler", true},
		{"scheduler/relay.go", "rota/handlers", true},
		{"scheduler/relay.go", "rota/tasks", false},
		{"credentials/rest.go", "rota/handlers", true},
		{"web/board.go", "rota/handlers", true},
		{"internal/config/load.go", "rota/cmd/worker", true},
		{"cmd/worker/main.go", "rota/handlers", false},
	} {
		r, ok := ruleFor(path.Dir(row.path))
		if !ok {
			t.Fatalf("no rule for %s", row.path)
		}
		file := source{path: row.path, dir: path.Dir(row.path)}
		if reason := r.refuses(file, row.name); (reason != "") != row.refused {
			t.Errorf("%s imports %s: refused %v (%s), want %v", row.path, row.name, reason != "", reason, row.refused)
		}
	}
}

// refuses returns why a file may not import a package, or "".
func (r rule) refuses(file source, name string) string {
	inside, ours := strings.CutPrefix(name, module+"/")
	switch {
	case file.test() && ours && within(inside, "cmd") && !within(file.dir, "cmd") && !within(file.dir, "integration"):
		return "only cmd and the integration tests may import cmd"
	case file.test():
		return ""
	case ours && slices.ContainsFunc(r.never, func(dir string) bool { return within(inside, dir) }):
		return "this one never"
	case ours && !allowed(r.ours, inside) && !ownFolder(r, inside):
		return "of ours only " + list(r.ours)
	case !ours && strings.Contains(strings.Split(name, "/")[0], ".") && !allowed(r.third, name):
		return "of other modules only " + list(r.third)
	}
	return ""
}

// ownFolder lets a folder import itself, unless a rule of its own separates the
// imported part, as with turns and turns/store.
func ownFolder(r rule, inside string) bool {
	other, _ := ruleFor(inside)
	return within(inside, r.dir) && other.dir == r.dir
}

func allowed(list []string, name string) bool {
	return slices.ContainsFunc(list, func(entry string) bool { return entry == "*" || allowedBelow(entry, name) })
}

// allowedBelow is within, but "turns" alone does not open turns/store.
func allowedBelow(entry, name string) bool {
	if entry == "turns" {
		return name == entry
	}
	return within(name, entry)
}

func list(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

func within(name, dir string) bool {
	return name == dir || dir == "." || strings.HasPrefix(name, dir+"/")
}

// ruleFor returns the rule of the longest matching folder.
func ruleFor(dir string) (best rule, found bool) {
	for _, r := range imports {
		matches := within(dir, r.dir) && r.dir != "." || dir == r.dir
		if matches && len(r.dir) >= len(best.dir) {
			best, found = r, true
		}
	}
	return best, found
}

// source is one parsed Go file of this module.
type source struct {
	path   string // from the root, with slashes
	dir    string
	syntax *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// sources parses all Go files of the module.
func sources(t *testing.T) []source {
	t.Helper()
	var files []source
	set := token.NewFileSet()
	for _, name := range tree(t) {
		if !strings.HasSuffix(name, ".go") || strings.Contains("/"+name, "/testdata/") || otherModule(name) {
			continue
		}
		syntax, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		files = append(files, source{path: name, dir: path.Dir(name), syntax: syntax})
	}
	if len(files) < 10 {
		t.Fatalf("only %d Go files found; is this the root?", len(files))
	}
	return files
}

// otherModule reports whether the file belongs to a module below this one.
func otherModule(name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if found, _ := filepath.Glob(filepath.Join(dir, "go.mod")); len(found) > 0 {
			return true
		}
	}
	return false
}

// tree lists the files of the repository without what .gitignore keeps out.
func tree(t *testing.T) []string {
	t.Helper()
	ignored := ignoredFolders(t)
	var files []string
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		name = filepath.ToSlash(name)
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == ".git" || slices.Contains(ignored, name)):
			return filepath.SkipDir
		case entry.Type().IsRegular():
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"rota/internal/redistest"
)

// TestFaults plays testdata/*.txt: one fault each, with real workers, agents and a
// Redis of its own. The words of the stories are in faults_words_test.go, the
// faults of Redis, asynq and the disk in faults_redis_test.go.
func TestFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			s := &stage{t: t, links: map[string]*redistest.Link{}, workers: map[string]*workerProcess{}}
			words := map[string]func(*testscript.TestScript, bool, []string){}
			for name, do := range s.words() {
				words[name] = func(ts *testscript.TestScript, neg bool, args []string) {
					if neg {
						ts.Fatalf("%s can't be negated", name)
					}
					do(args)
				}
			}
			testscript.RunT(inline{t}, testscript.Params{Files: []string{file}, Cmds: words})
			if !s.verified && !t.Skipped() {
				t.Error("the story does not end with verify")
			}
		})
	}
}

// Every story is in a row of docs/failures.md.
func TestEveryStoryIsInTheTable(t *testing.T) {
	text, err := os.ReadFile("../docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		row := regexp.MustCompile("(?m)^\\| .*`TestFaults` [a-z0-9, -]*\\b" + name + "[ ,]")
		if !row.Match(text) {
			t.Errorf("%s is in no row", name)
		}
	}
}

// inline runs a script in the test that asks for it, so that its words may use that
// test.
type inline struct{ *testing.T }

func (inline) Parallel()                                 {}
func (i inline) Run(_ string, body func(t testscript.T)) { body(i) }
func (inline) Verbose() bool                             { return testing.Verbose() }

package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every row of docs/failures.md names tests that exist.
func TestEveryFailureNamesItsTest(t *testing.T) {
	text, err := os.ReadFile("../docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	rows := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| What happens") {
			continue
		}
		rows++
		names := regexp.MustCompile("`(?:([a-z/]+): )?(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(line, -1)
		if len(names) == 0 {
			t.Errorf("no test in %s", line)
		}
		for _, n := range names {
			dir := n[1]
			if dir == "" {
				dir = "integration"
			}
			if !strings.Contains(testsOf(t, dir, known), "\nfunc "+n[2]+"(") {
				t.Errorf("there is no %s in %s", n[2], dir)
			}
		}
	}
	if rows < 30 {
		t.Errorf("%d rows were found", rows)
	}
}

// testsOf returns the text of a folder's tests.
func testsOf(t *testing.T, dir string, known map[string]string) string {
	t.Helper()
	if known[dir] == "" {
		files, err := filepath.Glob(filepath.Join("..", dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			known[dir] += string(text)
		}
	}
	return known[dir]
}

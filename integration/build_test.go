package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// programs is the folder of the built programs: worker and puppet.
var programs string

// TestMain builds the programs once. ROTA_BIN names a folder with a worker that
// was built before; the puppet is always built.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("4") // these tests mostly wait
	}
	dir, err := os.MkdirTemp("", "rota-programs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs = dir
	code := 1
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, "build the programs:", err)
	} else {
		code = m.Run()
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func build() error {
	names := []string{"rota/integration/puppet"}
	if built := os.Getenv("ROTA_BIN"); built == "" {
		names = append(names, "rota/cmd/worker")
	} else if err := os.Symlink(filepath.Join(built, "worker"), program("worker")); err != nil {
		return err
	}
	out, err := exec.Command("go", append([]string{"build", "-o", programs + "/"}, names...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func program(name string) string { return filepath.Join(programs, name) }

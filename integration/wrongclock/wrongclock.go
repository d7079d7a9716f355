// Package wrongclock builds programs whose own clock is wrong.
//
// Such a program is compiled with a time.Now that adds a constant. So everything in
// it has the wrong clock, also what is not ours (asynq, go-redis), and nothing in
// the program knows of it. Durations are not touched: the monotonic clock goes on
// as it is.
package wrongclock

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The place in package time where the system's clock is read, and what is put
// there. The linker sets shift.
const (
	reads  = "\tsec, nsec, mono := runtimeNow()\n"
	shifts = reads + "\tsec += shifted\n"
	more   = `
var shift string

var shifted = func() int64 {
	d, err := ParseDuration(shift)
	if err != nil {
		panic(err)
	}
	return int64(d / Second)
}()
`
)

// Build builds the main package pkg into the file out, with a clock that is off by
// so many whole seconds. The first build of a machine compiles the standard library
// too, which takes a minute or two; later ones link.
func Build(out, pkg string, off time.Duration) error {
	env, err := exec.Command("go", "env", "GOROOT", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("find the standard library: %w", err)
	}
	root, cache, _ := strings.Cut(strings.TrimSpace(string(env)), "\n")
	// Always the same place, so that the compiler finds in its cache what it has built.
	dir := filepath.Join(cache, "rota-wrong-clock")
	original := filepath.Join(root, "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		return err
	}
	changed := strings.Replace(string(text), "func Now() Time {\n"+reads, "func Now() Time {\n"+shifts, 1) + more
	if !strings.Contains(changed, shifts) {
		return errors.New("this Go's time.Now is another one than expected")
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: filepath.Join(dir, "time.go")}})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, text := range map[string]string{"time.go": changed, "overlay.json": string(overlay)} {
		if err := write(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	cmd := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-ldflags", "-X time.shift="+off.String(), "-o", out, pkg)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s with a wrong clock: %w\n%s", pkg, err, text)
	}
	return nil
}

// write replaces a file in one step: another test may be building.
func write(name, text string) error {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

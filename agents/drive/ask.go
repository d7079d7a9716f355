package drive

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"rota/agents/process"
)

// AskBound is how long a program may take to say its version.
const AskBound = 30 * time.Second

// Ask runs a program without a prompt and returns what it printed. The error
// says what to do.
func Ask(ctx context.Context, env map[string]string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, AskBound)
	defer cancel()
	p, err := process.Start(ctx, process.Spec{Argv: argv, Dir: os.TempDir(), Env: env})
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for {
		line, err := p.ReadLine()
		if err == io.EOF {
			break
		}
		if err != nil {
			p.Kill()
			break
		}
		out.Write(line)
		out.WriteByte('\n')
	}
	exit := p.Wait()
	if !exit.OK() {
		why := exit.Err
		if why == nil {
			why = fmt.Errorf("exit status %d: %s", exit.Code, strings.TrimSpace(exit.Stderr))
		}
		return "", fmt.Errorf("%s does not run (%w); reinstall it or correct its path", strings.Join(argv, " "), why)
	}
	return strings.TrimSpace(out.String()), nil
}

// CheckSwitches asks a program for its help and returns an error unless it
// knows the switches that keep a run safe.
func CheckSwitches(ctx context.Context, env map[string]string, switches []string, argv ...string) error {
	text, err := Ask(ctx, env, argv...)
	if err != nil {
		return err
	}
	for _, s := range switches {
		if !strings.Contains(text, s) {
			return fmt.Errorf("%s does not know %s, which keeps a run safe; update it", argv[0], s)
		}
	}
	return nil
}

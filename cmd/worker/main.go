// Command worker carries out the turns of one service: it claims attempts, runs
// agents and records what came of them. Each worker is also a relay, a reconciler
// and an HTTP side.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(New(os.Stdout, os.Stderr).Run(context.Background(), os.Args[1:]))
}

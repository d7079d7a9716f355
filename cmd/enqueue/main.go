// Command enqueue is the command line for people and scripts: it gives work to
// the queue, says what becomes of it and changes its course.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit((&Main{}).Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

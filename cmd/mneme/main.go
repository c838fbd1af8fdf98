// Command mneme mounts versioned memory stores for AI agents as directories,
// and reads, writes and inspects them from the command line.
package main

import (
	"context"
	"os"

	"mneme/internal/fusedev"
)

func main() {
	if fusedev.IsNotifier() {
		fusedev.RunNotifier()
	}
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Package bench measures mounts against ext4 and others, and what agents without a shell have
// against other servers, and writes docs/BENCHMARKS.md, BENCHMARKS-WRITES.md,
// BENCHMARKS-PAST.md, BENCHMARKS-AGENTS.md and BENCHMARKS-SERVER.md.
package bench

import (
	"os"
	"testing"

	"mneme/tests/harness"
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]func(args []string) error{
		"bare":    bareChild,
		"bench":   benchChild,
		"handler": handlerChild,
	}))
}

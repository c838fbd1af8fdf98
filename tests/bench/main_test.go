// Package bench measures mounts against ext4 and others, and writes
// docs/BENCHMARKS.md and docs/BENCHMARKS-WRITES.md.
package bench

import (
	"os"
	"testing"

	"mneme/tests/harness"
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]func(args []string) error{
		"bare":  bareChild,
		"bench": benchChild,
	}))
}

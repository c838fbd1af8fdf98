// Package crash holds what is left after kills, power cuts, damage and unmounts in
// the middle of things.
package crash

import (
	"os"
	"testing"

	"mneme/tests/harness"
)

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, map[string]func(args []string) error{
		"steward": stewardChild,
	}))
}

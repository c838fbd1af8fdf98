// Package skip is how tests are left out that this machine cannot run. Under
// MNEME_NOSKIP=1, which `make test` and CI set, they fail instead, so that
// nothing is left out unseen.
package skip

import (
	"os"
	"testing"
)

// Because ends the test: skipped for that reason, or failed under
// MNEME_NOSKIP=1.
func Because(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("MNEME_NOSKIP") == "1" {
		t.Fatalf("would be skipped, but MNEME_NOSKIP=1: %s", reason)
	}
	t.Skip(reason)
}

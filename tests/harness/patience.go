package harness

import (
	"os"
	"testing"
	"time"
)

var (
	ScriptPatience = Slowness * 30 * time.Second // of one script on a mount
	MountPatience  = Slowness * 20 * time.Second // until a mount is there, or gone
)

// Torture makes tests run long.
func Torture() bool { return os.Getenv("MNEME_TORTURE") == "1" }

// Times is how often a test repeats something.
func Times(usually, tortured int) int {
	if Torture() {
		return tortured
	}
	return usually
}

// LongPatience is for scripts that work through a whole tree.
const LongPatience = 5 * time.Minute

// AwaitUntil waits until something is the case.
func AwaitUntil(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(ScriptPatience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", ScriptPatience, what)
		}
	}
}

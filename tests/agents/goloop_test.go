// Package agents tests what mneme gives agents without a shell, with the clients of others.
package agents

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mneme/internal/testing/skip"
	"mneme/tests/harness"
)

// TestGoLoop runs the tests of the adapter to the Go SDK's tool loop, which is a module of its
// own, with the SDK as its go.sum has it.
func TestGoLoop(t *testing.T) {
	testModule(t, filepath.Join("..", "..", "integrations", "anthropic-go"))
}

// TestGoSDK runs the tests of the memory-stores API with the SDKs that it is made for, which are another.
func TestGoSDK(t *testing.T) { testModule(t, filepath.Join("..", "sdk")) }

func testModule(t *testing.T, dir string) {
	run := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "MNEME_TEST_PROGRAM="+harness.Daemon)
		return cmd.CombinedOutput()
	}
	if out, err := run("mod", "download"); err != nil {
		skip.Because(t, fmt.Sprintf("no modules: %v: %s", err, out))
	}
	// The SDKs take a minute to compile, a fourth less without optimization.
	if out, err := run("test", "-vet=off", "-count=1", "-gcflags=github.com/anthropics/...=-N -l", "./..."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

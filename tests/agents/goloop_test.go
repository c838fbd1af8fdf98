// Package agents tests what mneme gives agents without a shell, with the clients of others.
package agents

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"mneme/internal/testing/skip"
)

// TestGoLoop runs the tests of the adapter to the Go SDK's tool loop, which is a module of its
// own, with the SDK as its go.sum has it.
func TestGoLoop(t *testing.T) {
	dir := filepath.Join("..", "..", "integrations", "anthropic-go")
	run := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	if out, err := run("mod", "download"); err != nil {
		skip.Because(t, fmt.Sprintf("no modules: %v: %s", err, out))
	}
	if out, err := run("test", "-vet=off", "./..."); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

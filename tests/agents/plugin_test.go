package agents

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"mneme/tests/harness"
)

// TestPluginPython runs the tests of the Python class for `mneme plugin`.
func TestPluginPython(t *testing.T) {
	harness.NeedTools(t, "python3")
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	// -B: nothing is written beside the sources.
	cmd := exec.CommandContext(ctx, "python3", "-B", "-W", "error", "-m", "unittest", "-v")
	cmd.Dir = filepath.Join("..", "..", "integrations", "toolang")
	cmd.Env = append(os.Environ(), "MNEME_PROGRAM="+harness.Daemon, "GORACE=atexit_sleep_ms=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

package harness

import (
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// AnyPort is an address of this machine.
const AnyPort = "127.0.0.1:0"

// Serve starts `mneme serve` at an address, and returns its URL. It ends with the test, which fails if it
// has panicked.
func (e *Env) Serve(t testing.TB, address string) (url string) {
	t.Helper()
	cmd := exec.Command(e.Daemon, "serve", "--listen", address, "--json")
	cmd.Env = e.Environ()
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	StartTied(t, cmd)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || strings.Contains(log.String(), "panic") {
			t.Errorf("mneme serve: %v\n%s", err, log.String())
		}
	})
	var said struct{ URLs []string }
	if err := json.NewDecoder(out).Decode(&said); err != nil || len(said.URLs) != 1 {
		t.Fatalf("mneme serve says %q, %v\n%s", said.URLs, err, log.String())
	}
	e.Server = cmd.Process.Pid
	return said.URLs[0]
}

package harness

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// Serve starts `mneme serve` on a port of this machine, and returns its URL. It ends with the test, which
// fails if it has panicked.
func (e *Env) Serve(t testing.TB) (url string) {
	t.Helper()
	cmd := exec.Command(e.Daemon, "serve", "--listen=127.0.0.1:0", "--json")
	cmd.Env = e.Environ()
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || strings.Contains(log.String(), "panic") {
			t.Errorf("the server: %v\n%s", err, &log)
		}
	})
	var said struct{ URLs []string }
	if err := json.NewDecoder(out).Decode(&said); err != nil || len(said.URLs) != 1 {
		t.Fatalf("the server says %q, %v", said.URLs, err)
	}
	return said.URLs[0]
}

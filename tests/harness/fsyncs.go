package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// Fsyncs counts with strace how often the mount's daemon makes something
// durable during do.
func (m *Mount) Fsyncs(t testing.TB, do func()) int {
	t.Helper()
	return m.Env.Fsyncs(t, m.PID, do)
}

// Fsyncs is that of any process.
func (e *Env) Fsyncs(t testing.TB, pid int, do func()) int {
	t.Helper()
	counts := filepath.Join(e.Dir, "strace")
	trace := exec.Command("strace", "-f", "-c", "-e", "trace=fsync,fdatasync,sync_file_range,msync", "-o", counts, "-p", strconv.Itoa(pid))
	said := newLineWaiter()
	trace.Stderr = said
	if err := trace.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-said.first: // attached
	case <-time.After(MountPatience):
		t.Fatal("strace does not attach")
	}
	do()
	_ = trace.Process.Signal(os.Interrupt)
	_ = trace.Wait()
	text, err := os.ReadFile(counts)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, match := range straceLine.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.Atoi(match[1])
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	t.Logf("strace of it:\n%s", text)
	return total
}

var straceLine = regexp.MustCompile(`(?m)^.*\s(\d+)\s+(?:\d+\s+)?(fsync|fdatasync|sync_file_range|msync)$`)

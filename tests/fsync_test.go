package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

var straceLine = regexp.MustCompile(`(?m)^.*\s(\d+)\s+(?:\d+\s+)?(fsync|fdatasync|sync_file_range|msync)$`)

// fsyncs counts with strace how often the mount's daemon makes something
// durable during do.
func (m *mount) fsyncs(t testing.TB, do func()) int {
	t.Helper()
	counts := filepath.Join(m.env.dir, "strace")
	trace := exec.Command("strace", "-f", "-c", "-e", "trace=fsync,fdatasync,sync_file_range,msync", "-o", counts, "-p", strconv.Itoa(m.pid))
	said := newLineWaiter()
	trace.Stderr = said
	if err := trace.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-said.first: // attached
	case <-time.After(mountPatience):
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
	t.Logf("strace of the daemon:\n%s", text)
	return total
}

// TestOneFsync holds that a close that makes a version syncs, and once: the
// bytes and the commit become durable together. What does not change anything
// needs none.
func TestOneFsync(t *testing.T) {
	t.Parallel()
	needTools(t, "strace", "python3")
	const files = 25
	m := newEnv(t).mount(t, "notes")
	write := pyErr(`
for i in range(25):
    write(f"f{i}", (f"{i} of many\n" * 9000)[:4096 if i % 2 else 65536].encode())
os.makedirs("d", exist_ok=True); os.chmod("f1", 0o600)`)
	m.sh(t, `echo first > first`) // the write-ahead log exists by then
	// The log is emptied when it has grown, which takes two more, and begun anew
	// with one.
	if n := m.fsyncs(t, func() { m.sh(t, write) }); n < files || n > files+3 {
		t.Errorf("%d fsyncs for %d files", n, files)
	}
	if n := m.fsyncs(t, func() { m.sh(t, write) }); n > 3 {
		t.Errorf("%d fsyncs for what was there already", n)
	}
}

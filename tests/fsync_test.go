package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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

// TestFsyncThroughAnyDescriptor holds that what a program has written, and not
// closed, survives kill -9 of the daemon once some program has synced the file,
// whatever descriptor it has for that.
func TestFsyncThroughAnyDescriptor(t *testing.T) {
	t.Parallel()
	needTools(t, "python3", "sync")
	e := newEnv(t)
	m := e.mount(t, "notes")
	const open = `import mmap, os; fd = os.open("%", os.FLAGS); `
	ways := []string{
		`sync %`,
		`sync -d %`,
		`python3 -c '` + strings.ReplaceAll(open, "FLAGS", "O_RDONLY") + `os.fsync(fd)'`,
		`python3 -c '` + strings.ReplaceAll(open, "FLAGS", "O_RDONLY") + `os.fdatasync(fd)'`,
		`python3 -c '` + strings.ReplaceAll(open, "FLAGS", "O_RDWR") + `os.fsync(fd)'`,
		`python3 -c '` + strings.ReplaceAll(open, "FLAGS", "O_RDWR") + `mmap.mmap(fd, 0).flush()'`,
	}
	for i := range ways {
		m.child(t, "hold", "file", filepath.Join(m.dir, fmt.Sprintf("f%d", i))).waitFirstLine(t, scriptPatience)
	}
	out := m.sh(t, `python3 - <<'END'
import mmap, os, subprocess
fd = os.open("mapped", os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 7)
with mmap.mmap(fd, 7) as m:
    m[:7] = b"mapped\n"
    subprocess.run(["sync", "mapped"], check=True)
    m[:7] = b"again!\n"
    subprocess.run(["sync", "mapped"], check=True)
    print(subprocess.run(["mneme", "cat", "notes:/mapped"], capture_output=True).stdout)
synced = os.open("synced", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
os.write(synced, b"as it is written\n")
print(subprocess.run(["mneme", "cat", "notes:/synced"], capture_output=True).stdout)
END`)
	if want := "b'again!\\n'\nb'as it is written\\n'\n"; out != want {
		t.Errorf("the store has %q, want %q", out, want)
	}
	for i, way := range ways {
		m.sh(t, strings.ReplaceAll(way, "%", fmt.Sprintf("f%d", i)))
	}
	m.kill(t)
	for i, way := range ways {
		if r := e.mneme("cat", fmt.Sprintf("notes:/f%d", i)); r.stdout != "not closed yet\n" {
			t.Errorf("%s: %v", way, r)
		}
	}
}

package use

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mneme/tests/harness"
)

// TestOneFsync holds that a close that makes a version syncs, and once: the bytes and the commit
// become durable together. A close that does not change anything needs none.
func TestOneFsync(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "strace", "python3")
	const files = 25
	m := harness.NewEnv(t).Mount(t, "notes")
	write := harness.PyErr(`
for i in range(25):
    write(f"f{i}", (f"{i} of many\n" * 9000)[:4096 if i % 2 else 65536].encode())
os.makedirs("d", exist_ok=True); os.chmod("f1", 0o600)`)
	m.Sh(t, `echo first > first`) // the write-ahead log exists then
	// The log is emptied when it has grown, and when the writer pauses, as on a busy machine,
	// which takes two more, and begun again with one.
	if n := m.Fsyncs(t, func() { m.Sh(t, write) }); n < files || n > files*3/2 {
		t.Errorf("%d fsyncs for %d files", n, files)
	}
	if n := m.Fsyncs(t, func() { m.Sh(t, write) }); n > files/2 {
		t.Errorf("%d fsyncs for what was there already", n)
	}
}

// TestFsyncThroughAnyDescriptor holds that what a program has written, and not
// closed, survives kill -9 of the daemon once some program has synced the file,
// whatever descriptor it has for that.
func TestFsyncThroughAnyDescriptor(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3", "sync")
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
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
		m.Child(t, "hold", "file", filepath.Join(m.Dir, fmt.Sprintf("f%d", i))).WaitFirstLine(t, harness.ScriptPatience)
	}
	out := m.Sh(t, `python3 - <<'END'
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
		m.Sh(t, strings.ReplaceAll(way, "%", fmt.Sprintf("f%d", i)))
	}
	m.Kill(t)
	for i, way := range ways {
		if r := e.Mneme("cat", fmt.Sprintf("notes:/f%d", i)); r.Stdout != "not closed yet\n" {
			t.Errorf("%s: %v", way, r)
		}
	}
}

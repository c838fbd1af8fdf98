package use

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mneme/tests/harness"
)

// load are writers of a mount and commands that write large memories, which go on
// until they are stopped. Each of the first says what was acknowledged.
type load struct {
	env     *harness.Env
	stop    string
	acked   []string // files with the numbers of each writer's saves, one a line
	writers []func() harness.Result
}

const loadFiles = 20 // files of each writer of a mount, which it saves in turns

func startLoad(t *testing.T, e *harness.Env) *load {
	t.Helper()
	e.Store("files", "--content=any", "--max-memory-bytes=1MB")
	l := &load{env: e, stop: filepath.Join(e.Dir, "stop")}
	for k := range 2 {
		m, acked := e.Mount(t, "notes"), filepath.Join(e.Dir, fmt.Sprint("acked-", k))
		l.acked = append(l.acked, acked)
		l.writers = append(l.writers, m.Background(t, fmt.Sprintf(`
i=0; text=$(head -c 3000 /dev/zero | tr '\0' x)
while [ ! -e %s ]; do
	i=$((i+1)); echo "$i $text" > w%d-$((i %% %d)); echo $i >> %s
	if [ $((i %% 50)) = 0 ]; then rm w%[2]d-0; fi
done`, l.stop, k, loadFiles, acked)))
		if k == 0 {
			l.writers = append(l.writers, m.Background(t, fmt.Sprintf(`
cd /; i=0; while [ ! -e %s ]; do i=$((i+1)); head -c 200000 /dev/urandom | mneme write files:/$((i %% 5)) > %s/command; done`, l.stop, e.Dir)))
		}
	}
	for _, acked := range l.acked {
		waitFor(t, func() bool { return lastAcked(acked) > loadFiles })
	}
	return l
}

func lastAcked(file string) int {
	text, _ := os.ReadFile(file)
	lines := strings.Split(string(text), "\n")
	return atoi(lines[max(0, len(lines)-2)])
}

func waitFor(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(harness.ScriptPatience); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come to pass")
		}
	}
}

// end stops the writers, none of which may have failed.
func (l *load) end(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(l.stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, wait := range l.writers {
		if r := wait(); r.Code != 0 {
			t.Errorf("a writer beside a backup: %v", r)
		}
	}
}

// counts are the last saves that the writers know to be acknowledged.
func (l *load) counts() (counts []int) {
	for _, file := range l.acked {
		counts = append(counts, lastAcked(file))
	}
	return counts
}

// checkCopy checks that a copy is sound and has what was acknowledged before.
func (l *load) checkCopy(t *testing.T, dir string, before []int) {
	t.Helper()
	at := "--url=file://" + dir
	if r := l.env.Mneme(at, "fsck"); r.Code != 0 {
		t.Errorf("fsck of a copy: %v", r)
	}
	for k, acked := range before {
		i := acked - acked%loadFiles + 1 // of a file that is never removed
		if i > acked {
			i -= loadFiles
		}
		text := l.env.Must(t, at, "cat", fmt.Sprintf("notes:/w%d-%d", k, i%loadFiles))
		if first, _, _ := strings.Cut(text, " "); atoi(first) < i {
			t.Errorf("writer %d: save %d was acknowledged before the backup, the copy has %s", k, i, first)
		}
	}
}

func atoi(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}

// TestBackupUnderLoad holds that a backup is sound and complete whatever is
// written meanwhile, and that whatever ends it leaves nothing that passes for one.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	l := startLoad(t, e)
	rounds := 2
	if harness.Torture() {
		rounds = 12
	}
	for i := range rounds {
		before, dir := l.counts(), filepath.Join(e.Dir, fmt.Sprint("copy-", i))
		e.Must(t, "backup", dir)
		l.checkCopy(t, dir, before)
	}
	before := l.counts()
	e.Must(t, "backup", filepath.Join(e.Dir, "copy.tar"))
	if out, err := exec.Command("tar", "-xf", filepath.Join(e.Dir, "copy.tar"), "-C", e.Dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	l.checkCopy(t, filepath.Join(e.Dir, "mneme"), before)
	for i := range 2 * rounds {
		l.endedBackup(t, i, []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM}[i%2])
	}
	l.end(t)
}

// endedBackup begins a backup and ends it.
func (l *load) endedBackup(t *testing.T, i int, signal syscall.Signal) {
	t.Helper()
	parent := filepath.Join(l.env.Dir, fmt.Sprint("ended-", i, "-", int(signal)))
	if err := os.Mkdir(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(harness.Binary, "backup", filepath.Join(parent, "copy"))
	cmd.Env = l.env.Environ()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return cmd.ProcessState != nil || len(names(t, parent)) > 0 })
	time.Sleep(time.Duration(i) * 10 * time.Millisecond)
	_ = cmd.Process.Signal(signal)
	err := cmd.Wait()
	for _, name := range names(t, parent) {
		dir := filepath.Join(parent, name)
		switch {
		case name == "copy":
			l.checkCopy(t, dir, nil)
		case signal != syscall.SIGKILL:
			t.Errorf("%v (%v) left %s", signal, err, name)
		default: // it is no library, or whole
			if _, err := os.Stat(filepath.Join(dir, "mneme", "format")); err == nil {
				l.checkCopy(t, filepath.Join(dir, "mneme"), nil)
			}
		}
	}
}

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestBackupOnFullDisk holds that a backup which does not fit says so and leaves
// nothing.
func TestBackupOnFullDisk(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("files", "--content=any", "--max-memory-bytes=1MB")
	for i := range 6 {
		e.MustIn(t, strings.Repeat(fmt.Sprint(i), 120_000), "write", fmt.Sprint("files:/small", i))
		e.MustIn(t, strings.Repeat(fmt.Sprint(i), 500_000), "write", fmt.Sprint("files:/large", i))
	}
	for _, size := range []string{"400k", "1500k", "6m"} { // too small for the database, for the files, for both and a tar
		disk := filepath.Join(e.Dir, "disk-"+size)
		if err := os.Mkdir(disk, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("none", disk, "tmpfs", 0, "size="+size); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
		name := "copy"
		if size == "6m" {
			name = "copy.tar"
		}
		if r := e.Mneme("backup", filepath.Join(disk, name)); r.Code != 6 || !strings.Contains(r.Stderr, "no space left on device") {
			t.Errorf("on a disk of %s: %v", size, r)
		}
		if left := names(t, disk); len(left) > 0 {
			t.Errorf("on a disk of %s it leaves %v", size, left)
		}
		if r := e.Mneme("backup", disk); r.Code != 2 || !strings.Contains(r.Stderr, "name a new directory in it") {
			t.Errorf("to a mount point: %v", r)
		}
	}
}

// TestBackupHasConflicts holds that what lost a race is in a backup, too.
func TestBackupHasConflicts(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Mount(t, "notes").Lose(t, "todo.md", "base\n", "theirs\n", "yours\n")
	e.Must(t, "backup", filepath.Join(e.Dir, "copy"))
	if got := e.Must(t, "--url=file://"+filepath.Join(e.Dir, "copy"), "conflicts", "diff", "notes", "1"); !strings.Contains(got, "yours") {
		t.Errorf("the copy's conflict: %s", got)
	}
}

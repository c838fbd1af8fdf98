package crash

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mneme/tests/harness"
)

// killServing kills who serves a mount, and returns when another one does.
func killServing(t testing.TB, m *harness.Mount) {
	t.Helper()
	was := serving(t, m)
	if err := syscall.Kill(was, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(harness.MountPatience); serving(t, m) == was; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlives SIGKILL", was)
		}
	}
}

// wantRefused runs a script that must fail with a conflict.
func wantRefused(t testing.TB, m *harness.Mount, script string) {
	t.Helper()
	if r := m.Try(t, script); r.Code == 0 || !strings.Contains(r.Stderr, "Device or resource busy") {
		t.Errorf("%s: %v, want a conflict", script, r)
	}
}

// writesOn has files open that it has written to, or not, while who serves the mount
// is killed, whose process id it has.
const writesOn = `
python3 - %d <<'END'
import errno, os, sys, time
log, idle, new = [os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT) for name in ("log", "idle", "new")]
os.write(idle, b"idle\n"); os.fsync(idle)
os.write(log, b"kept\n")
serving = int(sys.argv[1])
os.kill(serving, 9)
while os.path.exists("/proc/%%d/fd/0" %% serving): time.sleep(0.01)
for what, fd, want in ("log", log, errno.EIO), ("idle", idle, 0), ("new", new, 0):
    for do in lambda: os.write(fd, b"more\n"), lambda: os.close(fd):
        try: got = do() and 0 or 0
        except OSError as err: got = err.errno
        if got != want: sys.exit("%%s: error %%d, not %%d" %% (what, got, want))
END
`

// TestKeeperRemembers holds that a mount is, to its session, the same one after
// another process has taken it over.
func TestKeeperRemembers(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m, other := keptMount(t, e), e.Mount(t, "notes")
	m.Sh(t, "mkdir -p sub/empty; chmod 700 sub/empty; echo one > f; echo one > g; echo one > h; echo one > r; echo deep > sub/x; cat f g h r")
	other.Eventually(t, `grep -q one h && grep -q deep sub/x`)

	// The session still knows which versions it has read, and which of them others have changed
	// since.
	killServing(t, m)
	other.Sh(t, "cat f; echo two > f")
	wantRefused(t, m, "echo three > f")
	killServing(t, m)
	wantRefused(t, m, "echo three > f")
	m.Sh(t, "cat f; echo three > f")
	killServing(t, m)
	m.Sh(t, "echo four > f; echo two > h; cat sub/x")

	// A change that it has only read is not taken back.
	other.Sh(t, "cat r; echo two >> r")
	m.Eventually(t, "grep -q two r")
	killServing(t, m)
	wantRefused(t, m, "/bin/echo mine > r")
	killServing(t, m)
	m.Sh(t, "cat r")
	killServing(t, m)
	m.Sh(t, "/bin/echo meant > r")

	// It knows of a path at which there is nothing.
	m.Sh(t, "echo one > gone")
	other.Eventually(t, "rm gone")
	m.Eventually(t, "! test -e gone")
	killServing(t, m)
	m.Sh(t, "ls") // which waits for the next one
	other.Sh(t, "echo two > gone")
	m.Eventually(t, "test -e gone")
	wantRefused(t, m, "echo three > gone")

	// Where programs stand, and what they have open.
	script := `
		exec 3< g 4< sub/x
		cd sub; rm x
		mkdir made
		%s
		other=$(cat "%s/g")
		until grep -q two ../g; do sleep 0.05; done
		cat <&3; cat <&4; ls; cat ../g; stat -c %%a empty; echo new > y; cat y
		echo "$other"`
	end := fmt.Sprintf(`kill -STOP %d; kill -9 %d; echo two > "%s/g"; kill -CONT %[1]d`, m.PID, serving(t, m), other.Dir) // while no process serves
	if got, want := m.Sh(t, fmt.Sprintf(script, end, other.Dir)), "one\ndeep\nempty\nmade\ntwo\n700\nnew\ntwo\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	// Now a file is being written.
	m.Sh(t, "ls ..; printf 'a\\xff' | cat > bad.md 2> /dev/null || true; grep -q bad.md .mneme/errors")
	m.Sh(t, fmt.Sprintf(writesOn, serving(t, m)))
	m.Sh(t, "grep -q kept .mneme/conflicts/*/yours; grep -q 'notes:/log\" ' .mneme/errors; grep -q bad.md .mneme/errors; grep idle idle; grep more new")
	killServing(t, m)
	m.Sh(t, "grep -q 'notes:/log\" ' .mneme/errors; echo again >> log; grep again log")

	// Files that were made and not written to stay, and so do times.
	m.Sh(t, fmt.Sprintf(`
		touch -d 2001-02-03 f sub; exec 5> lock 6> out
		flock 5; kill -9 %d
		until ls > /dev/null; do sleep 0.01; done
		if flock -n lock true; then echo "two have one lock"; exit 1; fi
		echo late >&6; exec 6>&-; cat out
		stat --cached=never -c %%y f sub | grep -c 2001-02-03 | grep -q 2`, serving(t, m)))
	m.Sh(t, "echo temporary > t.tmp")
	killServing(t, m)
	m.Sh(t, "mv t.tmp saved; cat saved")
	e.Must(t, "fsck")
}

// TestKeeperBelowControl holds that a program whose working directory is below .mneme, or that
// has something there open, continues with the next process.
func TestKeeperBelowControl(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := keptMount(t, e)
	m.Lose(t, "f", "one", "two", "mine")
	for range 2 {
		got := m.Sh(t, fmt.Sprintf(`
			exec 3< .mneme/errors 4< .mneme/conflicts/1/base 5< .mneme/README 6< .mneme/conflicts/1/yours
			cat .mneme/README > "$HOME/readme"; cd .mneme/conflicts/1; before=$(stat -c %%i . .. ../.. yours)
			kill -9 %d; while kill -0 %[1]d 2> /dev/null; do sleep 0.01; done
			cat yours; grep -c ':/f"' <&3; cat <&4; cat <&6; cmp - "$HOME/readme" <&5; echo; ls; ls ..; test "$(stat -c %%i . .. ../.. yours)" = "$before"`, serving(t, m)))
		if want := "mine1\nonemine\nabout\nbase\ntheirs\nyours\n1\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	m.Sh(t, "rm -r .mneme/conflicts/1; test ! -e .mneme/conflicts/1")
}

// TestKeeperWithAThreadThatStays kills the process that serves a mount while one of its threads
// cannot end. A thread cannot end, for example, while it waits in the kernel for a page which a
// read of the mount holds; here a process that traces it does not let it go. Another one takes
// over all the same.
func TestKeeperWithAThreadThatStays(t *testing.T) {
	t.Parallel()
	harness.EachDaemon(t, keeperWithAThreadThatStays)
}

func keeperWithAThreadThatStays(t *testing.T) {
	e := harness.NewEnv(t)
	m := keptMount(t, e)
	m.Sh(t, "echo one > f")
	was := serving(t, m)
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", was))
	if err != nil || len(tasks) < 2 {
		t.Fatal(tasks, err)
	}
	seized, release, released := make(chan error), make(chan struct{}), make(chan struct{})
	go func() { // all of it by the thread that traces
		runtime.LockOSThread()
		defer close(released)
		thread := 0 // the second one, which is Go's own
		for _, task := range tasks {
			if id, _ := strconv.Atoi(filepath.Base(task)); id != was && (thread == 0 || id < thread) {
				thread = id
			}
		}
		err := unix.PtraceSeize(thread)
		seized <- err
		if <-release; err == nil {
			_, _ = unix.Wait4(thread, nil, unix.WALL, nil)
		}
	}()
	defer func() {
		close(release)
		<-released
	}()
	defer holdSockets(t, was)() // as such a thread does
	if err := <-seized; err != nil {
		t.Fatal(err)
	}
	killServing(t, m)
	began := time.Now()
	if got := m.Sh(t, "cat f; echo two > f; cat f"); got != "one\ntwo\n" {
		t.Errorf("got %q", got)
	}
	if took := time.Since(began); took > harness.SlownessOf(t)*2*time.Second {
		t.Errorf("took %v", took)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", was)); err != nil {
		t.Error("the thread has not stayed")
	}
}

// holdSockets keeps a process's sockets open, until the function is called that it
// returns.
func holdSockets(t testing.TB, pid int) (release func()) {
	t.Helper()
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	var held []int
	for _, fd := range fds {
		n, _ := strconv.Atoi(filepath.Base(fd))
		if target, _ := os.Readlink(fd); strings.HasPrefix(target, "socket:") {
			socket, err := unix.PidfdGetfd(process, n, 0)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, socket)
		}
	}
	if len(held) == 0 {
		t.Fatal("the process has no sockets")
	}
	return func() {
		for _, socket := range held {
			_ = unix.Close(socket)
		}
	}
}

// TestKeeperWithLittle takes over a mount that is only read.
func TestKeeperWithLittle(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	e.MustIn(t, "text\n", "write", "notes:/d/f")
	m := e.Mount(t, "notes", "--read-only", "--keep")
	m.Sh(t, "cat d/f")
	script := fmt.Sprintf(`exec 3< d/f; cd d; kill -9 %d; while kill -0 %[1]d 2>/dev/null; do sleep 0.01; done; cat f; cat <&3; ls; cat ../.mneme/status`, serving(t, m))
	if got := m.Sh(t, script); !strings.HasPrefix(got, "text\ntext\nf\n") {
		t.Errorf("got %q", got)
	}
	e.MustIn(t, "more\n", "write", "notes:/d/f")
	m.Eventually(t, "grep more d/f")
}

// TestKeeperEnds ends a mount with a keeper in every way, and the keeper: nothing is
// left, and what was written is saved.
func TestKeeperEnds(t *testing.T) {
	t.Parallel()
	ways := map[string]func(t testing.TB, m *harness.Mount){
		"SIGKILL of the keeper": func(_ testing.TB, m *harness.Mount) { _ = syscall.Kill(m.PID, syscall.SIGKILL) },
		"umount": func(t testing.TB, m *harness.Mount) {
			if out, err := exec.Command("umount", m.At).CombinedOutput(); err != nil {
				t.Errorf("%v %s", err, out)
			}
		},
	}
	for way, end := range endings {
		ways[way] = end
	}
	for way, end := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			e := harness.NewEnv(t)
			m := keptMount(t, e)
			m.Sh(t, "echo one > f")
			killServing(t, m)
			m.Sh(t, "echo two > g")
			serving := serving(t, m)
			m.Over = true
			end(t, m)
			if !m.Wait(harness.MountPatience) {
				t.Fatalf("the keeper goes on\n%s", m.Stderr)
			}
			if m.Err != nil && way != "SIGKILL of the keeper" {
				t.Errorf("the keeper ended badly: %v\n%s", m.Err, m.Stderr)
			}
			for deadline := time.Now().Add(harness.MountPatience); syscall.Kill(serving, 0) == nil || len(harness.MountsBelow(m.At)) > 0; time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("left: process %d, or the mounts %v", serving, harness.MountsBelow(m.At))
				}
			}
			if got := e.Must(t, "cat", "notes:/f") + e.Must(t, "cat", "notes:/g"); got != "one\ntwo\n" {
				t.Errorf("the store has %q", got)
			}
		})
	}
}

// ownProgram lets the mounts of e be served by a copy of the program, and returns
// its path.
func ownProgram(t testing.TB, e *harness.Env) string {
	t.Helper()
	program := filepath.Join(e.Dir, "bin", "mneme")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	e.Daemon = program
	installProgram(t, harness.Binary, program)
	return program
}

// installProgram puts a program in the place of another, as package managers do.
func installProgram(t testing.TB, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to+".new", data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		t.Fatal(err)
	}
}

// TestReplace has a mount served by a program that was installed since, keeps it as
// it is where that does not run, and says why it cannot be done.
func TestReplace(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	program := ownProgram(t, e)
	m := keptMount(t, e)
	m.Sh(t, "echo one > f")
	was := serving(t, m)
	installProgram(t, harness.Binary, program)
	if err := os.Rename(program, program+".old"); err != nil { // as some upgrades do
		t.Fatal(err)
	}
	installProgram(t, harness.Binary, program)
	replace := []string{"mount", "--replace", "--at", m.At}
	r := e.Run(t, harness.ScriptPatience, "", func() {}, program, replace...)
	if r.Code != 0 || !strings.Contains(r.Stdout, "is served by process") {
		t.Fatal(r)
	}
	for range 3 { // at once
		if r := e.Run(t, harness.ScriptPatience, "", func() {}, program, replace...); r.Code != 0 {
			t.Fatal(r)
		}
	}
	now := serving(t, m)
	if its, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", now)); now == was || err != nil || its != program {
		t.Errorf("process %d, before %d, runs %s (%v), want %s", now, was, its, err, program)
	}
	m.Sh(t, "cat f; echo two > f")

	broken := filepath.Join(e.Dir, "broken")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\nexit 9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	installProgram(t, broken, program)
	began := time.Now()
	r = e.Run(t, harness.ScriptPatience, "", func() {}, harness.Binary, replace...)
	if took := time.Since(began); r.Code == 0 || !strings.Contains(r.Stderr, "is still served by process") || took > harness.SlownessOf(t)*5*time.Second {
		t.Errorf("after %v: %v", took, r)
	}
	waitSaid(t, m, "a process that was to take over has ended")
	if serving(t, m) != now {
		t.Error("a program that does not run has taken over")
	}
	m.Sh(t, "cat f; echo three > f")
	installProgram(t, harness.Binary, program)

	for _, wrong := range []struct{ program, at, want string }{
		{harness.Binary, m.At, "of " + program + ", which is where its keeper looks"},
		{program, filepath.Join(e.Dir, "nothing"), "not found"},
		{program, e.Mount(t, "notes").At, "has to be made with --keep"},
	} {
		r := e.Run(t, harness.ScriptPatience, "", func() {}, wrong.program, "mount", "--replace", "--at", wrong.at)
		if r.Code == 0 || !strings.Contains(r.Stderr, wrong.want) {
			t.Errorf("%v, want %q", r, wrong.want)
		}
	}
	for _, flag := range []string{"notes", "--read-only", "--session=other", "--print-prompt"} {
		if r := e.Mneme("mount", "--replace", "--at", m.At, flag); r.Code != 2 || !strings.Contains(r.Stderr, "--replace goes with --at only") {
			t.Errorf("with %s: %v", flag, r)
		}
	}
}

// TestKeeperKeepsMuch kills who serves a mount in which very much is being written,
// and the next one while it keeps that. A busy machine may take longer, but not much
// longer than with nothing to keep.
func TestKeeperKeepsMuch(t *testing.T) { t.Parallel(); harness.EachDaemon(t, keeperKeepsMuch) }

func keeperKeepsMuch(t *testing.T) {
	const files = 300
	e := harness.NewEnv(t)
	m := keptMount(t, e)
	m.Sh(t, "echo one > f")
	began := time.Now()
	killServing(t, m)
	m.Sh(t, "cat f")
	limit := max(harness.SlownessOf(t)*2*time.Second, 4*time.Since(began))
	m.Sh(t, fmt.Sprintf(`python3 - %d %d <<'END'
import os, sys, time
files = [os.open("new%%d" %% i, os.O_WRONLY | os.O_CREAT) for i in range(int(sys.argv[1]))]
for i, f in enumerate(files): os.write(f, b"text %%d\n" %% i)
began = time.monotonic()
os.kill(int(sys.argv[2]), 9)
if open("f").read() != "one\n": sys.exit("another text")
if time.monotonic() - began > %g: sys.exit("it takes %%.1f s" %% (time.monotonic() - began))
END`, files, serving(t, m), limit.Seconds()))
	killServing(t, m)
	m.Sh(t, "cat f")
	n := 0
	for deadline := time.Now().Add(harness.MountPatience); n != files+1 && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		kept := everyText(t, m)
		slices.Sort(kept)
		n = len(slices.Compact(kept))
	}
	if n != files+1 {
		t.Errorf("%d texts are kept or in the history, want %d", n, files+1)
	}
}

// TestKeeperWithoutItsProgram kills who serves a mount when the program is gone, or
// does not run: the keeper still has it.
func TestKeeperWithoutItsProgram(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"gone", "broken"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			e := harness.NewEnv(t)
			program := ownProgram(t, e)
			m := keptMount(t, e)
			m.Sh(t, "echo one > f")
			if err := os.Remove(program); err != nil {
				t.Fatal(err)
			}
			if how == "broken" {
				if err := os.WriteFile(program, []byte("#!/bin/sh\nexit 9\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			killServing(t, m)
			if got := m.Sh(t, "cat f; echo two > f; cat f"); got != "one\ntwo\n" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestKeeperGivesUp has no process that can serve a mount: it ends, and a program that waits for
// an answer gets an error.
func TestKeeperGivesUp(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := keptMount(t, e)
	m.Sh(t, "echo one > f")
	if err := os.Rename(e.Stores, e.Stores+"-elsewhere"); err != nil {
		t.Fatal(err)
	}
	m.Over = true
	if r := m.Try(t, fmt.Sprintf("kill -9 %d; sleep 0.05; cat f new", serving(t, m))); r.Code == 0 {
		t.Error("a file that nobody serves was read")
	}
	if !m.Wait(harness.MountPatience) || m.Err == nil || !strings.Contains(m.Stderr.String(), "no process could serve the mount") {
		t.Errorf("the keeper has ended: %v\n%s", m.Err, m.Stderr)
	}
	if left := harness.MountsBelow(m.At); len(left) > 0 {
		t.Errorf("still mounted: %v", left)
	}
}

// TestKeeperInBackground holds that a daemon in the background with a keeper is one
// mount for the commands, named after the keeper.
func TestKeeperInBackground(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes")
	at := filepath.Join(e.Dir, "mnt")
	e.Must(t, "mount", "notes", "--at", at, "--background", "--keep")
	t.Cleanup(func() { e.Mneme("unmount", "--at", at) })
	if status := e.Must(t, "status"); strings.Count(status, at) != 1 {
		t.Errorf("status: %q", status)
	}
	if r := e.Run(t, harness.ScriptPatience, "", func() {}, "sh", "-c", `echo draft > "$1/notes/x~"`, "sh", at); r.Code != 0 {
		t.Fatal(r)
	}
	if out := e.Must(t, "unmount", "--at", at); !strings.Contains(out, "is unmounted") || !strings.Contains(out, "notes:/x~") {
		t.Errorf("unmount: %q", out)
	}
}

package crash

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"mneme/tests/harness"
)

// holdsOn is a program in a copy of a mount. It has files open in every way,
// mapped, and cached, and tries what it can with them once a line has come. It
// prints what succeeded. Its arguments are the store's directory and whether that
// can be written.
const holdsOn = `
import ctypes, errno, mmap, os, sys
at, writable = sys.argv[1], sys.argv[2] == "rw"
os.chdir(at)
def peek(size, name):
    "reads from a mapping as a debugger does, which gets an error for a signal"
    for line in open("/proc/self/maps"):
        if line.rstrip().endswith("/" + name):
            with open("/proc/self/mem", "rb") as memory:
                memory.seek(int(line.split("-")[0], 16))
                return memory.read(size)
    raise KeyError(name)
names = os.listdir(".")
for name in names: os.stat(name); open(name).read()
try: os.stat("missing")
except FileNotFoundError: pass
r = os.open("read", os.O_RDONLY); os.read(r, 2)
d = os.open(".", os.O_RDONLY); os.listdir(d)
o = os.open("read", os.O_PATH)
mr = mmap.mmap(r, 0, prot=mmap.PROT_READ); mr[0]
attempts = {
    "read": lambda: os.pread(r, 1, 0), "read on": lambda: os.read(r, 1), "fstat": lambda: os.fstat(r), "peek": lambda: peek(1, "read"),
    "open": lambda: os.open("read", os.O_RDONLY), "open absolutely": lambda: os.open(at + "/read", os.O_RDONLY),
    "open again": lambda: os.open("/proc/self/fd/%d" % o, os.O_RDONLY),
    "stat": lambda: os.stat("read"), "stat absolutely": lambda: os.stat(at + "/read"), "stat missing": lambda: os.stat("missing"),
    "list": lambda: os.listdir("."), "list descriptor": lambda: os.listdir(d), "attribute": lambda: os.getxattr("read", "user.mneme.seq"),
    "statfs": lambda: os.statvfs("."),
}
if writable:
    w = os.open("written", os.O_RDWR | os.O_CREAT); os.write(w, b"written\n")
    a = os.open("log", os.O_WRONLY | os.O_APPEND); os.write(a, b"appended\n")
    m = os.open("mapped", os.O_RDWR); mw = mmap.mmap(m, 0); mw[0:3] = b"MAP"
    attempts.update({
        "write": lambda: os.write(w, b"x"), "append": lambda: os.write(a, b"x"), "read written": lambda: os.pread(w, 1, 0),
        "fsync": lambda: os.fsync(w), "msync": lambda: mw.flush(), "peek mapped": lambda: peek(1, "mapped"), "truncate": lambda: os.ftruncate(w, 0),
        "create": lambda: os.open("new", os.O_WRONLY | os.O_CREAT), "remove": lambda: os.remove("log"), "rename": lambda: os.rename("log", "gol"),
        "mkdir": lambda: os.mkdir("dir"), "close": lambda: os.close(w),
    })
print("holding", flush=True)
sys.stdin.readline()
for name, attempt in attempts.items():
    try: print(name, "succeeds:", attempt())
    except OSError as err:
        if err.errno not in (errno.ENOTCONN, errno.EIO if "peek" in name else 0): print(name, "fails with", err)
sys.stdout.flush()
os._exit(0)
`

// copied starts a program in a mount namespace that has a copy of the mount.
func copied(t testing.TB, m *harness.Mount, script string, args ...string) (in io.WriteCloser, out *bufio.Reader, wait func() error) {
	t.Helper()
	harness.NeedTools(t, "python3", "unshare")
	cmd := exec.Command("unshare", append([]string{"--mount", "--propagation=private", "python3", "-c", script}, args...)...)
	cmd.Env, cmd.Stderr = m.Env.Environ(), m.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	harness.StartTied(t, cmd)
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return in, bufio.NewReader(stdout), cmd.Wait
}

// line is the next line of a program, which must come.
func line(t testing.TB, from *bufio.Reader) string {
	t.Helper()
	text, err := from.ReadString('\n')
	if err != nil {
		t.Fatalf("the program has ended: %v", err)
	}
	return strings.TrimSuffix(text, "\n")
}

// endings are the ways in which a mount ends for everybody.
var endings = map[string]func(t testing.TB, m *harness.Mount){
	"unmount": func(t testing.TB, m *harness.Mount) { m.Env.Must(t, "unmount", "--at", m.At) },
	"SIGTERM": func(t testing.TB, m *harness.Mount) { _ = syscall.Kill(m.PID, syscall.SIGTERM) },
	"SIGINT":  func(t testing.TB, m *harness.Mount) { _ = syscall.Kill(m.PID, syscall.SIGINT) },
	"detached, then SIGTERM": func(t testing.TB, m *harness.Mount) {
		m.Env.Must(t, "unmount", "--at", m.At, "--lazy")
		_ = syscall.Kill(m.PID, syscall.SIGTERM)
	},
	"umount -f": func(t testing.TB, m *harness.Mount) {
		if err := syscall.Unmount(m.At, syscall.MNT_FORCE|syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	},
}

// TestUnmountRevokes holds that a mount ends also where another mount namespace has
// a copy of it, that nothing can be done with that afterwards, with whatever a
// process has open, mapped or cached, and that what was written is saved.
func TestUnmountRevokes(t *testing.T) {
	t.Parallel()
	for way, end := range endings {
		for _, mode := range []string{"rw", "ro"} {
			t.Run(way+"/"+mode, func(t *testing.T) {
				t.Parallel()
				e := harness.NewEnv(t)
				e.Store("notes")
				for _, name := range []string{"read", "log", "mapped"} {
					e.MustIn(t, name+"\n", "write", "notes:/"+name)
				}
				store := "notes"
				if mode == "ro" {
					store += ":ro"
				}
				m := e.Mount(t, store)
				in, out, wait := copied(t, m, holdsOn, m.Dir, mode)
				line(t, out)

				m.Over = true
				end(t, m)
				if !m.Wait(harness.MountPatience) || m.Err != nil {
					t.Fatalf("the daemon: %v\n%s", m.Err, m.Goroutines())
				}
				if left := harness.MountsBelow(m.At); len(left) > 0 {
					t.Errorf("left mounted: %v", left)
				}
				fmt.Fprintln(in)
				rest, _ := io.ReadAll(out)
				if err := wait(); err != nil || len(rest) > 0 {
					t.Errorf("in the copy: %v\n%s", err, rest)
				}
				want := map[string]string{"read": "read\n", "log": "log\n", "mapped": "mapped\n"}
				if mode == "rw" {
					want["written"], want["log"] = "written\n", "log\nappended\n"
					if way != "umount -f" { // the kernel drops what mappings have changed
						want["mapped"] = "MAPped\n"
					}
				}
				for name, text := range want {
					if got := e.Must(t, "cat", "notes:/"+name); got != text {
						t.Errorf("%s is %q, want %q", name, got, text)
					}
				}
				e.Mount(t, store, "--at="+m.At).Sh(t, "cat read") // the place is free again
			})
		}
	}
}

// pours appends lines to a file that it never closes, and says which one was
// acknowledged last when it gets an error.
const pours = `
import os, sys
f = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | (os.O_APPEND if sys.argv[2] == "a" else 0), 0o644)
print("pouring", flush=True)
n = short = 0  # lines that were written whole, and the bytes of one that was not
try:
    while n < 20000:
        text = b"line %d\n" % n
        written = os.write(f, text)
        if written < len(text):  # it ends with a page, and the rest was refused
            short = written
            break
        n += 1
except OSError: pass
print(n, short)
`

// TestUnmountLosesNoWrite holds that what write(2) acknowledged while a mount was
// being ended is saved.
func TestUnmountLosesNoWrite(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes", "--max-memory-bytes=1048576")
	for round := range harness.Times(3, 100) {
		m := e.Mount(t, "notes")
		var outs []*bufio.Reader
		for i, mode := range []string{"a", "w"} {
			_, out, _ := copied(t, m, pours, filepath.Join(m.Dir, fmt.Sprint("f", round, i)), mode)
			line(t, out)
			outs = append(outs, out)
		}
		m.Over = true
		e.Must(t, "unmount", "--at", m.At)
		for i, out := range outs {
			var n, short int
			if _, err := fmt.Sscan(line(t, out), &n, &short); err != nil {
				t.Fatal(err)
			}
			got := e.Must(t, "cat", fmt.Sprint("notes:/f", round, i))
			lines := strings.Count(got, "\n")
			cut := short > 0 && lines == n && strings.HasSuffix(got, "\n"+fmt.Sprintf("line %d\n", n)[:short])
			if lines < n || !cut && !strings.HasSuffix(got, fmt.Sprintf("line %d\n", lines-1)) {
				t.Errorf("%d lines and %d bytes were acknowledged, %d lines are there, the last being %q", n, short, lines, got[max(0, len(got)-20):])
			}
		}
	}
}

// TestUnmountOfUserRevokes holds the same of a user who is not root.
func TestUnmountOfUserRevokes(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "fusermount3", "python3")
	e := harness.NewUser(t)
	program := filepath.Join(e.Dir, "hold.py")
	if err := os.WriteFile(program, []byte(holdsOn), 0o644); err != nil {
		t.Fatal(err)
	}
	r := e.Inside(t, harness.SearchPath(), `
		mkfifo "$HOME/go" "$HOME/holding"
		chmod 666 "$HOME/go" "$HOME/holding"
		user 'mneme store create notes >&2; for f in read log mapped; do echo $f | mneme write notes:/$f >&2; done
			mneme mount notes --background --at $at >&2'
		unshare --mount --propagation=private setpriv --reuid=65534 --regid=65534 --clear-groups \
			python3 `+program+` $at/notes rw < "$HOME/go" > "$HOME/holding" &
		exec 3> "$HOME/go" 4< "$HOME/holding"
		read -r holding <&4
		user 'mneme unmount --at $at >&2'
		echo >&3
		cat <&4
		wait
		mounts
		user 'for f in written log mapped; do mneme cat notes:/$f; done'`)
	if want := "0\nwritten\nlog\nappended\nMAPped\n"; r.Code != 0 || r.Stdout != want {
		t.Errorf("%v\nwant stdout:\n%s", r, want)
	}
}

// TestUnmountOfStoppedDaemon holds that `mneme unmount` ends, with an error, where
// the daemon does not, and that this saves what was written as soon as it goes on.
func TestUnmountOfStoppedDaemon(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	_, out, _ := copied(t, m, pours, filepath.Join(m.Dir, "f"), "w")
	line(t, out)
	m.Over = true
	if err := syscall.Kill(m.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	harness.AwaitUntil(t, "the daemon is stopped", func() bool { return len(threads(m, "TD")) == len(threads(m, "")) })
	r := e.Mneme("unmount", "--at", m.At)
	if r.Code != 1 || !strings.Contains(r.Stderr, fmt.Sprintf("process %d that served it has not ended", m.PID)) {
		t.Errorf("unmount: %v", r)
	}
	if left := harness.MountsBelow(m.At); len(left) > 0 {
		t.Errorf("left mounted: %v", left)
	}
	var n int
	if _, err := fmt.Sscan(line(t, out), &n); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(m.PID, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !m.Wait(harness.MountPatience) || m.Err != nil {
		t.Fatalf("the daemon: %v\n%s", m.Err, m.Stderr)
	}
	if got := strings.Count(e.Must(t, "cat", "notes:/f"), "\n"); got < n {
		t.Errorf("%d lines were acknowledged, %d are there", n, got)
	}
}

// executes has a file of a mount open, which it closes by executing another program.
const executes = `import os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
print("open", flush=True)
sys.stdin.read(1)
os.execv("/bin/true", ["true"])`

// virtualMemory is how many KiB a process has mapped. It can be read of one that
// executes a program.
func virtualMemory(pid int) (kib int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(text), "\nVmSize:")
	_, _ = fmt.Sscan(after, &kib)
	return kib
}

// TestUnmountDoesNotWaitForUsers holds that `mneme unmount` ends though a process that
// uses the mount cannot be asked what it has open: it executes a program, and waits
// for the daemon to hear of the files that are closed by that.
func TestUnmountDoesNotWaitForUsers(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	user := exec.Command("python3", "-c", executes, filepath.Join(m.Dir, "f"))
	user.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, errIn := user.StdinPipe()
	out, errOut := user.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		t.Fatal(err)
	}
	harness.StartTied(t, user)
	line(t, bufio.NewReader(out))
	before := virtualMemory(user.Process.Pid)
	m.Over = true
	if err := syscall.Kill(m.PID, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	harness.AwaitUntil(t, "the daemon is stopped", func() bool { return len(threads(m, "TD")) == len(threads(m, "")) })
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	harness.AwaitUntil(t, "the program has no memory of its own any more", func() bool { return virtualMemory(user.Process.Pid) < before/2 })
	if r := e.Mneme("unmount", "--at", m.At); r.Code != 1 || !strings.Contains(r.Stderr, "has not ended") {
		t.Errorf("unmount: %v", r)
	}
	if left := harness.MountsBelow(m.At); len(left) > 0 {
		t.Errorf("left mounted: %v", left)
	}
	if err := errors.Join(user.Wait(), syscall.Kill(m.PID, syscall.SIGCONT)); err != nil {
		t.Error(err)
	}
	if !m.Wait(harness.MountPatience) {
		t.Errorf("the daemon goes on\n%s", m.Stderr)
	}
}

// TestUnmountFreesWhoWaits holds that a mount ends although a request does not, that a program
// that waits for its answer gets an error, and that what was written is saved.
func TestUnmountFreesWhoWaits(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Store("notes", "--max-memory-bytes=1048576")
	m := e.Mount(t, "notes")
	read := hangingRead(t, m)
	_, out, _ := copied(t, m, pours, filepath.Join(m.Dir, "g"), "w")
	line(t, out)
	m.Over = true
	_ = syscall.Kill(m.PID, syscall.SIGTERM)
	if !m.Wait(harness.MountPatience) {
		t.Errorf("the daemon goes on\n%s", m.Goroutines())
	}
	if left := harness.MountsBelow(m.At); len(left) > 0 {
		t.Errorf("left mounted: %v", left)
	}
	wantFreed(t, read)
	var n int
	if _, err := fmt.Sscan(line(t, out), &n); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(e.Must(t, "cat", "notes:/g"), "\n"); got < n {
		t.Errorf("%d lines were acknowledged, %d are there", n, got)
	}
}

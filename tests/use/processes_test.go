package use

import (
	"strconv"
	"testing"
	"time"

	"mneme/tests/harness"
)

// TestProcessesOutOfSight holds that a redirection is one version, and that no program finds the
// file empty meanwhile, where the daemon does not see the shell.
func TestProcessesOutOfSight(t *testing.T) {
	t.Parallel()
	e := harness.NewEnv(t)
	e.Unseen = true
	m := e.Mount(t, "notes")
	out := m.Sh(t, `echo one > f
{ mneme cat notes:/f >&2; echo one and two; } 2>&1 > f`)
	if out != "one\n" {
		t.Errorf("while it was written, the store had %q", out)
	}
	e.CheckHistory(t, "notes:/f", m.Session, "created modified")
	m.Sh(t, `: > f; touch made`)
	for _, place := range []string{"notes:/f", "notes:/made"} { // when the kernel lets go of the handle
		deadline := time.Now().Add(harness.MountPatience)
		for r := e.Mneme("cat", place); r.Code != 0 || r.Stdout != ""; r = e.Mneme("cat", place) {
			if time.Now().After(deadline) {
				t.Fatalf("%s is not empty: %v", place, r)
			}
		}
	}
	e.CheckHistory(t, "notes:/f", m.Session, "created modified modified")
	e.CheckHistory(t, "notes:/made", m.Session, "created")
}

// TestPartsAndProcesses holds that a program which writes a file in parts and starts
// processes in between makes one version, though each of these closes its copy of the
// descriptor; and that what a process has written itself is there once it has ended.
func TestPartsAndProcesses(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `{ echo one; true | true; echo two; } > shell
python3 - <<'END'
import os, subprocess, threading
def stored(name):
    return subprocess.run(["mneme", "cat", "notes:/" + name], capture_output=True, close_fds=True).stdout
for name, flags in ("written", os.O_TRUNC), ("appended", os.O_APPEND):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | flags)
    os.write(fd, b"half a ")
    subprocess.run(["true"], pass_fds=[fd], check=True)
    subprocess.run(["true"], close_fds=False, check=True)
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    os.write(fd, b"line\n")
    os.close(fd)
    assert stored(name) == b"half a line\n", stored(name)
fd = os.open("threads", os.O_WRONLY | os.O_CREAT)
writer = threading.Thread(target=os.write, args=(fd, b"by another thread\n"))
writer.start()
writer.join()
os.close(fd)
assert stored("threads") == b"by another thread\n"
fd = os.open("handed", os.O_WRONLY | os.O_CREAT)
if os.fork() == 0:
    os.write(fd, b"by a child\n")
    os._exit(0)
os.wait()
assert stored("handed") == b"by a child\n"
if os.fork() == 0:
    os.write(fd, b"by another\n")
    os.close(fd)
    assert stored("handed") == b"by a child\nby another\n"
    os._exit(0)
assert os.wait()[1] == 0
os.close(fd)
END`)
	for _, name := range []string{"shell", "written", "appended", "threads"} {
		e.CheckHistory(t, "notes:/"+name, m.Session, "created")
	}
	e.CheckHistory(t, "notes:/handed", m.Session, "created modified")
}

// TestDuplicateIsClosedDuringWrite: a thread closes a duplicate of a descriptor while
// another thread is in a write(2) that the kernel sends as two requests. The close makes
// no version of half of the write.
func TestDuplicateIsClosedDuringWrite(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	m.Sh(t, `python3 - `+strconv.Itoa(m.PID)+` <<'END'
import glob, mmap, os, signal, sys, threading
daemon, page = int(sys.argv[1]), mmap.PAGESIZE
def waits(thread):
    """Waits until a thread's request is on its way, which the stopped daemon does not answer."""
    while True:
        with open("/proc/self/task/%d/stack" % thread.native_id) as f:
            if "request_wait_answer" in f.read():
                return
        if not thread.is_alive():
            raise SystemExit("a request was answered by a daemon that is stopped")
def stop():
    """Stops the daemon, whose threads stop one after another."""
    os.kill(daemon, signal.SIGSTOP)
    running = True
    while running:
        running = False
        for stat in glob.glob("/proc/%d/task/*/stat" % daemon):
            with open(stat) as f: running |= f.read().rsplit(") ", 1)[1][0] != "T"
for round in range(8):
    for name, flags in ("appended", os.O_APPEND), ("written", 0):
        fd = os.open("%s%d" % (name, round), os.O_WRONLY | os.O_CREAT | flags)
        os.write(fd, b"." * (2 * page - 3))
        os.close(fd)
        fd = os.open("%s%d" % (name, round), os.O_WRONLY | flags)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED) # a write to a page in the cache is one request
        if not flags:
            os.lseek(fd, page - 2, 0)
        other = os.dup(fd)
        writer = threading.Thread(target=os.write, args=(fd, b"x" * page))
        closer = threading.Thread(target=os.close, args=(other,))
        stop()
        try:
            writer.start()
            waits(writer)
            closer.start()
            waits(closer)
        finally:
            os.kill(daemon, signal.SIGCONT)
        writer.join()
        closer.join()
        os.close(fd)
END`)
	for round := range 8 {
		for _, name := range []string{"appended", "written"} {
			e.CheckHistory(t, "notes:/"+name+strconv.Itoa(round), m.Session, "created modified")
		}
	}
}

// TestExecClosesWhatWasEmptied holds that a process whose execution of a program closes
// a file that it has only made goes on: the daemon asks the kernel for nothing of the
// process that has to wait for that.
func TestExecClosesWhatWasEmptied(t *testing.T) {
	t.Parallel()
	harness.NeedTools(t, "python3")
	e := harness.NewEnv(t)
	m := e.Mount(t, "notes")
	out := m.Sh(t, `python3 -c 'import os
os.open("f", os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_CLOEXEC)
os.execvp("echo", ["echo", "done"])'`)
	if out != "done\n" {
		t.Errorf("the program printed %q", out)
	}
	e.CheckHistory(t, "notes:/f", m.Session, "created")
}

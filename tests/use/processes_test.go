package use

import (
	"testing"
	"time"

	"mneme/tests/harness"
)

// TestProcessesOutOfSight holds that a redirection is one version, and that nobody
// finds the file empty meanwhile, where the daemon does not see the shell.
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

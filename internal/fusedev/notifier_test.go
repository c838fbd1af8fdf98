package fusedev

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// lateVariable makes a notifier of these tests begin late.
const lateVariable = "NOTIFIER_IS_LATE"

func TestMain(m *testing.M) {
	if IsNotifier() {
		if os.Getenv(lateVariable) != "" {
			time.Sleep(patient)
		}
		RunNotifier()
	}
	os.Exit(m.Run())
}

// withNotifier serves a toy whose notices a process of its own gives. Without abort the process has
// no abort file.
func withNotifier(t *testing.T, f *toy, abort, kept bool) *served {
	t.Helper()
	self := func() *exec.Cmd { return exec.Command("/proc/self/exe") }
	return serve(t, f, func(s *Server) {
		at, err := Attached("", "toy", "toy") // wherever the only one is
		if err != nil {
			t.Fatal(err)
		}
		s.UseNotifier(self, at, kept)
		if (s.notifiers.abort != nil) != (at.Device() != "") {
			t.Errorf("the mount is %q, and its abort file is %v", at.Device(), s.notifiers.abort)
		}
		if !abort && s.notifiers.abort != nil {
			_ = s.notifiers.abort.Close()
			s.notifiers.abort = nil
		}
	})
}

// notifier is the process id of the notifier of this process; 0: there is none.
func (m *served) notifier() (pid int) {
	m.Helper()
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		m.Fatal(err)
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for child := range strings.FieldsSeq(string(text)) {
			env, _ := os.ReadFile("/proc/" + child + "/environ")
			if strings.Contains(string(env), NotifierVariable+"=") {
				pid, _ = strconv.Atoi(child)
			}
		}
	}
	return pid
}

// inKernel counts the threads of a process that wait for the lock of a directory.
func inKernel(pid int) (n int) {
	waits, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/wchan", pid))
	for _, wait := range waits {
		if text, _ := os.ReadFile(wait); string(text) == "fuse_reverse_inval_entry" {
			n++
		}
	}
	return n
}

// TestNotifier gives notices before and after the process that gives them is killed.
func TestNotifier(t *testing.T) {
	m := withNotifier(t, newToy(), true, false)
	m.sh("stat inline")
	if pid := m.notifier(); pid != 0 {
		t.Errorf("process %d is there before a notice", pid)
	}
	var first int
	for i := range 2 {
		if status := m.notify(InodeNotice(inlineID, 0, 0)); !status.Ok() {
			t.Errorf("dropping pages: %v", status)
		}
		lookups := m.count("inline lookup")
		statuses := m.Notify(InodeNotice(inlineID, -1, 0), InodeNotice(77, 0, 0), EntryNotice(fuse.FUSE_ROOT_ID, "inline"))
		if !slices.Equal(statuses, []fuse.Status{fuse.OK, fuse.ENOENT, fuse.OK}) {
			t.Errorf("three notices: %v", statuses)
		}
		m.sh("cat inline")
		if m.count("inline lookup") == lookups {
			t.Error("a name that was dropped is not looked up")
		}
		pid := m.notifier()
		if pid == 0 || pid == first {
			t.Fatalf("notice %d came from process %d, before it %d", i, pid, first)
		}
		if first = pid; i == 0 {
			m.serving().began = m.serving().began.Add(-shortLife) // as if it had lived for long
			_ = syscall.Kill(pid, syscall.SIGKILL)
			<-m.serving().gone
		}
	}
	if text := m.said.String(); !strings.Contains(text, "another one is started") {
		t.Errorf("the server says %q", text)
	}
	m.said.clear()
	many := make([]Notice, 5000) // take several messages
	for i := range many {
		many[i] = EntryNotice(fuse.FUSE_ROOT_ID, fmt.Sprintf("missing %04d", i))
	}
	for i, status := range m.Notify(many...) {
		if status != fuse.ENOENT {
			t.Fatalf("notice %d: %v", i, status)
		}
	}
	if err := unix.Unmount(m.dir, 0); err != nil {
		t.Error(err)
	}
	m.wantOver()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if status := m.notify(InodeNotice(inlineID, 0, 0)); status != fuse.Status(syscall.ENODEV) {
		t.Errorf("a notice after the device was closed: %v", status)
	}
}

// serving is the notifier that was started last.
func (m *served) serving() *notifier { return m.notifiers.serving.Load() }

// TestNotifierEndsConnection ends the connection while a program holds a directory until it is
// answered, and a notice waits for that directory: in each way, the program goes on.
func TestNotifierEndsConnection(t *testing.T) {
	for _, way := range []string{"abort file", "refusing"} {
		for _, orphaned := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, orphaned %v", way, orphaned), func(t *testing.T) {
				f := newToy()
				f.leave = make(chan struct{})
				defer close(f.leave)
				m := withNotifier(t, f, way == "abort file", false)
				if err := m.CanResume(); err != nil && way == "refusing" {
					t.Skip(err)
				}
				made := m.shLater("mkdir dir 2>&1 || true")
				m.until("a request waits", func() bool { return m.waiters() == 1 })
				told := make(chan struct{})
				go func() {
					defer close(told)
					m.Notify(EntryNotice(fuse.FUSE_ROOT_ID, "dir"))
				}()
				var pid int
				m.until("the notice waits", func() bool {
					pid = m.notifier()
					return pid != 0 && inKernel(pid) == 1
				})
				if orphaned {
					m.serving().end() // as the end of this process would
				} else {
					m.notifiers.close()
				}
				if got := <-made; !strings.Contains(got, "mkdir: ") {
					t.Errorf("the program that held the directory says %q", got)
				}
				<-told
				m.until("the notifier has ended", func() bool { return m.notifier() != pid })
				m.said.clear() // of the notifier that has ended at once
			})
		}
	}
}

// TestNotifierIsLate closes the device when a notifier has been started and does not work yet:
// nothing keeps the connection open, so that no request waits or is given up in the middle.
func TestNotifierIsLate(t *testing.T) {
	for _, way := range []string{"abort file", "without one"} {
		t.Run(way, func(t *testing.T) {
			m := serve(t, newToy(), func(s *Server) {
				at, err := Attached("", "toy", "toy")
				if err != nil {
					t.Fatal(err)
				}
				s.UseNotifier(func() *exec.Cmd {
					cmd := exec.Command("/proc/self/exe")
					cmd.Env = append(os.Environ(), lateVariable+"=1")
					return cmd
				}, at, false)
				if way == "without one" {
					_ = s.notifiers.abort.Close()
					s.notifiers.abort = nil
				}
			})
			m.NotifyAtOnce(InodeNotice(inlineID, 0, 0))
			m.Stop()
			m.wantOver()
			if err := m.Close(); err != nil {
				t.Error(err)
			}
			var stat unix.Stat_t
			if err := unix.Stat(filepath.Join(m.dir, "inline"), &stat); err != unix.ENOTCONN {
				t.Errorf("a request afterwards: %v, want %v", err, unix.ENOTCONN)
			}
			if pid := m.notifier(); pid != 0 {
				t.Errorf("the notifier goes on as process %d", pid)
			}
		})
	}
}

// TestKeptConnectionGoesOn: after the server's process the next one serves the connection, for which
// the notifier leaves it as it is.
func TestKeptConnectionGoesOn(t *testing.T) {
	m := withNotifier(t, newToy(), true, true)
	m.sh("stat inline")
	m.notify(InodeNotice(inlineID, 0, 0))
	pid := m.notifier()
	m.serving().end()
	m.until("the notifier has ended", func() bool { return m.notifier() != pid })
	if got := m.sh("cat inline"); got != "at once\n" {
		t.Errorf("got %q", got)
	}
}

package openfiles

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// file is a file, open as flags say, and a Scanner of the mount that it is on.
func file(t *testing.T, flags int) (s *Scanner, inode uint64, f *os.File) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "f"), flags|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	info, err := readStart("/proc/self/fdinfo/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		t.Fatal(err)
	}
	s = New()
	s.Mounted(deviceOf("/proc/self", field(info, "mnt_id")))
	return s, stat.Ino, f
}

// child starts a process that ends with the test.
func child(t *testing.T, files ...*os.File) (pid int) {
	t.Helper()
	c := exec.Command("sleep", "1000")
	c.ExtraFiles = files
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
	return c.Process.Pid
}

func TestHasOpen(t *testing.T) {
	for _, c := range []struct {
		name              string
		flags             int
		inherited         bool
		here, child, line Answer // of this process, of its child, and of the child and this one
	}{
		{"written", os.O_WRONLY, false, Yes, No, Yes},
		{"written by both", os.O_RDWR, true, Yes, Yes, Yes},
		{"read", os.O_RDONLY, true, No, No, No},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, inode, f := file(t, c.flags)
			var files []*os.File
			if c.inherited {
				files = append(files, f)
			}
			self, other := uint32(os.Getpid()), uint32(child(t, files...))
			if got := s.HasOpen(self, inode); got != c.here {
				t.Errorf("the process has it open: %v, want %v", got, c.here)
			}
			if got := s.HasOpen(other, inode); got != c.child {
				t.Errorf("the child has it open: %v, want %v", got, c.child)
			}
			if got := s.AncestryHasOpen(other, inode); got != c.line {
				t.Errorf("the child or one above has it open: %v, want %v", got, c.line)
			}
			s.Mounted("0:0")
			if got := s.HasOpen(self, inode); got != No {
				t.Errorf("the process has a file of another mount open: %v", got)
			}
			runtime.KeepAlive(f)
		})
	}
}

// TestUnseen asks about processes that cannot be seen.
func TestUnseen(t *testing.T) {
	const beyond = 1 << 30 // no process has such a number
	s, inode, f := file(t, os.O_RDWR)
	for name, ask := range map[string]struct {
		of     *Scanner
		thread uint32
	}{
		"a thread of another namespace":       {s, 0},
		"a thread that does not exist":        {s, beyond},
		"where /proc is of another namespace": {&Scanner{}, uint32(os.Getpid())},
	} {
		if has, above, pending := ask.of.HasOpen(ask.thread, inode), ask.of.AncestryHasOpen(ask.thread, inode), ask.of.Pending(ask.thread); has != Unknown || above != Unknown || pending != nil {
			t.Errorf("%s has it open: %v, it or one above: %v; pending: %v", name, has, above, pending)
		}
		if ask.of.SameProcess(uint32(os.Getpid()), ask.thread) {
			t.Errorf("%s is of this process", name)
		}
	}
	runtime.KeepAlive(f)
}

func TestSameProcess(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, self, other := New(), uint32(os.Getpid()), uint32(child(t))
	if own := uint32(unix.Gettid()); !s.SameProcess(own, self) || !s.SameProcess(self, own) || s.SameProcess(self, other) {
		t.Errorf("thread %d of process %d: %v, %v; process %d: %v", own, self, s.SameProcess(own, self), s.SameProcess(self, own), other, s.SameProcess(self, other))
	}
}

// TestPending sends signals to a process that is stopped, so that they stay pending.
func TestPending(t *testing.T) {
	s := New()
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP) // what nohup ignores, children would, too
	defer signal.Stop(caught)
	for _, c := range []struct {
		name string
		send func(pid int, signal syscall.Signal) error
	}{
		{"to the process", syscall.Kill},
		{"to a thread", func(pid int, signal syscall.Signal) error { return unix.Tgkill(pid, pid, signal) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			pid := child(t)
			stop(t, pid)
			for _, signal := range []syscall.Signal{syscall.SIGALRM, syscall.SIGURG, syscall.SIGCHLD, syscall.SIGUSR1, syscall.SIGPIPE, syscall.SIGWINCH} {
				if err := c.send(pid, signal); err != nil {
					t.Fatal(err)
				}
			}
			if got := s.Pending(uint32(pid)); got != nil {
				t.Errorf("pending: %v, but nobody has asked the program to stop", got)
			}
			var want []syscall.Signal
			for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP} {
				if err := c.send(pid, signal); err != nil {
					t.Fatal(err)
				}
				want = append(want, signal)
				if got := s.Pending(uint32(pid)); !slices.Equal(got, want) {
					t.Errorf("pending: %v, want %v", got, want)
				}
			}
		})
	}
}

// stop stops a process, and waits until it is.
func stop(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("wait for the process to stop: %v, %v", status, err)
	}
}

// TestBlockedIsNotPending sends a signal to a thread of this process that blocks it.
func TestBlockedIsNotPending(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and not unlocked: the thread ends, with what is pending
		var set unix.Sigset_t
		set.Val[0] = 1 << (unix.SIGINT - 1)
		if err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil); err != nil {
			t.Error(err)
			return
		}
		own := unix.Gettid()
		if err := unix.Tgkill(os.Getpid(), own, unix.SIGINT); err != nil {
			t.Error(err)
		}
		status, _ := os.ReadFile(procDir(uint64(own)) + "/status")
		if bit := mask(status, "SigPnd"); bit != 1<<(unix.SIGINT-1) {
			t.Errorf("pending, as /proc says: %#x", bit)
		}
		if got := New().Pending(uint32(own)); got != nil {
			t.Errorf("pending: %v, all of which the thread blocks", got)
		}
	}()
	<-done
}

// TestPendingIsRead reads what /proc says.
func TestPendingIsRead(t *testing.T) {
	for _, c := range []struct {
		status string
		want   []syscall.Signal
	}{
		{"Name:\tx\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000000\n", nil},
		{"SigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000000\n", []syscall.Signal{syscall.SIGKILL}},
		{"SigPnd:\t0000000000000100\nShdPnd:\t0000000000004002\nSigBlk:\tffffffffffffffff\n", []syscall.Signal{syscall.SIGKILL}},
		{"SigPnd:\t0000000000000002\nShdPnd:\t0000000000004001\nSigBlk:\t0000000000004000\n", []syscall.Signal{syscall.SIGINT, syscall.SIGHUP}},
		{"SigPnd:\tx\n", nil},
		{"", nil},
	} {
		if got := pending([]byte(c.status)); !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, want %v", c.status, got, c.want)
		}
	}
}

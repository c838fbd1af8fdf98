package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mneme/tests/harness"
)

// TestHangingProcessesAreFreed kills a daemon whose device stays open, as it does while one of
// its threads waits in the kernel: a program that reads from the mount would wait permanently.
// Unmounting frees it, and so does mounting there again.
func TestHangingProcessesAreFreed(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"unmount", "mount"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			e := harness.NewEnv(t)
			e.Store("notes", "--max-memory-bytes=1048576")
			m := e.Mount(t, "notes")
			read := hangingRead(t, m)
			device := device(t, m)
			t.Cleanup(func() { _ = syscall.Close(device) })
			m.Kill(t)
			if way == "unmount" {
				e.Must(t, "unmount", "--at", m.At)
			} else {
				e.Mount(t, "notes", "--at="+m.At).Sh(t, "ls")
			}
			wantFreed(t, read)
		})
	}
}

// hangingRead has a child read a new memory, of a store that takes 200 KB, whose blob
// keeps its readers waiting. It returns once the daemon waits for the blob; the channel
// gets the read's result when that has ended.
func hangingRead(t testing.TB, m *harness.Mount) <-chan harness.Reply {
	t.Helper()
	m.Env.MustIn(t, strings.Repeat("old\n", 50_000), "write", "notes:/f") // large, and so a file of its own
	blob := m.Env.BlobFile(t, m.Env.Versions(t, "notes:/f")[0].SHA256)
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(blob, 0o600); err != nil {
		t.Fatal(err)
	}
	a := m.Agent(t)
	read := make(chan harness.Reply, 1)
	go func() { read <- a.Do(t, harness.Call{Op: "read", Path: "f"}) }()
	harness.AwaitUntil(t, "the daemon reads the blob", func() bool {
		f, err := os.OpenFile(blob, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			t.Cleanup(func() { _ = f.Close() })
		}
		return err == nil
	})
	return read
}

// wantFreed waits until a read that hung has ended, which must be with an error.
func wantFreed(t testing.TB, read <-chan harness.Reply) {
	t.Helper()
	select {
	case r := <-read:
		if r.OK() {
			t.Errorf("the reader read %d bytes", len(r.Text))
		}
	case <-time.After(harness.MountPatience):
		t.Fatal("the reader hangs on")
	}
}

// device returns a descriptor of the daemon's /dev/fuse.
func device(t testing.TB, m *harness.Mount) int {
	t.Helper()
	daemon, err := unix.PidfdOpen(m.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(daemon)
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", m.PID))
	for _, fd := range fds {
		n, _ := strconv.Atoi(filepath.Base(fd))
		if target, _ := os.Readlink(fd); target == "/dev/fuse" {
			device, err := unix.PidfdGetfd(daemon, n, 0)
			if err != nil {
				t.Fatal(err)
			}
			return device
		}
	}
	t.Fatal("the daemon has no device open")
	return -1
}

// threads returns the daemon's threads that are in one of those states, "" is
// any.
func threads(m *harness.Mount, states string) (found []string) {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", m.PID))
	for _, stat := range stats {
		text, _ := os.ReadFile(stat)
		_, after, ok := strings.Cut(string(text), ") ")
		if ok && (states == "" || strings.ContainsAny(after[:1], states)) {
			found = append(found, stat)
		}
	}
	return found
}

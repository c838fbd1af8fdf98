package tests

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
)

// TestHangingProcessesAreFreed kills a daemon whose device stays open, as it does
// while one of its threads waits in the kernel: who reads from the mount would
// wait for ever. Unmounting frees it, and so does mounting there again.
func TestHangingProcessesAreFreed(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"unmount", "mount"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.store("notes", "--max-memory-bytes=1048576")
			m := e.mount(t, "notes")
			read := m.hangingRead(t)
			device := m.device(t)
			t.Cleanup(func() { _ = syscall.Close(device) })
			m.kill(t)
			if way == "unmount" {
				e.must(t, "unmount", "--at", m.at)
			} else {
				e.mount(t, "notes", "--at="+m.at).sh(t, "ls")
			}
			wantFreed(t, read)
		})
	}
}

// hangingRead has a child read a new memory, of a store that takes 200 KB, whose blob
// keeps its readers waiting. It returns once the daemon waits for the blob; the channel
// gets the read's result when that has ended.
func (m *mount) hangingRead(t testing.TB) <-chan reply {
	t.Helper()
	m.env.mustIn(t, strings.Repeat("old\n", 50_000), "write", "notes:/f") // large, and so a file of its own
	blob := m.env.blobFile(t, m.env.versions(t, "notes:/f")[0].SHA256)
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(blob, 0o600); err != nil {
		t.Fatal(err)
	}
	a := m.agent(t)
	read := make(chan reply, 1)
	go func() { read <- a.do(t, call{Op: "read", Path: "f"}) }()
	awaitUntil(t, "the daemon reads the blob", func() bool {
		f, err := os.OpenFile(blob, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			t.Cleanup(func() { _ = f.Close() })
		}
		return err == nil
	})
	return read
}

// wantFreed waits until a read that hung has ended, which must be with an error.
func wantFreed(t testing.TB, read <-chan reply) {
	t.Helper()
	select {
	case r := <-read:
		if r.ok() {
			t.Errorf("the reader read %d bytes", len(r.Text))
		}
	case <-time.After(mountPatience):
		t.Fatal("the reader hangs on")
	}
}

// device returns a descriptor of the daemon's /dev/fuse.
func (m *mount) device(t testing.TB) int {
	t.Helper()
	daemon, err := unix.PidfdOpen(m.pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(daemon)
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", m.pid))
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
func (m *mount) threads(states string) (found []string) {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", m.pid))
	for _, stat := range stats {
		text, _ := os.ReadFile(stat)
		_, after, ok := strings.Cut(string(text), ") ")
		if ok && (states == "" || strings.ContainsAny(after[:1], states)) {
			found = append(found, stat)
		}
	}
	return found
}

// awaitUntil waits until something is the case.
func awaitUntil(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(scriptPatience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not after %v: %s", scriptPatience, what)
		}
	}
}

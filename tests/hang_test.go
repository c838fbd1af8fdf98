package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestHangingProcessesAreFreed kills a daemon while one of its threads waits in
// the kernel for a page that a reader of the mount holds, and the reader for
// the daemon: neither can end. Unmounting frees both, and so does mounting there
// again.
func TestHangingProcessesAreFreed(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"unmount", "mount"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.store("notes", "--max-memory-bytes=1048576")
			m := e.mount(t, "notes")
			// Large, and so a file of its own, which can be made one that keeps its
			// readers waiting.
			e.mustIn(t, strings.Repeat("old\n", 50_000), "write", "notes:/f")
			blob := e.blobFile(t, e.versions(t, "notes:/f")[0].SHA256)
			if err := os.Remove(blob); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(blob, 0o600); err != nil {
				t.Fatal(err)
			}
			a := m.agent(t)
			t.Cleanup(func() {
				if !m.wait(0) { // its connection is there as long as the daemon
					abortConnection(m.minor)
				}
			})
			read := make(chan reply, 1)
			go func() { read <- a.do(t, call{Op: "read", Path: "f"}) }()
			awaitUntil(t, "the daemon reads the blob", func() bool {
				f, err := os.OpenFile(blob, os.O_WRONLY|syscall.O_NONBLOCK, 0)
				if err == nil {
					t.Cleanup(func() { _ = f.Close() })
				}
				return err == nil
			})
			e.mustIn(t, "new\n", "write", "notes:/f")
			awaitUntil(t, "the daemon tells the kernel of the change", func() bool { return len(m.threads("D")) > 0 })
			m.over = true
			_ = syscall.Kill(m.pid, syscall.SIGKILL)
			awaitUntil(t, "nothing of the daemon is left but what hangs", func() bool {
				return len(m.threads("D")) > 0 && len(m.threads("")) == len(m.threads("DZX"))
			})
			if way == "unmount" {
				e.must(t, "unmount", "--at", m.at)
			} else {
				e.mount(t, "notes", "--at="+m.at).sh(t, "cat f")
			}
			if !m.wait(mountPatience) {
				t.Fatal("the daemon hangs on")
			}
			if r := <-read; r.ok() {
				t.Errorf("the reader read %d bytes", len(r.Text))
			}
		})
	}
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

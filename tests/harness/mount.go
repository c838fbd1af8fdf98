package harness

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Mount is a running `mneme mount`.
type Mount struct {
	Env     *Env
	At      string // where
	Dir     string // of the first store
	Session string
	PID     int

	cmd    *exec.Cmd
	minor  string      // of the device, which names the FUSE connection
	Ready  *lineWaiter // standard output
	Stderr *SafeBuffer
	ended  chan struct{} // closed when the daemon has exited
	Err    error         // how; valid once ended is closed
	Over   bool          // stopped or killed by the test
}

// MountCount numbers what tests mount.
var MountCount counter

// Mount starts `mneme mount` with those stores and flags in the foreground and
// returns when it is there. Stores that are missing are made. Without --at it
// has a directory of its own, without --session a session of its own. It ends
// with the test.
func (e *Env) Mount(t testing.TB, args ...string) *Mount {
	t.Helper()
	m := &Mount{Env: e, Stderr: &SafeBuffer{}, ended: make(chan struct{})}
	first := ""
	for _, arg := range args {
		if at, ok := strings.CutPrefix(arg, "--at="); ok {
			m.At = at
		} else if session, ok := strings.CutPrefix(arg, "--session="); ok {
			m.Session = session
		} else if !strings.HasPrefix(arg, "-") {
			name, _, _ := strings.Cut(arg, ":")
			e.Store(name)
			if first == "" {
				first = name
			}
		}
	}
	n := MountCount.Next()
	if m.At == "" {
		m.At = filepath.Join(e.Dir, fmt.Sprintf("mnt-%d", n))
		args = append(args, "--at="+m.At)
	}
	if m.Session == "" && !e.Sessionless {
		m.Session = fmt.Sprintf("session-%d", n)
		args = append(args, "--session="+m.Session)
	}
	m.Dir = filepath.Join(m.At, first)
	if slices.Contains(args, "--flat") {
		m.Dir = m.At
	}
	m.start(t, append([]string{"mount", "--json"}, args...))
	return m
}

func (m *Mount) start(t testing.TB, args []string) {
	t.Helper()
	m.cmd = exec.Command(m.Env.Daemon, args...)
	m.cmd.Env = m.Env.Environ()
	m.cmd.Stderr = m.Stderr
	// A test process that is killed takes its daemons along.
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if m.Env.Unseen {
		m.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID
	}
	if m.Env.Alone {
		m.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWNET
	}
	m.Ready = newLineWaiter()
	m.cmd.Stdout = m.Ready
	StartTied(t, m.cmd)
	go func() {
		m.Err = m.cmd.Wait()
		close(m.ended)
	}()
	m.PID = m.cmd.Process.Pid
	t.Cleanup(func() { m.End(t) })
	select {
	case <-m.Ready.first:
	case <-m.ended:
		t.Fatalf("mneme %s: %v\n%s", strings.Join(args, " "), m.Err, m.Stderr)
	case <-time.After(MountPatience):
		t.Fatalf("mneme %s: not mounted after %v\n%s", strings.Join(args, " "), MountPatience, m.Stderr)
	}
	for _, info := range mountInfos() {
		if info.dir == m.At {
			m.minor = info.minor
		}
	}
	if m.minor == "" {
		t.Fatalf("%s is not mounted, though mneme said so\n%s", m.At, m.Stderr)
	}
}

// End is the cleanup of a mount: whatever state it is in, afterwards it is gone.
func (m *Mount) End(t testing.TB) {
	t.Helper()
	if t.Failed() && !m.Over && m.Wait(500*time.Millisecond) {
		t.Logf("the daemon of %s ended before the test did: %v %s", m.At, m.Err, m.Stderr)
	}
	if !m.Over {
		m.Over = true
		_ = syscall.Kill(m.PID, syscall.SIGTERM)
		if !m.Wait(MountPatience) {
			t.Errorf("the daemon did not end within %v of SIGTERM; its goroutines:\n%s", MountPatience, m.Goroutines())
		} else if m.Err != nil {
			t.Errorf("the daemon ended badly: %v\n%s", m.Err, m.Stderr)
		} else if left := MountsBelow(m.At); len(left) > 0 {
			t.Errorf("still mounted after SIGTERM: %v", left)
		}
	}
	if !m.Wait(0) {
		m.Abort()
		_ = syscall.Kill(m.PID, syscall.SIGKILL)
		m.Wait(MountPatience)
	}
	for range MountsBelow(m.At) {
		_ = exec.Command("umount", "-l", m.At).Run()
	}
	if text := m.Stderr.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic") {
		t.Errorf("the daemon said:\n%s", text)
	}
	if t.Failed() && m.Stderr.String() != "" {
		t.Logf("the daemon of %s said:\n%s", m.At, m.Stderr)
	}
}

// Wait reports whether the daemon has exited, after patience at the latest.
func (m *Mount) Wait(patience time.Duration) bool {
	select {
	case <-m.ended:
		return true
	case <-time.After(patience):
	}
	select { // when both are the case, select picks either
	case <-m.ended:
		return true
	default:
		return false
	}
}

// Goroutines makes a daemon that hangs say where.
func (m *Mount) Goroutines() string {
	m.Abort()
	_ = syscall.Kill(m.PID, syscall.SIGQUIT)
	m.Wait(5 * time.Second)
	return m.Stderr.String()
}

// Stop ends the mount as a person would; it must end well.
func (m *Mount) Stop(t testing.TB) {
	t.Helper()
	m.End(t)
}

// Kill ends the daemon as a power cut would and leaves the mount behind.
func (m *Mount) Kill(t testing.TB) {
	t.Helper()
	m.Over = true
	_ = syscall.Kill(m.PID, syscall.SIGKILL)
	if !m.Wait(MountPatience) {
		t.Fatalf("the daemon outlived SIGKILL for %v", MountPatience)
	}
}

// Abort ends the FUSE connection: every request in it fails, whichever program waits. The kernel
// gives the number of a connection that is gone to the next one, perhaps another test's, so that
// only one that is still mounted is ended.
func (m *Mount) Abort() {
	mine := mountInfo{dir: m.At, minor: m.minor, source: fmt.Sprintf("mneme:%d", m.PID)}
	if m.Dir == m.At {
		mine.source += ":flat"
	}
	if slices.Contains(mountInfos(), mine) {
		abortConnection(m.minor)
	}
}

// abortConnection ends the FUSE connection of that number.
func abortConnection(minor string) {
	const connections = "/sys/fs/fuse/connections"
	dir := connections
	if _, err := os.Stat(filepath.Join(dir, minor)); err != nil {
		tmp, err := os.MkdirTemp(WorkDir, "fusectl-")
		if err != nil {
			return
		}
		defer os.Remove(tmp)
		if syscall.Mount("none", tmp, "fusectl", 0, "") != nil {
			return
		}
		defer syscall.Unmount(tmp, syscall.MNT_DETACH)
		dir = tmp
	}
	_ = os.WriteFile(filepath.Join(dir, minor, "abort"), []byte("1"), 0)
}

// Try runs a bash script in the first store's directory and returns how it
// ended. A script that hangs fails the test and the mount.
func (m *Mount) Try(t testing.TB, script string) Result {
	t.Helper()
	return m.tryIn(t, m.Dir, script)
}

// tryIn is Try in another directory.
func (m *Mount) tryIn(t testing.TB, dir, script string) Result {
	t.Helper()
	return m.Env.Run(t, ScriptPatience, "", m.Abort,
		"bash", "-euo", "pipefail", "-c", "cd -- \"$0\"\n"+script, dir)
}

// Sh is Try for a script that has to succeed; it returns its output.
func (m *Mount) Sh(t testing.TB, script string) string {
	t.Helper()
	return m.ShIn(t, m.Dir, script)
}

// ShIn is Sh in another directory.
func (m *Mount) ShIn(t testing.TB, dir, script string) string {
	t.Helper()
	r := m.tryIn(t, dir, script)
	if r.Code != 0 {
		t.Fatalf("script:\n%s\n%v", script, r)
	}
	return r.Stdout
}

// Background starts a script as sh would and returns a function that waits for
// its end and returns how it ended.
func (m *Mount) Background(t testing.TB, script string) (wait func() Result) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var r Result
	go func() {
		defer cancel()
		r = m.Try(t, script)
	}()
	return func() Result {
		<-ctx.Done()
		return r
	}
}

// Eventually repeats a script until it succeeds.
func (m *Mount) Eventually(t *testing.T, script string) {
	t.Helper()
	var r Result
	began := time.Now()
	defer func() { t.Logf("%s: after %v", script, time.Since(began).Round(time.Millisecond)) }()
	for deadline := time.Now().Add(ScriptPatience); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		if r = m.Try(t, script); r.Code == 0 {
			return
		}
	}
	t.Fatalf("%s: still fails after %v: %v\n%s", script, ScriptPatience, r, m.Sh(t, "cat .mneme/status .mneme/errors"))
}

package tests

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childVariable makes this test binary a child process that uses a mount, as
// the test process itself must not.
const childVariable = "MNEME_TEST_CHILD"

// childRoles are what children do, given their arguments.
var childRoles = map[string]func(args []string) error{
	"write":     writerChild,
	"agent":     agentChild,
	"bare":      bareChild,
	"hold":      holdChild,
	"bench":     benchChild,
	"coherence": coherenceChild,
	"steward":   stewardChild,
	"trace":     traceChild,
}

func runChild(role string, args []string) int {
	if err := childRoles[role](args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is a running child process.
type child struct {
	what   string
	mount  *mount
	cmd    *exec.Cmd
	stdout *lineWaiter
	stderr *safeBuffer
	ended  chan struct{} // closed when it has exited
	err    error         // how; valid once ended is closed
}

// child starts a child process that uses the mount. It ends with the test.
func (m *mount) child(t testing.TB, role string, args ...string) *child {
	t.Helper()
	return m.childWith(t, nil, nil, role, args...)
}

// childWith is child with a standard input and output.
func (m *mount) childWith(t testing.TB, stdin, stdout *os.File, role string, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{
		what: role + " " + strings.Join(args, " "), mount: m, cmd: exec.Command(self, args...),
		stdout: newLineWaiter(), stderr: &safeBuffer{}, ended: make(chan struct{}),
	}
	c.cmd.Env = append(m.env.environ(), childVariable+"="+role)
	c.cmd.Stdout, c.cmd.Stderr = c.stdout, c.stderr
	if stdin != nil {
		c.cmd.Stdin, c.cmd.Stdout = stdin, stdout
	}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	t.Cleanup(func() { c.kill(t) })
	return c
}

// wait waits for the end of a child, which must come within patience.
func (c *child) wait(t testing.TB, patience time.Duration) error {
	t.Helper()
	select {
	case <-c.ended:
		return c.err
	case <-time.After(patience):
		c.kill(t)
		t.Fatalf("child %s: not done after %v\n%s", c.what, patience, c.stderr)
		return nil
	}
}

// kill ends a child, if need be with its mount.
func (c *child) kill(t testing.TB) {
	t.Helper()
	_ = c.cmd.Process.Kill()
	select {
	case <-c.ended:
		return
	case <-time.After(5 * time.Second):
		t.Errorf("child %s outlived SIGKILL: it hangs in the mount", c.what)
		c.mount.abort()
		<-c.ended
	}
}

// waitFirstLine waits until the child has written a line.
func (c *child) waitFirstLine(t testing.TB, patience time.Duration) {
	t.Helper()
	select {
	case <-c.stdout.first:
	case <-c.ended:
		t.Fatalf("child %s: %v\n%s", c.what, c.err, c.stderr)
	case <-time.After(patience):
		t.Fatalf("child %s: silent for %v", c.what, patience)
	}
}

// startTied starts a process whose Pdeathsig comes when the test process ends. The
// kernel sends it when the thread ends that started the process, so that thread
// does nothing else, and stays, until the process has ended.
func startTied(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		for waiting := err == nil; waiting; {
			waiting = unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
}

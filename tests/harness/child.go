package harness

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// ChildVariable makes this test binary a child process that uses a mount, as
// the test process itself must not.
const ChildVariable = "MNEME_TEST_CHILD"

// Child is a running child process.
type Child struct {
	What   string
	Mount  *Mount
	Cmd    *exec.Cmd
	Stdout *lineWaiter
	Stderr *SafeBuffer
	Ended  chan struct{} // closed when it has exited
	Err    error         // how; valid once ended is closed
}

// Child starts a child process that uses the mount. It ends with the test.
func (m *Mount) Child(t testing.TB, role string, args ...string) *Child {
	t.Helper()
	return m.childWith(t, nil, nil, role, args...)
}

// childWith is Child with a standard input and output.
func (m *Mount) childWith(t testing.TB, stdin, stdout *os.File, role string, args ...string) *Child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &Child{
		What: role + " " + strings.Join(args, " "), Mount: m, Cmd: exec.Command(self, args...),
		Stdout: newLineWaiter(), Stderr: &SafeBuffer{}, Ended: make(chan struct{}),
	}
	c.Cmd.Env = append(m.Env.Environ(), ChildVariable+"="+role)
	c.Cmd.Stdout, c.Cmd.Stderr = c.Stdout, c.Stderr
	if stdin != nil {
		c.Cmd.Stdin, c.Cmd.Stdout = stdin, stdout
	}
	c.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		c.Err = c.Cmd.Wait()
		close(c.Ended)
	}()
	t.Cleanup(func() { c.Kill(t) })
	return c
}

// Wait waits for the end of a child, which must come within patience.
func (c *Child) Wait(t testing.TB, patience time.Duration) error {
	t.Helper()
	select {
	case <-c.Ended:
		return c.Err
	case <-time.After(patience):
		c.Kill(t)
		t.Fatalf("child %s: not done after %v\n%s", c.What, patience, c.Stderr)
		return nil
	}
}

// Kill ends a child, if need be with its mount.
func (c *Child) Kill(t testing.TB) {
	t.Helper()
	_ = c.Cmd.Process.Kill()
	select {
	case <-c.Ended:
		return
	case <-time.After(5 * time.Second):
		t.Errorf("child %s outlived SIGKILL: it hangs in the mount", c.What)
		c.Mount.Abort()
		<-c.Ended
	}
}

// WaitFirstLine waits until the child has written a line.
func (c *Child) WaitFirstLine(t testing.TB, patience time.Duration) {
	t.Helper()
	select {
	case <-c.Stdout.first:
	case <-c.Ended:
		t.Fatalf("child %s: %v\n%s", c.What, c.Err, c.Stderr)
	case <-time.After(patience):
		t.Fatalf("child %s: silent for %v", c.What, patience)
	}
}

// holdChild keeps a file that it has written open, or a directory: "file" and
// a path, or "dir" and one. It says so in a line and waits to be killed.
func holdChild(args []string) error {
	switch args[0] {
	case "file":
		f, err := os.Create(args[1])
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteString("not closed yet\n"); err != nil {
			return err
		}
	case "dir":
		if err := os.Chdir(args[1]); err != nil {
			return err
		}
	}
	fmt.Println("holding")
	time.Sleep(time.Minute)
	return errors.New("nobody came")
}

package harness

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Lines is a program that answers a line of its input with a line, such as `mneme tool`.
type Lines struct {
	PID    int
	Stderr *SafeBuffer

	name string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	late *time.Timer
}

// Lines starts a program that answers lines. It ends with the test, or with End, or when it has
// run for LongPatience.
func (e *Env) Lines(t testing.TB, name string, args ...string) *Lines {
	t.Helper()
	l := &Lines{Stderr: &SafeBuffer{}, name: filepath.Base(name) + " " + strings.Join(args, " "), cmd: exec.Command(name, args...)}
	l.cmd.Env, l.cmd.Stderr = e.Environ(), l.Stderr
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	in, err := l.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.in, l.out = in, bufio.NewReader(out)
	StartTied(t, l.cmd)
	l.PID = l.cmd.Process.Pid
	l.late = time.AfterFunc(LongPatience, func() { _ = syscall.Kill(-l.PID, syscall.SIGKILL) })
	t.Cleanup(func() { l.End(t) })
	return l
}

// Tell sends a line that has no answer.
func (l *Lines) Tell(t testing.TB, line string) {
	t.Helper()
	if _, err := io.WriteString(l.in, line+"\n"); err != nil {
		t.Fatalf("%s: %v\n%s", l.name, err, l.Stderr)
	}
}

// Ask sends a line and returns the answer. What the program says by itself, it skips: what has
// a method.
func (l *Lines) Ask(t testing.TB, line string) string {
	t.Helper()
	l.Tell(t, line)
	for {
		answer, err := l.out.ReadString('\n')
		if err != nil {
			t.Fatalf("%s: no answer to %.500s: %v\n%s", l.name, line, err, l.Stderr)
		}
		var said struct{ Method string }
		if json.Unmarshal([]byte(answer), &said) == nil && said.Method == "" {
			return strings.TrimSuffix(answer, "\n")
		}
	}
}

// End ends the input of the program, which must end well.
func (l *Lines) End(t testing.TB) {
	t.Helper()
	if l.cmd.ProcessState != nil {
		return
	}
	_ = l.in.Close()
	_, _ = io.Copy(io.Discard, l.out)
	if err := l.cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", l.name, err, l.Stderr)
	}
	l.late.Stop()
}

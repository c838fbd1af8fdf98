package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
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

// Ask sends a line and returns the answer.
func (l *Lines) Ask(t testing.TB, line string) string {
	t.Helper()
	answer, err := l.Try(line)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// Try is Ask for any goroutine.
func (l *Lines) Try(line string) (string, error) {
	err := l.Tell(line)
	for err == nil {
		var answer string
		if answer, err = l.out.ReadString('\n'); err == nil && !speaksFirst(answer) {
			return strings.TrimSuffix(answer, "\n"), nil
		}
	}
	return "", fmt.Errorf("%s: no answer to %.500s: %w\n%s", l.name, line, err, l.Stderr)
}

// Tell sends a line that has no answer.
func (l *Lines) Tell(line string) error {
	_, err := io.WriteString(l.in, line+"\n")
	return err
}

// speaksFirst reports whether a line is no answer: it has a method.
func speaksFirst(line string) bool {
	if !strings.Contains(line, `"method":`) {
		return false
	}
	var said struct{ Method string }
	return json.Unmarshal([]byte(line), &said) == nil && said.Method != ""
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

package tests

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An agent is a child process that does one thing at a time in a mount, as it
// is told, so that a test can make several mounts race.

// call is what an agent is to do. Paths are below the store's directory.
type call struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	To   string `json:"to,omitempty"`
	Text string `json:"text,omitempty"`
	N    int64  `json:"n,omitempty"` // an offset or size, see openFiles
}

func (c call) String() string {
	if c.To != "" {
		return c.Op + " " + c.Path + " " + c.To
	}
	return c.Op + " " + c.Path
}

// reply is how it went.
type reply struct {
	Errno syscall.Errno `json:"errno"` // 0: well
	Text  string        `json:"text,omitempty"`
}

func (r reply) ok() bool { return r.Errno == 0 }

// agentChild does what it reads from standard input, below a directory.
func agentChild(args []string) error {
	calls, replies := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	files := openFiles{}
	for {
		var c call
		if err := calls.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var r reply
		text, err := files.perform(args[0], c)
		if err != nil && !errors.As(err, &r.Errno) {
			return fmt.Errorf("%v: %w", c, err)
		}
		r.Text = text
		if err := replies.Encode(r); err != nil {
			return err
		}
	}
}

func perform(dir string, c call) (string, error) {
	path, to := filepath.Join(dir, c.Path), filepath.Join(dir, c.To)
	switch c.Op {
	case "put":
		return "", writeAndClose(path, c.Text, os.O_CREATE|os.O_TRUNC)
	case "excl":
		return "", writeAndClose(path, c.Text, os.O_CREATE|os.O_EXCL)
	case "append":
		return "", writeAndClose(path, c.Text, os.O_CREATE|os.O_APPEND)
	case "replace":
		temp := fmt.Sprintf("%s.tmp.%d", path, os.Getpid())
		err := writeAndClose(temp, c.Text, os.O_CREATE|os.O_TRUNC)
		if err == nil {
			err = os.Rename(temp, path)
		}
		if err != nil {
			_ = os.Remove(temp)
		}
		return "", err
	case "episode":
		return playPart(path, c.Text)
	case "read":
		data, err := os.ReadFile(path)
		return string(data), err
	case "list":
		entries, err := os.ReadDir(path)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return strings.Join(names, " "), err
	case "rename":
		return "", syscall.Rename(path, to)
	case "unlink":
		return "", syscall.Unlink(path)
	case "mkdir":
		return "", os.MkdirAll(path, 0o755)
	case "rmdir":
		return "", syscall.Rmdir(path)
	case "rmtree":
		return "", os.RemoveAll(path)
	}
	return "", fmt.Errorf("no such call")
}

// agent is the test's end of an agent.
type agent struct{ *dialogue[reply] }

// agent starts an agent in the first store of the mount.
func (m *mount) agent(t testing.TB) *agent {
	t.Helper()
	return &agent{talk[reply](t, m, "agent")}
}

// end lets the agent go, so that the mount is not in use any more.
func (a *agent) end(t testing.TB) {
	t.Helper()
	a.stop()
	if err := a.child.wait(t, scriptPatience); err != nil {
		t.Errorf("the agent: %v\n%s", err, a.child.stderr)
	}
}

// do has the agent do something; it must not take long.
func (a *agent) do(t testing.TB, c call) reply { return a.doWithin(t, c, scriptPatience) }

func (a *agent) doWithin(t testing.TB, c call, patience time.Duration) reply {
	if err := a.calls.Encode(c); err != nil {
		t.Errorf("%v: %v", c, err)
		return reply{Errno: syscall.EPIPE}
	}
	select {
	case r, ok := <-a.replies:
		if ok {
			return r
		}
		t.Errorf("%v: the agent has died: %s", c, a.child.stderr)
	case <-time.After(patience):
		t.Errorf("%v in %s: not done after %v", c, a.child.mount.dir, patience)
		a.child.mount.abort()
		<-a.replies
	}
	return reply{Errno: syscall.ETIMEDOUT}
}

// must is do for what has to go well.
func (a *agent) must(t testing.TB, c call) string {
	t.Helper()
	r := a.do(t, c)
	if !r.ok() {
		t.Fatalf("%v: %v", c, r.Errno)
	}
	return r.Text
}

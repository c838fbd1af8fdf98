package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Reply is how it went.
type Reply struct {
	Errno syscall.Errno `json:"errno"` // 0: well
	Text  string        `json:"text,omitempty"`
}

// OK reports whether it went well.
func (r Reply) OK() bool { return r.Errno == 0 }

// AgentChild does what it reads from standard input, below a directory. With own
// it does calls of a package's own, given a path and a text.
func AgentChild(args []string, own map[string]func(path, text string) (string, error)) error {
	calls, replies := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	files := openFiles{}
	for {
		var c Call
		if err := calls.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var r Reply
		var text string
		var err error
		if does := own[c.Op]; does != nil {
			text, err = does(filepath.Join(args[0], c.Path), c.Text)
		} else {
			text, err = files.perform(args[0], c)
		}
		if err != nil && !errors.As(err, &r.Errno) {
			return fmt.Errorf("%v: %w", c, err)
		}
		r.Text = text
		if err := replies.Encode(r); err != nil {
			return err
		}
	}
}

// Agent is the test's end of an agent.
type Agent struct{ *Dialogue[Reply] }

// Agent starts an agent in the first store of the mount.
func (m *Mount) Agent(t testing.TB) *Agent {
	t.Helper()
	return &Agent{Talk[Reply](t, m, "agent")}
}

// End lets the agent go, so that the mount is not in use any more.
func (a *Agent) End(t testing.TB) {
	t.Helper()
	a.stop()
	if err := a.Child.Wait(t, ScriptPatience); err != nil {
		t.Errorf("the agent: %v\n%s", err, a.Child.Stderr)
	}
}

// Do has the agent do something; it must not take long.
func (a *Agent) Do(t testing.TB, c Call) Reply { return a.DoWithin(t, c, ScriptPatience) }

// DoWithin is Do for a command that may take longer, or must not take that long.
func (a *Agent) DoWithin(t testing.TB, c Call, patience time.Duration) Reply {
	if err := a.Calls.Encode(c); err != nil {
		t.Errorf("%v: %v", c, err)
		return Reply{Errno: syscall.EPIPE}
	}
	select {
	case r, ok := <-a.Replies:
		if ok {
			return r
		}
		t.Errorf("%v: the agent has died: %s", c, a.Child.Stderr)
	case <-time.After(patience):
		t.Errorf("%v in %s: not done after %v", c, a.Child.Mount.Dir, patience)
		a.Child.Mount.Abort()
		<-a.Replies
	}
	return Reply{Errno: syscall.ETIMEDOUT}
}

// Must is Do for a command that must go well.
func (a *Agent) Must(t testing.TB, c Call) string {
	t.Helper()
	r := a.Do(t, c)
	if !r.OK() {
		t.Fatalf("%v: %v", c, r.Errno)
	}
	return r.Text
}

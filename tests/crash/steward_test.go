package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"mneme/memory"
	"mneme/tests/harness"
	"mneme/versionlog"
)

// A steward is a child process that has an embedded store open for long, as a
// mount's daemon has, and commits what it is told, one batch at a time.

// order is what a steward is to do.
type order struct {
	Store   string   `json:"store"`
	Changes []change `json:"changes"`
}

// change is one part of a batch: a put, or with To a rename, or with Gone a
// removal.
type change struct {
	Path string `json:"path"`
	Text string `json:"text,omitempty"`
	To   string `json:"to,omitempty"`
	Gone bool   `json:"gone,omitempty"`
}

func (c change) forMemory() memory.Change {
	switch {
	case c.Gone:
		return memory.Change{Action: versionlog.Remove, Path: c.Path, Expect: versionlog.ExpectExists()}
	case c.To != "":
		return memory.Change{Action: versionlog.Rename, Path: c.Path, To: c.To, Expect: versionlog.ExpectExists()}
	}
	return memory.Change{Action: versionlog.Put, Path: c.Path, Content: []byte(c.Text), Expect: versionlog.ExpectAny()}
}

// stewardChild commits what it reads from standard input in the embedded store
// of a directory, and says of each when it is acknowledged.
func stewardChild(args []string) (err error) {
	ctx := context.Background()
	stores, err := harness.OpenEmbedded(ctx, args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.Close()) }()
	orders, replies := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		store, err := stores.OpenNamed(ctx, o.Store)
		if err != nil {
			return err
		}
		var changes []memory.Change
		for _, c := range o.Changes {
			changes = append(changes, c.forMemory())
		}
		if _, err := store.Batch(ctx, changes, nil); err != nil {
			return fmt.Errorf("%+v: %w", o, err)
		}
		if err := replies.Encode("done"); err != nil {
			return err
		}
	}
}

// steward is the test's end of a steward.
type steward struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	orders  *json.Encoder
	replies *json.Decoder
	stderr  bytes.Buffer
}

func startSteward(t testing.TB, e *harness.Env) *steward {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := &steward{cmd: exec.Command(self, e.Stores)}
	s.cmd.Env = append(e.Environ(), harness.ChildVariable+"=steward")
	s.cmd.Stderr = &s.stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.stdin, s.orders, s.replies = stdin, json.NewEncoder(stdin), json.NewDecoder(stdout)
	return s
}

// do gives an order and reports whether it was acknowledged.
func (s *steward) do(o order) bool {
	var reply string
	return s.orders.Encode(o) == nil && s.replies.Decode(&reply) == nil
}

// kill sends SIGKILL; it returns at once.
func (s *steward) kill() { _ = s.cmd.Process.Kill() }

// wait waits for the end of a steward that was killed, or has nothing more to
// do, and reports whether it ended as it should.
func (s *steward) wait(killed bool) error {
	_ = s.stdin.Close()
	err := s.cmd.Wait()
	if status, ok := s.cmd.ProcessState.Sys().(syscall.WaitStatus); killed && ok && status.Signal() == syscall.SIGKILL {
		return nil
	}
	if err == nil && killed {
		return errors.New("the steward ended by itself")
	}
	if err != nil {
		return fmt.Errorf("the steward: %w\n%s", err, &s.stderr)
	}
	return nil
}

package sdk

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"mneme/tests/harness"
)

// node is the TypeScript SDK, in a process of client.mjs.
type node struct {
	in  io.Writer
	out *bufio.Reader
}

func newNode(t *testing.T, name, url string) client {
	n := harness.FindNode(t, filepath.Join("..", "agents", "node", "package-lock.json"))
	cmd := exec.CommandContext(t.Context(), n.Program, n.Beside(t, "client.mjs"), name, url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	return &node{in, bufio.NewReader(out)}
}

func (n *node) do(_ context.Context, c call) (answer, *failure) {
	var read struct {
		answer
		Failure *failure `json:"failure"`
	}
	data, err := json.Marshal(c)
	if err == nil {
		_, err = n.in.Write(append(data, '\n'))
	}
	if err == nil {
		data, err = n.out.ReadBytes('\n')
	}
	if err == nil {
		err = json.Unmarshal(data, &read)
	}
	if err != nil {
		return answer{}, &failure{Type: err.Error()}
	}
	return read.answer, read.Failure
}

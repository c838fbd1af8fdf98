package agents

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mneme/tests/harness"
)

// TestManySwapsOverMCP has 50 workers add a line each to a file, over several processes of
// `mneme mcp`, each with the version that it has read as the condition. Each file has workers in
// every process. Every write that was acknowledged is in the history once, and no line is lost.
func TestManySwapsOverMCP(t *testing.T) {
	const processes, workers, files = 5, 10, 5 // workers of each process
	url := newStore(t)
	var servers []*mcpProcess
	for range processes {
		servers = append(servers, startMCP(t, url))
	}
	for f := range files {
		if _, err := servers[0].call("write", map[string]string{"path": fmt.Sprintf("/memories/%d.md", f), "text": "begin\n", "if_version": "none"}); err != nil {
			t.Fatal(err)
		}
	}
	acknowledged := make(chan string, processes*workers)
	var all sync.WaitGroup
	for p, s := range servers {
		for w := range workers {
			all.Go(func() {
				version, err := s.addLine(fmt.Sprintf("/memories/%d.md", w%files), fmt.Sprintf("worker %d.%d\n", p, w))
				if err != nil {
					t.Error(err)
					return
				}
				acknowledged <- version
			})
		}
	}
	all.Wait()
	close(acknowledged)

	text := ""
	for f := range files {
		read, err := servers[f%processes].call("read", map[string]string{"path": fmt.Sprintf("/memories/%d.md", f)})
		if err != nil {
			t.Fatal(err)
		}
		_, lines := read.read()
		text += lines
	}
	if n := strings.Count(text, "worker "); n != processes*workers {
		t.Errorf("%d lines, want %d", n, processes*workers)
	}
	for p := range processes {
		for w := range workers {
			if line := fmt.Sprintf("worker %d.%d\n", p, w); strings.Count(text, line) != 1 {
				t.Errorf("%q is there %d times", line, strings.Count(text, line))
			}
		}
	}
	history := output(t, url, "log", "--json", "notes")
	if n := strings.Count(history, `"operation":"modified"`); n != processes*workers {
		t.Errorf("%d versions, want %d", n, processes*workers)
	}
	for version := range acknowledged {
		if n := strings.Count(history, `"id":"`+version+`"`); n != 1 {
			t.Errorf("%s is in the history %d times", version, n)
		}
	}
}

// mcpProcess is a process of `mneme mcp`, which workers share.
type mcpProcess struct {
	mu      sync.Mutex // guards what follows
	in      io.Writer
	last    int
	waiting map[int]chan mcpAnswer
}

// mcpAnswer is what a process answers to a call of a tool.
type mcpAnswer struct {
	ID     int
	Error  json.RawMessage
	Result struct {
		IsError bool
		Content []struct{ Text string }
		Fields  struct {
			Version string
			Error   struct{ Kind, Text string }
		} `json:"structuredContent"`
	}
}

// read returns the version and the text that a read has answered.
func (a *mcpAnswer) read() (version, text string) {
	head := a.Result.Content[0].Text
	return regexp.MustCompile(`memver_[0-9a-z]+`).FindString(head), a.Result.Content[1].Text
}

// startMCP starts a process, which ends with the test.
func startMCP(t *testing.T, url string) *mcpProcess {
	t.Helper()
	cmd := exec.Command(harness.Binary, "--url", url, "mcp", "--store", "notes")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	harness.StartTied(t, cmd)
	s := &mcpProcess{in: in, last: 1, waiting: map[int]chan mcpAnswer{}}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.receive(out)
	}()
	t.Cleanup(func() {
		_ = in.Close()
		<-ended
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	if _, err := io.WriteString(in, hello+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	return s
}

// receive hands answers to the workers that wait for them, until there are no more.
func (s *mcpProcess) receive(out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a mcpAnswer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue
		}
		s.mu.Lock()
		if c := s.waiting[a.ID]; c != nil {
			delete(s.waiting, a.ID)
			c <- a
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.waiting {
		close(c)
	}
}

// call calls a tool.
func (s *mcpProcess) call(name string, arguments map[string]string) (mcpAnswer, error) {
	own := make(chan mcpAnswer, 1)
	s.mu.Lock()
	s.last++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.last, "method": "tools/call", "params": map[string]any{"name": name, "arguments": arguments}})
	if err == nil {
		s.waiting[s.last] = own
		_, err = s.in.Write(append(line, '\n'))
	}
	s.mu.Unlock()
	if err != nil {
		return mcpAnswer{}, err
	}
	a, answered := <-own
	if !answered || a.Error != nil {
		return a, fmt.Errorf("%s: answered %v: %s", name, answered, a.Error)
	}
	return a, nil
}

// addLine adds a line to a file, and returns the version that was acknowledged.
func (s *mcpProcess) addLine(path, line string) (version string, err error) {
	for {
		read, err := s.call("read", map[string]string{"path": path})
		if err != nil {
			return "", err
		}
		now, text := read.read()
		wrote, err := s.call("write", map[string]string{"path": path, "text": text + line, "if_version": now})
		switch got := wrote.Result; {
		case err != nil:
			return "", err
		case !got.IsError:
			return got.Fields.Version, nil
		case got.Fields.Error.Kind != "conflict":
			return "", fmt.Errorf("the write failed: %+v", got.Fields.Error)
		}
	}
}

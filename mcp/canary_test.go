package mcp

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"mneme/tools"
)

// canary is a text that stands in memories and in what is asked about them.
const canary = "canary-4711"

// TestCanary says that what memories hold, and what is asked about them, is in answers only:
// not in the log, whatever happens.
func TestCanary(t *testing.T) {
	log := &syncBuffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r := newRig(t, &rigOptions{tools: tools.Options{Logger: logger}, log: logger})
	c := r.connect(newest(canAskForm))
	r.theirs("/a.md", canary+"\n")
	r.theirs("/d/1", canary)
	r.theirs("/d/2", canary)
	c.ok(canary, "read", "path", "/memories/a.md")
	c.ok(canary, "memory", "command", "view", "path", "/memories/a.md")
	c.ok(canary, "search", "query", canary)
	c.fails("", "invalid", "search", "query", "("+canary, "regex", true)
	c.ok("Wrote", "write", "path", "/memories/b.md", "text", canary)
	c.ok(canary, "diff", "path", "/memories/b.md")
	r.theirs("/a.md", canary+canary+"\n")
	c.fails("", "conflict", "write", "path", "/memories/a.md", "text", "mine "+canary)
	c.ok(canary, "conflicts", "action", "show", "id", 1)
	c.fails("No replacement was performed", "invalid", "memory", "command", "str_replace", "path", "/memories/b.md", "old_str", canary+"x", "new_str", canary)
	c.fails("is unknown", "invalid", "read", "path", "/memories/b.md", canary, canary)
	c.fails("must be", "invalid", "write", "path", "/memories/b.md", "text", []string{canary})
	asked := c.tool("memory", deleting...)
	c.toolWith("memory", reply(asked, `{"action":"accept","content":{"confirm":false,"why":"`+canary+`"}}`), deleting...)
	c.resource("mneme://notes/a.md")
	for _, line := range []string{canary, `{"jsonrpc":"2.0","id":"` + canary + `","method":"` + canary + `"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + canary + `"}}`} {
		c.send(line)
		c.next()
	}
	r.face.now = nil // so that a deletion panics
	if m := c.try("tools/call", map[string]any{"name": "memory", "arguments": arguments(deleting), "requestState": canary}); m.Error == nil || m.Error.Message != broken {
		t.Errorf("a panic is answered %s, %+v", m.Result, m.Error)
	}
	if !strings.Contains(log.String(), "panic") || !strings.Contains(log.String(), "tool=search") {
		t.Errorf("the log does not tell of a panic, or of a call: %s", log)
	}
	if strings.Contains(log.String(), canary) {
		t.Errorf("the log has the canary: %s", log)
	}
}

// syncBuffer is a buffer for many goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mneme/internal/testing/logfault"
	"mneme/tools"
)

// TestLines says that a line that is no request is answered, and the next one is served.
func TestLines(t *testing.T) {
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for _, tc := range []struct {
		name, line, id, want string
		code                 int
	}{
		{"garbage", "hello", "null", "it is not JSON", -32700},
		{"half", `{"jsonrpc":"2.0","id":1,`, "null", "it is not JSON", -32700},
		{"not Unicode", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + "\xff" + `"}}`, "1", "it is not Unicode", -32700},
		{"half a character", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\ud800"}}`, "1", "it is not Unicode", -32700},
		{"deep", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":` + deep + `}}`, "null", "it is nested too deeply", -32600},
		{"a field twice", `{"jsonrpc":"2.0","id":"one","method":"tools/call","params":{"name":"list","arguments":{"path":"/memories","path":"/memories/x"}}}`, `"one"`, "field path: it is there twice", -32600},
		{"the id is an object", `{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}`, "null", "the id has to be", -32600},
		{"the id is null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, "null", "the id has to be", -32600},
		{"the id has a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "null", "the id has to be", -32600},
		{"the id is large", `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, "null", "the id has to be", -32600},
		{"the id is long", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 2000) + `","method":"ping"}`, "null", "the id has to be", -32600},
		{"no version", `{"id":1,"method":"ping"}`, "1", "it is no message of JSON-RPC 2.0", -32600},
		{"no method", `{"jsonrpc":"2.0","id":1}`, "1", "a message has either a method", -32600},
		{"another spelling of method", `{"jsonrpc":"2.0","id":1,"Method":"ping"}`, "1", "a message has either a method", -32600},
		{"nothing", `{}`, "null", "a message has either a method", -32600},
		{"no method, but parameters", `{"jsonrpc":"2.0","params":{}}`, "null", "a message has either a method", -32600},
		{"the method is null", `{"jsonrpc":"2.0","id":1,"method":null}`, "1", "a message has either a method", -32600},
		{"the method is empty", `{"jsonrpc":"2.0","id":1,"method":""}`, "1", "a message has either a method", -32600},
		{"the method is a number", `{"jsonrpc":"2.0","method":1}`, "null", "a message has either a method", -32600},
		{"a request with a result", `{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}`, "1", "a message has either a method", -32600},
		{"an answer with a wrong error", `{"jsonrpc":"2.0","id":1,"error":5}`, "null", "it is no message of JSON-RPC 2.0", -32600},
		{"an answer without an id", `{"jsonrpc":"2.0","result":{}}`, "null", "it is no message of JSON-RPC 2.0", -32600},
		{"something behind it", `{"jsonrpc":"2.0","id":1,"method":"ping"} {}`, "null", "it is not JSON", -32700},
		{"a byte order mark", "\uFEFF" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "null", "it is not JSON", -32700},
		{"NUL", `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\x00", "null", "it is not JSON", -32700},
		{"a batch", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, "null", "no batch is taken", -32600},
		{"a number", `7`, "null", "a message is an object", -32600},
		{"too long", `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", 9<<20) + `"}`, "null", "the line is too long", -32600},
		{"many values", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[` + strings.Repeat("1,", 100_000) + `1]}}`, "1", "it has too many values", -32600},
		{"no such method", `{"jsonrpc":"2.0","id":1,"method":"sudo"}`, "1", "invalid during session initialization", -32600},
		{"other parameters", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`, "1", "the parameters are not those of the method", -32602},
		{"blank", "  ", "", "", 0},
		{"an answer to nothing", `{"jsonrpc":"2.0","id":1,"result":{}}`, "", "", 0},
		{"a notification of something else", `{"jsonrpc":"2.0","method":"notifications/else"}`, "", "", 0},
		{"a call without an id", `{"jsonrpc":"2.0","method":"tools/list"}`, "", "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newRig(t, nil).client()
			c.send(tc.line)
			if tc.want != "" {
				m := c.next()
				if string(m.ID) != tc.id || m.Error == nil || m.Error.Code != tc.code || !strings.Contains(m.Error.Message, tc.want) {
					t.Errorf("answered %+v, %+v; want the id %s and %d %q", m, m.Error, tc.id, tc.code, tc.want)
				}
			}
			c.ok("Nothing is there", "list")
		})
	}
}

// TestSameID says that a request with the id of one under way does not take its answer.
func TestSameID(t *testing.T) {
	c := newRig(t, nil).client()
	wait := blocked(c)
	line, _ := c.line("tools/list", nil)
	c.send(strings.Replace(line, fmt.Sprintf(`"id":%d`, c.last), `"id":`+wait, 1))
	if m := c.next(); string(m.ID) != "null" || m.Error == nil || !strings.Contains(m.Error.Message, "this id is under way") {
		t.Errorf("answered %+v", m)
	}
}

// TestRefusedID says that a line that is refused is not taken for the answer to the request
// under way with its id.
func TestRefusedID(t *testing.T) {
	c := newRig(t, nil).client()
	wait := blocked(c)
	for _, rest := range []string{`}`, `,"method":"ping","method":"ping"}`, `,"error":5}`} {
		c.send(`{"jsonrpc":"2.0","id":` + wait + rest)
		if m := c.next(); string(m.ID) != "null" || m.Error == nil {
			t.Errorf("%s is answered %+v", rest, m)
		}
	}
}

// blocked makes a request that waits until it is cancelled, and returns its id.
func blocked(c *client) string {
	c.Helper()
	line, id := c.line(listen, map[string]any{"notifications": map[string]any{"resourceSubscriptions": []string{"mneme://notes/"}}})
	c.send(line)
	if m := c.next(); m.Method != "notifications/subscriptions/acknowledged" {
		c.Fatalf("listening is answered by %+v", m)
	}
	return id
}

// TestFlood is a client that sends many requests and reads nothing: what the server takes of
// them is bounded. When the client reads, every one is answered.
func TestFlood(t *testing.T) {
	const requests, most = 3_000, 2_000
	c := newRig(t, nil).client()
	c.theirs("/a.md", strings.Repeat("word ", 80))
	var sent atomic.Int64
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		for range requests {
			line, _ := c.line("tools/call", map[string]any{"name": "read", "arguments": map[string]any{"path": "/memories/a.md"}})
			if _, err := io.WriteString(c.in, line+"\n"); err != nil {
				return
			}
			sent.Add(1)
		}
	}()
	for last := int64(-1); sent.Load() != last; time.Sleep(100 * time.Millisecond) {
		last = sent.Load()
	}
	var during runtime.MemStats
	runtime.ReadMemStats(&during)
	if n := sent.Load(); n > most {
		t.Errorf("%d requests were taken of a client that reads nothing, want at most %d", n, most)
	}
	if grown := int64(during.HeapInuse) - int64(before.HeapInuse); grown > 64<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	for range requests {
		if m := c.next(); m.Error != nil {
			t.Fatalf("answered %+v", *m.Error)
		}
	}
}

// TestEnd checks that requests are answered when the input ends, also if no client waits.
func TestEnd(t *testing.T) {
	c := newRig(t, nil).client()
	var lines strings.Builder
	for range 100 {
		line, _ := c.line("tools/call", map[string]any{"name": "write", "arguments": map[string]any{"path": fmt.Sprintf("/memories/%d.md", c.last), "text": "x"}})
		lines.WriteString(line + "\n")
	}
	blocked(c)
	go func() {
		_, _ = io.WriteString(c.in, strings.TrimSuffix(lines.String(), "\n")) // the last line has no end
		_ = c.in.Close()
	}()
	for answers := 0; answers < 100; {
		m := c.next()
		if m.Error != nil {
			t.Fatalf("answered %+v", *m.Error)
		}
		if m.Method == "" {
			answers++
		}
	}
	rest, err := io.ReadAll(c.out)
	if err != nil || strings.Contains(string(rest), `"result"`) {
		t.Errorf("behind the last answer is %q, %v, want the end", rest, err)
	}
}

// TestStopped says that a server whose context ends answers what is under way and returns,
// though its input goes on.
func TestStopped(t *testing.T) {
	r := newRig(t, nil)
	ctx, stop := context.WithCancel(t.Context())
	in, inWrite := io.Pipe()
	outRead, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- r.ServeLines(ctx, in, out) }()
	c := &client{rig: r, meta: newest("{}"), in: inWrite, read: outRead, ended: ended}
	line, _ := c.line("tools/list", nil)
	c.send(line)
	stop()
	if answer, err := io.ReadAll(outRead); err != nil || !strings.Contains(string(answer), `"tools":[`) {
		t.Errorf("read %q, %v", answer, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNothingLeft says that no goroutine is left of a client that is gone, whatever was under
// way.
func TestNothingLeft(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*client)
	}{
		{"at rest", func(*client) {}},
		{"listening", func(c *client) { blocked(c) }},
		{"asked", func(c *client) {
			c.theirs("/d/a", "a")
			c.theirs("/d/b", "b")
			line, _ := c.line("tools/call", map[string]any{"name": "memory", "arguments": map[string]any{"command": "delete", "path": "/memories/d"}})
			c.send(line)
			if m := c.next(); m.Method != "elicitation/create" {
				c.Errorf("asked by %+v", m)
			}
		}},
		{"not reading", func(c *client) {
			c.theirs("/a.md", strings.Repeat("word ", 10_000))
			for range 5 { // less than may be queued: the next line would wait for the client to read
				line, _ := c.line("tools/call", map[string]any{"name": "read", "arguments": map[string]any{"path": "/memories/a.md"}})
				c.send(line)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newRig(t, nil).oldOrNew(tc.name == "asked")
			tc.do(c)
			c.gone()
			deadline := time.Now().Add(5 * time.Second)
			for left() != "" && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if stacks := left(); stacks != "" {
				t.Errorf("goroutines are left:\n%s", stacks)
			}
		})
	}
}

// oldOrNew returns a client of 2025 that can ask its user, or one of today.
func (r *rig) oldOrNew(isOld bool) *client {
	if isOld {
		return r.oldClient(`{"elicitation":{}}`)
	}
	return r.client()
}

// left returns the stacks of goroutines that serve a client.
func left() string {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var found []string
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		if strings.Contains(stack, "mneme/mcp.(*") && !strings.Contains(stack, "testing.tRunner") || strings.Contains(stack, "modelcontextprotocol") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// TestBusy says that requests are refused while as many wait for the client's user, and its
// answers are heard.
func TestBusy(t *testing.T) {
	c := newRig(t, nil).oldClient(`{"elicitation":{}}`)
	c.theirs("/d/a", "a")
	c.theirs("/d/b", "b")
	var asked []message
	var ids []string
	for range maxWorking {
		line, id := c.line("tools/call", map[string]any{"name": "memory", "arguments": map[string]any{"command": "delete", "path": "/memories/d"}})
		c.send(line)
		asked, ids = append(asked, c.next()), append(ids, id)
	}
	if m := c.try("tools/list", nil); m.Error == nil || m.Error.Code != codeBusy {
		t.Errorf("answered %+v, want that it is busy", m)
	}
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, asked[0].ID))
	if m := c.answer(ids[0]); m.Error != nil || !strings.Contains(string(m.Result), "Nothing was deleted.") {
		t.Errorf("answered %s, %+v", m.Result, m.Error)
	}
	if m := c.try("tools/list", nil); m.Error != nil {
		t.Errorf("answered %+v", m.Error)
	}
}

// TestCancelled says that a call that its client has cancelled does not count as one that is
// asked about.
func TestCancelled(t *testing.T) {
	c := newRig(t, nil).oldClient(`{"elicitation":{}}`)
	c.theirs("/d/a", "a")
	c.theirs("/d/b", "b")
	for range 3 * maxWorking {
		line, id := c.line("tools/call", map[string]any{"name": "memory", "arguments": map[string]any{"command": "delete", "path": "/memories/d"}})
		c.send(line)
		for c.next().Method != "elicitation/create" { // the one before is taken back
		}
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
		if m := c.answer(id); m.Error == nil {
			t.Fatalf("answered %s", m.Result)
		}
	}
	var ids []string
	for range maxWorking {
		line, id := c.line("tools/call", map[string]any{"name": "read", "arguments": map[string]any{"path": "/memories/d/a"}})
		c.send(line)
		ids = append(ids, id)
	}
	_ = c.in.Close()
	for range ids {
		for m := c.next(); m.Method != ""; m = c.next() {
		}
	}
}

// TestCancelledIsNoFault says that a call that its client has cancelled is no failure in the log.
func TestCancelledIsNoFault(t *testing.T) {
	log := &syncBuffer{}
	logger := slog.New(slog.NewTextHandler(log, nil))
	c := newRig(t, &rigOptions{tools: tools.Options{Logger: logger}, log: logger}).client()
	c.theirs("/a.md", "text")
	hold := c.faults.Hold(logfault.AfterHead)
	defer hold.Release()
	line, id := c.line("tools/call", map[string]any{"name": "read", "arguments": map[string]any{"path": "/memories/a.md"}})
	c.send(line)
	<-hold.Reached()
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
	if m := c.answer(id); m.Error == nil && !strings.Contains(string(m.Result), `"isError":true`) {
		t.Errorf("answered %s", m.Result)
	}
	c.gone()
	if log.String() != "" {
		t.Errorf("the log has %s", log)
	}
}

// TestManyListeners says that requests that listen are bounded, apart from others.
func TestManyListeners(t *testing.T) {
	c := newRig(t, nil).client()
	var last string
	for range maxListening {
		last = blocked(c)
	}
	params := map[string]any{"notifications": map[string]any{"resourceSubscriptions": []string{"mneme://notes/"}}}
	if m := c.try(listen, params); m.Error == nil || m.Error.Code != codeBusy {
		t.Errorf("answered %+v, want that there are too many", m)
	}
	c.ok("Nothing is there", "list")
	c.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, last))
	c.answer(last)
	blocked(c)
}

// FuzzLine says that whatever a client writes, what is written is JSON, and the next request is
// answered.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		"hello", "[]", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":1}`,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"path":"/memories/x"}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["mneme://notes/"]}}}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		r := newRig(t, nil)
		c := &client{rig: r, meta: newest("{}")}
		request, _ := c.line("tools/list", nil)
		request = strings.Replace(request, `"id":1`, `"id":"the last one"`, 1)
		var out bytes.Buffer
		in := io.NopCloser(strings.NewReader(line + "\n" + request + "\n"))
		if err := r.ServeLines(t.Context(), in, nopCloser{&out}); err != nil {
			t.Error(err)
		}
		answered := false
		for _, answer := range strings.Split(strings.TrimSpace(out.String()), "\n") {
			var m message
			if err := json.Unmarshal([]byte(answer), &m); err != nil {
				t.Errorf("%q: %v", answer, err)
			}
			answered = answered || string(m.ID) == `"the last one"`
		}
		if !answered {
			t.Errorf("the request behind %q is not answered: %s", line, &out)
		}
	})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

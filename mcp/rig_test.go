package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"mneme/cas"
	"mneme/cas/memcas"
	"mneme/internal/testing/logfault"
	"mneme/memory"
	"mneme/session"
	"mneme/session/conflict"
	"mneme/tools"
	"mneme/versionlog"
	"mneme/versionlog/memlog"
)

// rig is a server of a session, and another session of the same stores.
type rig struct {
	*testing.T
	*Server
	lib      *memory.Library
	faults   *logfault.Log
	stores   map[string]*memory.Store // as the other session has them
	sessions map[string]*session.Session
}

// rigOptions say what a rig is made of; nil and the zero value are the default.
type rigOptions struct {
	stores []string // slugs, with ":ro" behind those that are only read; nil: notes
	tools  tools.Options
	create memory.StoreOptions
	log    *slog.Logger // of the server
}

func newRig(t *testing.T, o *rigOptions) *rig {
	t.Helper()
	if o == nil {
		o = &rigOptions{}
	}
	if o.stores == nil {
		o.stores = []string{"notes"}
	}
	blobs := map[string]cas.Store{} // by store
	r := &rig{T: t, stores: map[string]*memory.Store{}, sessions: map[string]*session.Session{}}
	r.faults = logfault.New(memlog.New(nil), &logfault.Options{Session: "mine"})
	r.lib = memory.NewLibrary(r.faults, func(store string) (cas.Store, error) {
		if blobs[store] == nil {
			blobs[store] = memcas.New()
		}
		return blobs[store], nil
	})
	var places []tools.Place
	for _, name := range o.stores {
		slug, isReadOnly := strings.CutSuffix(name, ":ro")
		info, err := r.lib.CreateStore(t.Context(), slug, &o.create)
		r.must(err)
		r.stores[slug] = r.open(info.ID, "other")
		p := tools.Place{Store: r.open(info.ID, "mine")}
		if !isReadOnly {
			p.Session = session.New(p.Store, &session.Options{
				ID: "mine", Name: tools.PathName(slug, len(o.stores) > 1), Conflicts: conflict.New(t.TempDir()),
			})
			t.Cleanup(p.Session.Close)
			r.sessions[slug] = p.Session
		}
		places = append(places, p)
	}
	m := tools.New(places, &o.tools)
	r.Server = New(m, &Options{Logger: o.log})
	t.Cleanup(r.Close)
	return r
}

func (r *rig) open(store, id string) *memory.Store {
	r.Helper()
	st, err := r.lib.Open(context.Background(), store, memory.SessionAuthor(id))
	r.must(err)
	return st
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// theirs writes a memory of the store notes as the other session.
func (r *rig) theirs(path, text string) versionlog.Version {
	r.Helper()
	v, err := r.stores["notes"].Write(r.Context(), path, []byte(text), versionlog.ExpectAny())
	r.must(err)
	return v
}

// holds fails the test unless a memory of the store notes holds a text; "" is that there is
// none.
func (r *rig) holds(path, want string) {
	r.Helper()
	_, data, err := r.stores["notes"].Read(r.Context(), path)
	if want == "" && err == nil || want != "" && (err != nil || string(data) != want) {
		r.Errorf("%s holds %q, %v; want %q", path, data, err, want)
	}
}

// client is one that speaks lines.
type client struct {
	*rig
	meta  map[string]any // of each request; nil: as clients before 2026-07-28
	in    *io.PipeWriter
	out   *bufio.Reader
	read  *io.PipeReader
	ended chan error
	last  int
	told  []message // that came while an answer was waited for
}

// message is one of the server.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// newest is what clients of today say in each request; capabilities are what they can.
func newest(capabilities string) map[string]any {
	return map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": json.RawMessage(capabilities),
		"io.modelcontextprotocol/clientInfo":         map[string]string{"name": "test", "version": "1"},
	}
}

// client returns one of today, which can ask its user nothing.
func (r *rig) client() *client { return r.connect(newest("{}")) }

// oldClient returns one of 2025 with some capabilities.
func (r *rig) oldClient(capabilities string) *client {
	r.Helper()
	c := r.connect(nil)
	c.do("initialize", map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": json.RawMessage(capabilities), "clientInfo": map[string]string{"name": "test", "version": "1"},
	})
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (r *rig) connect(meta map[string]any) *client {
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	c := &client{rig: r, meta: meta, in: inWrite, read: outRead, out: bufio.NewReader(outRead), ended: make(chan error, 1)}
	go func() { c.ended <- r.ServeLines(context.Background(), inRead, outWrite) }()
	r.Cleanup(func() { c.gone() })
	return c
}

// gone closes both ends, and returns when the server is done with the client.
func (c *client) gone() {
	_ = c.in.Close()
	_ = c.read.Close()
	if err, first := <-c.ended; first {
		close(c.ended)
		if err != nil {
			c.Errorf("the connection ended with %v", err)
		}
	}
}

func (c *client) send(line string) {
	c.Helper()
	_, err := io.WriteString(c.in, line+"\n")
	c.must(err)
}

// next returns the next message of the server.
func (c *client) next() message {
	c.Helper()
	line, err := c.out.ReadBytes('\n')
	c.must(err)
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		c.Fatalf("%s: %v", line, err)
	}
	return m
}

// line returns a request, and its id.
func (c *client) line(method string, params map[string]any) (line, id string) {
	c.last++
	all := map[string]any{}
	for name, value := range params {
		all[name] = value
	}
	if c.meta != nil {
		all["_meta"] = c.meta
	}
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.last, "method": method, "params": all})
	c.must(err)
	number, _ := json.Marshal(c.last)
	return string(data), string(number)
}

// try makes a request, and returns the answer.
func (c *client) try(method string, params map[string]any) message {
	c.Helper()
	line, id := c.line(method, params)
	c.send(line)
	return c.answer(id)
}

// answer returns the answer to a request.
func (c *client) answer(id string) message {
	c.Helper()
	for {
		m := c.next()
		if m.Method == "" && string(m.ID) == id {
			return m
		}
		c.told = append(c.told, m)
	}
}

// do is try for a request that must succeed.
func (c *client) do(method string, params map[string]any) json.RawMessage {
	c.Helper()
	m := c.try(method, params)
	if m.Error != nil {
		c.Fatalf("%s %v: %+v", method, params, *m.Error)
	}
	return m.Result
}

// toolResult is the answer of a tool.
type toolResult struct {
	Content []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Data     []byte `json:"data"`
		MIMEType string `json:"mimeType"`
	} `json:"content"`
	Fields        json.RawMessage `json:"structuredContent"`
	IsError       bool            `json:"isError"`
	ResultType    string          `json:"resultType"`
	RequestState  string          `json:"requestState"`
	InputRequests json.RawMessage `json:"inputRequests"`
}

func (t *toolResult) text() string {
	var texts []string
	for _, c := range t.Content {
		texts = append(texts, c.Text)
	}
	return strings.Join(texts, "|")
}

// field returns a part of the structured result, by its names.
func (t *toolResult) field(names ...string) any {
	var value any
	if json.Unmarshal(t.Fields, &value) != nil {
		return nil
	}
	for _, name := range names {
		object, _ := value.(map[string]any)
		value = object[name]
	}
	return value
}

// tool calls a tool. args are names and values in turn.
func (c *client) tool(name string, args ...any) *toolResult {
	c.Helper()
	return c.toolWith(name, nil, args...)
}

// toolWith is tool with further parameters of the request.
func (c *client) toolWith(name string, params map[string]any, args ...any) *toolResult {
	c.Helper()
	all := map[string]any{"name": name, "arguments": arguments(args)}
	for name, value := range params {
		all[name] = value
	}
	var t toolResult
	c.must(json.Unmarshal(c.do("tools/call", all), &t))
	c.checkFields(name, &t)
	return &t
}

func arguments(args []any) map[string]any {
	named := map[string]any{}
	for i := 0; i < len(args); i += 2 {
		named[args[i].(string)] = args[i+1]
	}
	return named
}

// ok is tool for a call that must succeed with a text that contains want.
func (c *client) ok(want, name string, args ...any) *toolResult {
	c.Helper()
	t := c.tool(name, args...)
	if t.IsError || !strings.Contains(t.text(), want) {
		c.Errorf("%s %v: %v, %q; want %q", name, args, t.IsError, t.text(), want)
	}
	return t
}

// fails is tool for a call that must fail with a text that contains want, as an error of a
// kind.
func (c *client) fails(want, kind, name string, args ...any) *toolResult {
	c.Helper()
	t := c.tool(name, args...)
	if !t.IsError || !strings.Contains(t.text(), want) || t.field("error", "kind") != kind || t.field("error", "text") != t.text() {
		c.Errorf("%s %v: %v, %q, %s; want %s: %q", name, args, t.IsError, t.text(), t.Fields, kind, want)
	}
	return t
}

// heard returns the URIs of resources that the client was told of, and forgets them.
func (c *client) heard() []string {
	var uris []string
	for _, m := range c.told {
		if m.Method == "notifications/resources/updated" {
			var p struct{ URI string }
			c.must(json.Unmarshal(m.Params, &p))
			uris = append(uris, p.URI)
		}
	}
	c.told = nil
	slices.Sort(uris)
	return uris
}

// poll waits until something is so.
func (r *rig) poll(is func() bool) {
	r.Helper()
	for range 5000 {
		if is() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.Error("it did not come to be so in five seconds")
}

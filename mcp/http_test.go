package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mneme/errkind"
)

// serve returns a server of HTTP for r, and what posts to it.
func serve(r *rig, opts *HandlerOptions) (post func(ctx context.Context, body string, headers ...string) (*http.Response, error)) {
	web := httptest.NewServer(Handler(func(q *http.Request) (*Server, error) {
		switch q.Header.Get("Authorization") {
		case "nobody":
			return nil, errkind.New(errkind.Denied, "no such token")
		case "later":
			return nil, errkind.New(errkind.Unavailable, "secrets of the host")
		}
		return r.Server, nil
	}, opts))
	r.Cleanup(web.Close)
	return func(ctx context.Context, body string, headers ...string) (*http.Response, error) {
		q, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(headers); i += 2 {
			q.Header.Set(headers[i], headers[i+1])
			if headers[i] == "Host" {
				q.Host = headers[i+1]
			}
		}
		return web.Client().Do(q)
	}
}

// newHeaders are those of a request of today.
func newHeaders(method, name string) []string {
	h := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		h = append(h, "Mcp-Name", name)
	}
	return h
}

// TestHandler serves clients of today and of 2025.
func TestHandler(t *testing.T) {
	r := newRig(t, nil)
	r.theirs("/a.md", "text")
	post := serve(r, nil)
	today := &client{rig: r, meta: newest("{}")}
	line, _ := today.line("tools/call", map[string]any{"name": "read", "arguments": map[string]any{"path": "/memories/a.md"}})
	old := &client{rig: r}
	oldLine, _ := old.line("tools/call", map[string]any{"name": "read", "arguments": map[string]any{"path": "/memories/a.md"}})
	for name, req := range map[string]struct {
		body    string
		headers []string
	}{
		"today": {line, newHeaders("tools/call", "read")},
		"2025":  {oldLine, []string{"MCP-Protocol-Version", "2025-11-25"}},
	} {
		res, err := post(t.Context(), req.body, req.headers...)
		r.must(err)
		body, err := io.ReadAll(res.Body)
		r.must(err)
		if res.StatusCode != 200 || !strings.Contains(string(body), `"text":"text"`) || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %s %s", name, res.Status, body)
		}
	}
}

// TestHandlerRefuses bodies that are no request, are too long, or have no server.
func TestHandlerRefuses(t *testing.T) {
	r := newRig(t, nil)
	post := serve(r, &HandlerOptions{MaxBody: 10_000})
	for _, tc := range []struct {
		name, body, as, want string
		status               int
	}{
		{"garbage", "hello", "", `"id":null,"error":{"code":-32700`, 400},
		{"a field twice", `{"jsonrpc":"2.0","id":7,"method":"tools/list","method":"ping"}`, "", `"id":7,"error":{"code":-32600,"message":"the message is refused: field method: it is there twice"`, 400},
		{"a batch", `[]`, "", "no batch is taken", 400},
		{"too long", `{"a":"` + strings.Repeat("x", 10_000) + `"}`, "", "the request is too long", 413},
		{"nobody", `{"jsonrpc":"2.0","id":7,"method":"ping"}`, "nobody", "there is no such server", 404},
		{"later", `{"jsonrpc":"2.0","id":7,"method":"ping"}`, "later", "too much is under way", 503},
	} {
		res, err := post(t.Context(), tc.body, "Authorization", tc.as)
		r.must(err)
		body, err := io.ReadAll(res.Body)
		r.must(err)
		if res.StatusCode != tc.status || !strings.Contains(string(body), tc.want) {
			t.Errorf("%s: %s %s; want %d %s", tc.name, res.Status, body, tc.status, tc.want)
		}
		if tc.status == 503 && res.Header.Get("Retry-After") != "1" {
			t.Errorf("%s: no Retry-After", tc.name)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} {
		w := httptest.NewRecorder()
		Handler(func(*http.Request) (*Server, error) { return nil, errors.New("nobody is asked") }, nil).ServeHTTP(w, httptest.NewRequest(method, "/", nil))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

// TestHandlerOldClients: a client of an earlier revision gets errors in the form of
// JSON-RPC, and is not offered features that it cannot have by HTTP.
func TestHandlerOldClients(t *testing.T) {
	r := newRig(t, nil)
	post := serve(r, nil)
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		for _, tc := range []struct {
			name, body, accept, want string
			status                   int
		}{
			{"a method that is none", `{"jsonrpc":"2.0","id":7,"method":"tools/dance","params":{}}`, "", `{"jsonrpc":"2.0","id":7,"error":{"code":-32601,`, 200},
			{"a notification that is none", `{"jsonrpc":"2.0","method":"notifications/dance"}`, "", ``, 202},
			{"no params", `{"jsonrpc":"2.0","id":"x","method":"tools/call"}`, "", `"id":"x","error":{"code":-32600,`, 400},
			{"no id", `{"jsonrpc":"2.0","method":"tools/list"}`, "", `"id":null,"error":{"code":-32600,`, 400},
			{"no stream", `{"jsonrpc":"2.0","id":7,"method":"ping"}`, "text/html", `"id":7,"error":{"code":-32600,"message":"Accept must contain`, 400},
			{"a subscription", `{"jsonrpc":"2.0","id":7,"method":"resources/subscribe","params":{"uri":"mneme://notes/a.md"}}`, "", `"id":7,"error":{"code":-3260`, 200},
			{"its beginning", `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`, "", `"resources":{}`, 200},
		} {
			headers := []string{"MCP-Protocol-Version", version}
			if tc.accept != "" {
				headers = append(headers, "Accept", tc.accept)
			}
			res, err := post(t.Context(), tc.body, headers...)
			r.must(err)
			body, err := io.ReadAll(res.Body)
			r.must(err)
			kind := res.Header.Get("Content-Type")
			if res.StatusCode != tc.status || !strings.Contains(string(body), tc.want) || strings.HasPrefix(kind, "text/plain") || (tc.want == "") != (len(body) == 0) {
				t.Errorf("%s, %s: %s %s %s; want %d %s", version, tc.name, res.Status, kind, body, tc.status, tc.want)
			}
		}
	}
}

// TestHandlerListens says that a client hears of changes, that those who listen are bounded
// apart from others, and that one leaves when its request ends.
func TestHandlerListens(t *testing.T) {
	r := newRig(t, nil)
	post := serve(r, &HandlerOptions{Requests: 1, OfServer: 1, Listening: 1})
	c := &client{rig: r, meta: newest("{}")}
	line, _ := c.line(listen, map[string]any{"notifications": map[string]any{"resourceSubscriptions": []string{"mneme://notes/"}}})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	res, err := post(ctx, line, newHeaders(listen, "")...)
	r.must(err)
	lines := bufio.NewScanner(res.Body)
	hears := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("nothing is heard of %s: %v", want, lines.Err())
	}
	hears("notifications/subscriptions/acknowledged")
	r.theirs("/a.md", "text")
	hears("mneme://notes/")
	second, err := post(t.Context(), line, newHeaders(listen, "")...)
	r.must(err)
	if second.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a second one that listens: %s", second.Status)
	}
	list, _ := c.line("tools/list", nil)
	other, err := post(t.Context(), list, newHeaders("tools/list", "")...)
	r.must(err)
	if other.StatusCode != 200 {
		t.Errorf("another request: %s", other.Status)
	}
	_, _ = io.Copy(io.Discard, other.Body)
	leave()
	r.poll(func() bool { r.watch.mu.Lock(); defer r.watch.mu.Unlock(); return len(r.watch.stores) == 0 })
	if n := r.listening.number.Load(); n > 1 {
		t.Errorf("%d listen", n)
	}
}

// TestHandlerOldSubscription says that a client of 2025, which has no stream to hear on, leaves
// nothing behind.
func TestHandlerOldSubscription(t *testing.T) {
	r := newRig(t, nil)
	post := serve(r, nil)
	c := &client{rig: r}
	line, _ := c.line("resources/subscribe", map[string]any{"uri": "mneme://notes/"})
	res, err := post(t.Context(), line, "MCP-Protocol-Version", "2025-11-25")
	r.must(err)
	body, err := io.ReadAll(res.Body)
	r.must(err)
	if res.StatusCode != 200 || len(r.watch.stores) != 0 {
		t.Errorf("%s %s; %d stores are followed", res.Status, body, len(r.watch.stores))
	}
}

// TestHandlerConfirm asks clients of today by HTTP, too; one of 2025 has to name files.
func TestHandlerConfirm(t *testing.T) {
	r := bulkRig(t)
	post := serve(r, nil)
	c := &client{rig: r, meta: newest(canAskForm)}
	result := func(body string, headers ...string) (t toolResult) {
		res, err := post(r.Context(), body, headers...)
		r.must(err)
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && data != "" {
				var m message
				r.must(json.Unmarshal([]byte(data), &m))
				r.must(json.Unmarshal(m.Result, &t))
			}
		}
		return t
	}
	line, _ := c.line("tools/call", map[string]any{"name": "memory", "arguments": arguments(deleting)})
	asked := result(line, newHeaders("tools/call", "memory")...)
	if asked.RequestState == "" {
		t.Fatalf("asked %+v", asked)
	}
	old := &client{rig: r}
	oldLine, _ := old.line("tools/call", map[string]any{"name": "memory", "arguments": arguments(deleting)})
	if got := result(oldLine, "MCP-Protocol-Version", "2025-11-25"); !strings.Contains(got.text(), "Delete files by naming them") {
		t.Errorf("a client of 2025 is answered %+v", got)
	}
	params := reply(&asked, yes)
	params["name"], params["arguments"] = "memory", arguments(deleting)
	line, _ = c.line("tools/call", params)
	if got := result(line, newHeaders("tools/call", "memory")...); got.text() != "Successfully deleted /memories/d" {
		t.Errorf("answered %+v", got)
	}
	r.holds("/d/a.md", "")
}

// TestHandlerHead checks that the handler does not look up a server for pages of other
// origins, or of names that lead to the loopback interface, and that headers must not be
// repeated.
func TestHandlerHead(t *testing.T) {
	r := newRig(t, nil)
	post := serve(r, nil)
	c := &client{rig: r, meta: newest("{}")}
	line, _ := c.line("tools/call", map[string]any{"name": "list", "arguments": map[string]any{}})
	for _, tc := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"no page", nil, 200},
		{"a page of this origin", []string{"Origin", "http://localhost", "Host", "localhost"}, 200},
		{"a page of another origin", []string{"Origin", "https://evil.example"}, 403},
		{"a page of no origin", []string{"Origin", "null"}, 403},
		{"a browser's word", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"a name that leads here", []string{"Host", "evil.example"}, 403},
		{"a name that leads here, and its page", []string{"Host", "evil.example", "Origin", "http://evil.example"}, 403},
		{"nobody, from elsewhere", []string{"Origin", "https://evil.example", "Authorization", "nobody"}, 403},
		{"a compressed body", []string{"Content-Encoding", "gzip"}, 415},
		{"a body that says that it is not", []string{"Content-Encoding", "Identity"}, 200},
		{"another address of this host", []string{"Host", "[::1]:80"}, 200},
	} {
		res, err := post(t.Context(), line, append(newHeaders("tools/call", "list"), tc.headers...)...)
		r.must(err)
		body, err := io.ReadAll(res.Body)
		r.must(err)
		if res.StatusCode != tc.status {
			t.Errorf("%s: %s %s, want %d", tc.name, res.Status, body, tc.status)
		}
	}
	for _, name := range ofBody {
		q := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(line))
		q.Header = http.Header{http.CanonicalHeaderKey(name): {"read", "list"}}
		w := httptest.NewRecorder()
		Handler(func(*http.Request) (*Server, error) { return nil, errors.New("nobody is asked") }, nil).ServeHTTP(w, q)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "is there twice") {
			t.Errorf("%s twice: %d %s", name, w.Code, w.Body)
		}
	}
}

// web is a server of HTTP without a network: written bytes are not buffered before they are
// read.
type web struct {
	conns chan net.Conn
	http.Server
}

func newWeb(h http.Handler) *web {
	w := &web{conns: make(chan net.Conn), Server: http.Server{Handler: h}}
	go func() { _ = w.Serve(w) }()
	return w
}

func (w *web) Accept() (net.Conn, error) {
	if conn, ok := <-w.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (w *web) Close() error   { return nil }
func (w *web) Addr() net.Addr { return &net.UnixAddr{Name: "web", Net: "unix"} }

// dial sends the head of a request, and so much of its body.
func (w *web) dial(line string, sent int, headers ...string) net.Conn {
	ours, theirs := net.Pipe()
	w.conns <- theirs
	head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: web\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n", len(line))
	for i := 0; i < len(headers); i += 2 {
		head += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	_, _ = io.WriteString(ours, head+"\r\n"+line[:sent])
	return ours
}

// TestHandlerSlow checks that a client that sends its request slowly, or does not read its
// answer, does not delay others for long.
func TestHandlerSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		web := newWeb(Handler(func(*http.Request) (*Server, error) { return r.Server, nil }, &HandlerOptions{OfServer: 1}))
		c := &client{rig: r, meta: newest("{}")}
		line, _ := c.line(listen, map[string]any{"notifications": map[string]any{"resourceSubscriptions": []string{"mneme://notes/"}}})

		half := web.dial(line, 10, newHeaders(listen, "")...)
		answer, err := http.ReadResponse(bufio.NewReader(half), nil)
		if err != nil || answer.StatusCode != http.StatusRequestTimeout {
			t.Errorf("half a request is answered %+v, %v", answer, err)
		}
		_ = half.Close()
		refused := web.dial(line, 10, append(newHeaders(listen, ""), "Origin", "https://evil.example")...)
		_ = refused.SetDeadline(time.Now().Add(time.Hour))
		if answer, err := http.ReadResponse(bufio.NewReader(refused), nil); err != nil || answer.StatusCode != http.StatusForbidden {
			t.Errorf("half a request that is refused is answered %+v, %v", answer, err)
		}
		_ = refused.Close()
		synctest.Wait()

		listener := func() (net.Conn, *bufio.Scanner) {
			conn := web.dial(line, len(line), newHeaders(listen, "")...)
			lines := bufio.NewScanner(conn)
			for lines.Scan() && !strings.Contains(lines.Text(), "subscriptions/acknowledged") {
			}
			return conn, lines
		}
		stuck, _ := listener()
		other, heard := listener()
		time.Sleep(time.Minute) // in which nothing happens
		r.theirs("/a.md", "one")
		for heard.Scan() && !strings.Contains(heard.Text(), "resources/updated") {
		}
		if heard.Err() != nil {
			t.Errorf("another one that listens hears nothing: %v", heard.Err())
		}
		_ = other.Close()
		time.Sleep(time.Minute)
		if n := r.listening.number.Load(); n != 0 {
			t.Errorf("%d listen, though one takes nothing and one is gone", n)
		}
		_ = stuck.Close()
		close(web.conns)
		r.Close()
		synctest.Wait()
	})
}

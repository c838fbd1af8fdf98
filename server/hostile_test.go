package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/server/access"
)

// serve has the server listen, and returns the address.
func (r *rig) serve() string {
	r.Helper()
	l, err := Listen("127.0.0.1:0")
	r.must(err)
	r.serveOn(l)
	return l.Addr().String()
}

func (r *rig) serveOn(l net.Listener) {
	until, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.Serve(until, l) }()
	r.Cleanup(func() { stop(); <-served })
}

// dial opens a connection that says something at once.
func (r *rig) dial(address, text string) net.Conn {
	r.Helper()
	c, err := net.Dial("tcp", address)
	r.must(err)
	r.Cleanup(func() { c.Close() })
	_, err = io.WriteString(c, text)
	r.must(err)
	return c
}

// answer reads an answer.
func (r *rig) answer(from io.Reader) (status int, kind string) {
	r.Helper()
	b, ok := from.(*bufio.Reader)
	if !ok {
		b = bufio.NewReader(from)
	}
	a, err := http.ReadResponse(b, nil)
	if err != nil {
		r.Errorf("no answer: %v", err)
		return 0, ""
	}
	data, err := io.ReadAll(a.Body)
	r.must(err)
	if a.StatusCode == http.StatusOK {
		return a.StatusCode, ""
	}
	return a.StatusCode, r.refusal(data, a.Header)
}

// countingListener counts what is read from all its connections.
type countingListener struct {
	net.Listener
	read atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return &countingConn{c, l}, err
}

type countingConn struct {
	net.Conn
	of *countingListener
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.of.read.Add(int64(n))
	return n, err
}

// TestHugeBodies has the server read little of a body that is too long, and nothing change.
func TestHugeBodies(t *testing.T) {
	r := newRig(t, Options{})
	l, err := Listen("127.0.0.1:0")
	r.must(err)
	counted := &countingListener{Listener: l}
	r.serveOn(counted)
	const huge = 100 << 20
	admin := r.key(access.Admin, nil)
	before := r.state()
	memories := "/v1/memory_stores/" + r.store.ID + "/memories"
	for who, secret := range map[string]string{"none": "", "a wrong one": "mneme_x_y", "an admin": admin} {
		for _, framing := range []string{fmt.Sprintf("Content-Length: %d", huge), "Transfer-Encoding: chunked"} {
			for _, path := range []string{memories, "/v1/mneme/keys", "/v1/mneme/stores/" + r.store.ID + "/batch", "/v1/nothing"} {
				start := counted.read.Load()
				c := r.dial(l.Addr().String(), fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n%s\r\n\r\n", path, secret, framing))
				go func() {
					chunk := []byte(strings.Repeat("[", 64<<10))
					if framing[0] == 'T' {
						chunk = fmt.Appendf(nil, "%x\r\n%s\r\n", len(chunk), chunk)
					}
					for sent := 0; sent < huge; sent += len(chunk) {
						if _, err := c.Write(chunk); err != nil {
							return // as it should
						}
					}
				}()
				want := map[string]int{"none": 401, "a wrong one": 401, "an admin": 400}[who]
				if who == "an admin" && path == "/v1/nothing" {
					want = 404
				}
				if status, kind := r.answer(c); status != want && !(who == "a wrong one" && status == 429) {
					t.Errorf("%s, %s, %s: %d %s", who, framing, path, status, kind)
				}
				c.Close()
				if n := counted.read.Load() - start; n > 6<<20 {
					t.Errorf("%s, %s, %s: %d bytes were read", who, framing, path, n)
				}
			}
		}
	}
	if after := r.state(); after != before {
		t.Errorf("something has changed:\n%s\nwas\n%s", after, before)
	}
}

// TestSlowClients ends connections whose headers or bodies do not come, and requests that were refused
// before their body came.
func TestSlowClients(t *testing.T) {
	r := newRig(t, Options{HeaderTimeout: 20 * time.Millisecond, BodyTimeout: 20 * time.Millisecond, RequestTimeout: time.Hour})
	address, secret := r.serve(), r.key(access.Admin, nil)
	memories := "/v1/memory_stores/" + r.store.ID + "/memories"
	before := r.state()
	for _, begun := range []string{"", "G", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-A: "} {
		c := r.dial(address, begun)
		if rest, err := io.ReadAll(c); err != nil || len(rest) > 0 && !strings.HasPrefix(string(rest), "HTTP/1.1 400 ") {
			t.Errorf("after %q: %q, %v", begun, rest, err)
		}
	}
	for who, c := range map[string]struct {
		secret string
		status int
	}{"nobody": {"", 401}, "an admin": {secret, 400}} {
		for _, body := range []string{"Content-Length: 100\r\n\r\n", "Content-Length: 100\r\n\r\n{\"path\"", "Transfer-Encoding: chunked\r\n\r\n5\r\n{\"pat", "Content-Length: 200000\r\n\r\n{"} {
			conn := bufio.NewReader(r.dial(address, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\n%s", memories, c.secret, body)))
			if status, kind := r.answer(conn); status != c.status {
				t.Errorf("%s, %q: %d %s", who, body, status, kind)
			}
			if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
				t.Errorf("%s, after %q: %q, %v", who, body, rest, err)
			}
		}
	}
	if after := r.state(); after != before {
		t.Errorf("something has changed:\n%s\nwas\n%s", after, before)
	}
}

// TestSlowBodiesTakeNoPlace: a body that does not come does not keep other clients from
// being answered.
func TestSlowBodiesTakeNoPlace(t *testing.T) {
	r := newRig(t, Options{MaxRequests: 1})
	slow, other := r.key(access.Admin, nil), r.key(access.Admin, nil)
	body, client := io.Pipe()
	done := make(chan int)
	path := "/v1/memory_stores/" + r.store.ID + "/memories"
	go func() {
		done <- r.ask("POST", path, "", slow, func(q *http.Request) { q.Body, q.ContentLength = body, -1 }).Code
	}()
	_, err := io.WriteString(client, `{"path":"/a.md",`) // returns when it was read
	r.must(err)
	if w := r.ask("GET", path, "", other); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	_, err = io.WriteString(client, `"content":"x"}`)
	r.must(err)
	client.Close()
	if status := <-done; status != 200 {
		t.Errorf("the slow one: %d", status)
	}
	if w := r.ask("GET", path, "", other); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestWaiting bounds how many requests of a session and of a key wait for news, whatever others do.
func TestWaiting(t *testing.T) {
	r := newRig(t, Options{MaxWaiting: 8}) // 2 of a session, 4 of a key
	key, other := r.key(access.Read, nil), r.key(access.Read, nil)
	path := "/v1/mneme/stores/" + r.store.ID + "/events?wait=50"
	ctx, cancel := context.WithCancel(t.Context())
	var asked int64
	done := make(chan int, 8)
	wait := func(secret string) {
		t.Helper()
		go func() {
			done <- r.ask("GET", path, "", secret, func(q *http.Request) { *q = *q.WithContext(ctx) }).Code
		}()
		for asked++; r.lounge.n.Load() < asked; {
			time.Sleep(time.Millisecond)
		}
	}
	first, second, third := r.token(key, access.Read), r.token(key, access.Read), r.token(key, access.Read)
	for _, secret := range []string{first, first, second, second} {
		wait(secret)
	}
	for name, secret := range map[string]string{"a session with its share": first, "a key with its share": third, "the key itself": key} {
		for _, accept := range []string{"", "text/event-stream"} {
			w := r.ask("GET", path, "", secret, func(q *http.Request) { q.Header.Set("Accept", accept) })
			if w.Code != 429 || w.Header().Get("Retry-After") != "1" {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		}
		w := r.ask("POST", wire.Prefix+wire.OpFollow, `{"store":"`+r.store.ID+`"}`, secret)
		if err := wire.DecodeError(w.Body.Bytes()); w.Code != 503 || errkind.Of(err) != errkind.Unavailable || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%s, of the gateway: %d %v", name, w.Code, err)
		}
	}
	wait(other)
	if w := r.ask("GET", "/v1/memory_stores", "", first); w.Code != 200 {
		t.Errorf("a request that does not wait: %d", w.Code)
	}
	cancel()
	for range asked {
		<-done
	}
	if n := r.lounge.n.Load(); n != 0 || r.lounge.shares.Parties() != 0 {
		t.Errorf("%d are left", n)
	}
}

// TestManyConnections: silent connections do not keep other clients out, and take little
// memory.
func TestManyConnections(t *testing.T) {
	most, opened := 50, 300
	if os.Getenv("MNEME_TORTURE") != "" {
		most, opened = 8000, 9900 // both ends are in this process
	}
	r := newRig(t, Options{MaxConnections: most, HeaderTimeout: time.Hour})
	address, secret := r.serve(), r.key(access.Read, nil)
	get := fmt.Sprintf("GET /v1/memory_stores HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\n\r\n", secret)
	kept := bufio.NewReader(r.dial(address, get))
	if status, _ := r.answer(kept); status != 200 {
		t.Fatal(status)
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var conns []net.Conn
	for i := range opened {
		conns = append(conns, r.dial(address, []string{"", "GET / HTTP/1.1\r\nX-A: ", get}[i%3]))
	}
	if status, _ := r.answer(r.dial(address, get)); status != 200 {
		t.Errorf("another: %d", status)
	}
	if rest, err := io.ReadAll(kept); len(rest) > 0 {
		t.Errorf("the connection without a request for the longest time: %q, %v", rest, err)
	}
	runtime.ReadMemStats(&after)
	perConnection := (int(after.HeapInuse+after.StackInuse) - int(before.HeapInuse+before.StackInuse)) / most
	t.Logf("%d connections, of which %d may stay: %d bytes of memory for each that may", opened, most, perConnection)
	if os.Getenv("MNEME_TORTURE") != "" && perConnection > 64<<10 {
		t.Error("that is too much")
	}
	for _, c := range conns {
		c.Close()
	}
}

// TestUnreadAnswers: clients that read no answers do not keep others out: those without a
// credential, and those of one key.
func TestUnreadAnswers(t *testing.T) {
	const most = 16
	for name, of := range map[string]func(r *rig) string{
		"without a credential": func(*rig) string { return "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" },
		"with a wrong one":     func(*rig) string { return "GET /v1/memory_stores HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: x\r\n\r\n" },
		"of one key": func(r *rig) string {
			return fmt.Sprintf("GET /v1/mneme/events HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: %s\r\n\r\n", r.key(access.Read, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{MaxConnections: most, HeaderTimeout: time.Hour})
			address, secret := r.serve(), r.key(access.Read, nil)
			text := of(r)
			for range 2 * most {
				c, err := net.Dial("tcp", address)
				r.must(err)
				r.Cleanup(func() { c.Close() })
				_ = c.(*net.TCPConn).SetReadBuffer(1)
				_, _ = io.WriteString(c, strings.Repeat(text, 60)) // it may have had to leave
			}
			for range 3 {
				if status, _ := r.answer(r.dial(address, "GET /v1/memory_stores HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: "+secret+"\r\n\r\n")); status != 200 {
					t.Errorf("a client that reads: %d", status)
				}
			}
		})
	}
}

// TestHeadersWithoutEnd ends a connection of HTTP/2 whose headers never end, though each of their frames
// is whole.
func TestHeadersWithoutEnd(t *testing.T) {
	r := newRig(t, Options{HeaderTimeout: 200 * time.Millisecond})
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	config := &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	r.must(err)
	r.serveOn(l)
	c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	r.must(err)
	defer c.Close()
	frame := func(kind, stream byte, body string) string {
		return string([]byte{0, 0, byte(len(body)), kind, 0, 0, 0, 0, stream}) + body
	}
	const settings, headers, continuation = 4, 1, 9
	_, err = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"+frame(settings, 0, "")+frame(headers, 1, "\x82"))
	r.must(err)
	go func() {
		for {
			if _, err := io.WriteString(c, frame(continuation, 1, "\x10\x01a\x01b")); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	r.must(c.SetReadDeadline(time.Now().Add(20 * time.Second)))
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is still open")
	}
}

// TestSmuggling has no way of writing a request hide another in its body or headers.
func TestSmuggling(t *testing.T) {
	r := newRig(t, Options{})
	address, secret := r.serve(), r.key(access.Admin, nil)
	path := "/v1/memory_stores/" + r.store.ID
	before := r.state()
	hidden := "DELETE " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" // and without a credential of its own
	head := "POST " + path + "/memories HTTP/1.1\r\nHost: localhost\r\n"
	auth := "Authorization: Bearer " + secret + "\r\n"
	for name, text := range map[string]string{
		"both lengths, ends first":   head + auth + fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n%s", len(hidden)+5, hidden),
		"both lengths, other order":  head + auth + fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n0\r\n\r\n%s", len(hidden)+5, hidden),
		"both lengths, shorter":      head + auth + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n0\r\n\r\n" + hidden,
		"two lengths":                head + auth + fmt.Sprintf("Content-Length: 2\r\nContent-Length: %d\r\n\r\n{}%s", len(hidden)+2, hidden),
		"a list of lengths":          head + auth + "Content-Length: 2, 40\r\n\r\n{}" + hidden,
		"a length with a sign":       head + auth + "Content-Length: +2\r\n\r\n{}" + hidden,
		"a length below 0":           head + auth + "Content-Length: -2\r\n\r\n{}" + hidden,
		"a length in hex":            head + auth + "Content-Length: 0x2\r\n\r\n{}" + hidden,
		"chunked twice":              head + auth + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n" + hidden,
		"chunked behind identity":    head + auth + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n" + hidden,
		"an unknown encoding":        head + auth + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + hidden,
		"a blank before the colon":   head + auth + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + hidden,
		"a vertical tab":             head + auth + "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n" + hidden,
		"a bad chunk":                head + auth + "Transfer-Encoding: chunked\r\n\r\n2;\nxx\r\n{}\r\n0\r\n\r\n" + hidden,
		"a chunk with a bare LF":     head + auth + "Transfer-Encoding: chunked\r\n\r\n2\n{}\n0\n\n" + hidden,
		"a huge chunk":               head + auth + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}\r\n0\r\n\r\n" + hidden,
		"a folded header":            head + "Authorization: Bearer\r\n x\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"a folded length":            head + auth + "Content-Length:\r\n 2\r\n\r\n{}" + hidden,
		"bare LFs":                   strings.ReplaceAll(head+auth+"Content-Length: 2\r\n\r\n", "\r\n", "\n") + "{}" + hidden,
		"a bare CR":                  head + auth + "X-A: b\rContent-Length: 2\r\n\r\n{}" + hidden,
		"a NUL":                      head + auth + "X-A: b\x00c\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"a header without a colon":   head + auth + "Content-Length\r\nContent-Length: 2\r\n\r\n{}" + hidden,
		"a line before the request":  "\r\n" + head + auth + "Content-Length: 2\r\n\r\n{}" + hidden,
		"two hosts":                  head + "Host: other\r\n" + auth + "Content-Length: 2\r\n\r\n{}" + hidden,
		"a body of GET":              "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + auth + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(hidden), hidden),
		"HTTP/1.0 that is chunked":   strings.Replace(head, "1.1", "1.0", 1) + auth + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"another protocol":           strings.Replace(head, "1.1", "3.0", 1) + auth + "\r\n" + hidden,
		"HTTP/2 without TLS":         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + hidden,
		"an upgrade":                 "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n" + auth + "\r\n" + hidden,
		"a method that is none":      "DELETE\x00 " + path + " HTTP/1.1\r\nHost: localhost\r\n" + auth + "\r\n",
		"a method that is another's": "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nX-HTTP-Method-Override: DELETE\r\nX-Method-Override: DELETE\r\n" + auth + "\r\n",
		"headers without an end":     head + auth + "X-A: " + strings.Repeat("x", 64<<10),
		"many headers":               head + auth + strings.Repeat("X-A: b\r\n", 10_000) + "\r\n",
		"a long line":                "GET /" + strings.Repeat("x", 64<<10) + " HTTP/1.1\r\n\r\n",
	} {
		c, err := net.Dial("tcp", address)
		r.must(err)
		_, _ = io.WriteString(c, text) // of which the server may want to hear no more
		_ = c.(*net.TCPConn).CloseWrite()
		all, _ := io.ReadAll(c) // a connection that is cut
		c.Close()
		if strings.Contains(string(all), "memory_store_deleted") || strings.Contains(string(all), " 500 ") {
			t.Errorf("%s: %s", name, all)
		}
		if after := r.state(); after != before {
			t.Fatalf("%s: something has changed:\n%s\nwas\n%s", name, after, before)
		}
	}
	if w := r.ask("GET", path, "", secret); w.Code != 200 {
		t.Errorf("afterwards: %d", w.Code)
	}
}

// TestHeaderLimit takes headers of 16 KiB, with the line of the request, and no more.
func TestHeaderLimit(t *testing.T) {
	r := newRig(t, Options{})
	address := r.serve()
	for size, want := range map[int]string{16 << 10: "HTTP/1.1 200 ", 16<<10 + 1: "HTTP/1.1 431 ", 20 << 10: "HTTP/1.1 431 "} {
		head := "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-A: "
		c := r.dial(address, head+strings.Repeat("x", size-len(head)-4)+"\r\n\r\n")
		if all, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(all), want) {
			t.Errorf("%d bytes: %.40q, %v; want %s", size, all, err, want)
		}
	}
}

// TestChunkedEndsItsConnection: package net/http does not tell of a request with a body in chunks whether
// it has a length, too, which another server on its way may have gone by.
func TestChunkedEndsItsConnection(t *testing.T) {
	r := newRig(t, Options{})
	address, secret := r.serve(), r.key(access.Admin, nil)
	head := "POST /v1/memory_stores/" + r.store.ID + " HTTP/1.1\r\nHost: localhost\r\nX-Api-Key: " + secret + "\r\n"
	get := "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
	for framing, want := range map[string]int{
		"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n": 1,
		"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n":                      1,
		"Content-Length: 2\r\n\r\n{}":                                                 2,
	} {
		all, _ := io.ReadAll(r.dial(address, head+framing+get)) // a connection that is cut, too
		if n := strings.Count(string(all), "HTTP/1.1 200 "); n != want {
			t.Errorf("%q: %d answers: %q", framing, n, all)
		}
	}
}

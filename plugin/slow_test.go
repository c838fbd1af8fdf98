package plugin

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
)

// pipes is a listener without a network: written bytes are not buffered before they are
// read.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "unix"} }

// dial sends the head of a request, and so much of its body of a hundred bytes.
func (p pipes) dial(request, kind, sent string) net.Conn {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	_, _ = fmt.Fprintf(ours, "%s HTTP/1.1\r\nHost: web\r\nContent-Type: %s\r\nContent-Length: 100\r\n\r\n%s", request, kind, sent)
	return ours
}

// TestHandlerSlow: a client that sends its request slowly, or does not read its answer,
// does not delay others for long.
func TestHandlerSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		p := pipes{make(chan net.Conn)}
		server := http.Server{Handler: r.Handler()}
		served := make(chan error)
		go func() { served <- server.Serve(p) }()
		for _, test := range []struct {
			request, kind string
			status        int
			want          string
		}{
			{"POST /remember", "application/json", http.StatusRequestTimeout, "deadline: the request did not come in time"},
			{"POST /remember", "text/plain", http.StatusUnsupportedMediaType, "the content type"},
			{"GET /health", "", http.StatusOK, `"ok":true`},
			{"GET /none", "", http.StatusNotFound, ""},
			{"PUT /recall", "", http.StatusMethodNotAllowed, ""},
		} {
			conn := p.dial(test.request, test.kind, "{")
			began := time.Now()
			_ = conn.SetDeadline(began.Add(time.Hour))
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("half a %s: %v", test.request, err)
				_ = conn.Close()
				continue
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != test.status || !strings.Contains(string(body), test.want) || time.Since(began) > patience {
				t.Errorf("half a %s is answered %s %s, %v, after %v", test.request, answer.Status, body, err, time.Since(began))
			}
			if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("half a %s: the connection stays: %v", test.request, err)
			}
			_ = conn.Close()
		}

		stuck := p.dial("GET /health", "", strings.Repeat(" ", 100))
		time.Sleep(2*patience + time.Second)
		if n, err := stuck.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a client that takes nothing for so long is sent %d bytes, %v", n, err)
		}
		_ = stuck.Close()

		w := httptest.NewRecorder()
		cut := httptest.NewRequest(http.MethodPost, "/remember", iotest.ErrReader(io.ErrUnexpectedEOF))
		cut.Header.Set("Content-Type", "application/json")
		if r.Handler().ServeHTTP(w, cut); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "the request did not come whole") {
			t.Errorf("a request that is cut off is answered %d %s", w.Code, w.Body)
		}
		close(p.conns)
		<-served
		synctest.Wait()
		r.commits(0)
	})
}

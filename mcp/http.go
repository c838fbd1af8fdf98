package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/internal/strictjson"
)

// HandlerOptions bound what clients can make a handler do; nil and a zero field are the
// default.
type HandlerOptions struct {
	MaxBody   int64 // bytes of a request; 4 MiB
	Requests  int   // at work at once; 256
	OfServer  int   // of these, of one Server; 64
	Listening int   // requests that wait for changes of resources, of one Server; 16
	// Patience is how long a client may take to send a request, and to take each part of an
	// answer; 30 seconds.
	Patience time.Duration
	// Checked says that hosts and origins were checked before a request comes here.
	Checked bool
	// Linger has a request wait for changes of resources: it ends with the context that it returns,
	// and then calls the function. Nil: it ends with the client.
	Linger func(http.ResponseWriter, *http.Request) (context.Context, context.CancelFunc)
}

// Handler serves clients by streamable HTTP without sessions: revision 2026-07-28, and older
// ones, which cannot subscribe or be asked there. of returns the server for the caller of a
// request, the same for the same session, or an error of package errkind, whose text clients read
// if it is of kind errkind.Invalid or errkind.NotFound. It is not called for pages of other
// origins, or of names that lead to the loopback interface: those are refused, unless
// HandlerOptions.Checked says that the caller has checked them. The caller does the
// authentication, and limits how long a client may take for the head of a request.
func Handler(of func(*http.Request) (*Server, error), opts *HandlerOptions) http.Handler {
	h := &handler{of: of, HandlerOptions: HandlerOptions{MaxBody: 4 << 20, Requests: 256, OfServer: 64, Listening: 16, Patience: 30 * time.Second}}
	if opts != nil {
		setIfGiven(&h.MaxBody, opts.MaxBody)
		setIfGiven(&h.Requests, opts.Requests)
		setIfGiven(&h.OfServer, opts.OfServer)
		setIfGiven(&h.Listening, opts.Listening)
		setIfGiven(&h.Patience, opts.Patience)
		h.Checked, h.Linger = opts.Checked, opts.Linger
	}
	h.sdk = sdk.NewStreamableHTTPHandler(serverOf, &sdk.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: h.MaxBody,
		DisableLocalhostProtection: true, // refuseHead has it
	})
	return h
}

func setIfGiven[T int | int64 | time.Duration](to *T, given T) {
	if given != 0 {
		*to = given
	}
}

type handler struct {
	of  func(*http.Request) (*Server, error)
	sdk http.Handler
	HandlerOptions
	origins http.CrossOriginProtection
	working gauge
}

// serverKey is the key of a request's Server in its context.
type serverKey struct{}

func serverOf(r *http.Request) *sdk.Server {
	return r.Context().Value(serverKey{}).(*Server).sdk
}

// ServeHTTP itself answers requests that are not of the protocol, or too many, and passes
// the others to the SDK.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	patient := &patientWriter{ResponseWriter: w, most: h.Patience}
	defer patient.end()
	w = patient
	if r.Body != http.NoBody { // also one that this package does not read: net/http does
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(h.Patience)) // net/http takes it back when all is read
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		reject(w, http.StatusMethodNotAllowed, &refusal{code: jsonrpc.CodeInvalidRequest, text: "only POST is served"})
		return
	}
	if no := h.refuseHead(r); no != nil {
		reject(w, no.status, &no.refusal)
		return
	}
	s, err := h.of(r)
	if err != nil {
		h.noServer(w, err)
		return
	}
	place := &place{handler: h, server: s}
	if !place.take() {
		busy(w, nil)
		return
	}
	defer place.leave()
	body, msg, no := h.read(w, r)
	if no != nil {
		reject(w, no.status, &no.refusal)
		return
	}
	if call, ok := msg.(*jsonrpc.Request); ok && call.Method == listen {
		if !place.listen() {
			busy(w, idOf(body))
			return
		}
		if h.Linger != nil {
			ctx, done := h.Linger(w, r)
			defer done()
			r = r.WithContext(ctx)
		}
	}
	r = r.WithContext(context.WithValue(r.Context(), serverKey{}, s))
	r.Body = io.NopCloser(bytes.NewReader(body))
	told := &plainText{ResponseWriter: w, msg: msg, id: idOf(body)}
	h.sdk.ServeHTTP(told, r)
	told.end()
}

// place is that of a request among those at work or, separately, among those that listen,
// which may take long.
type place struct {
	*handler
	server      *Server
	isListening bool
}

// take takes a place among those at work, if one is free.
func (p *place) take() bool {
	if !p.working.take(p.Requests) {
		return false
	}
	if !p.server.working.take(p.OfServer) {
		p.working.leave()
		return false
	}
	return true
}

// listen changes it for one among those that listen, if one is free.
func (p *place) listen() bool {
	if !p.server.listening.take(p.Listening) {
		return false
	}
	p.leave()
	p.isListening = true
	return true
}

func (p *place) leave() {
	if p.isListening {
		p.server.listening.leave()
		return
	}
	p.working.leave()
	p.server.working.leave()
}

// ofBody are the headers that mirror the body, for those who look at no body.
var ofBody = []string{"MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"}

// refuseHead returns why a request is refused for any caller; nil: it is not.
func (h *handler) refuseHead(r *http.Request) *badRequest {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !h.Checked && (h.origins.Check(r) != nil || local != nil && isLoopback(local.String()) && !isLoopback(r.Host)) {
		return &badRequest{http.StatusForbidden, refusal{code: jsonrpc.CodeInvalidRequest, text: "pages of other origins are not served"}}
	}
	if encoding := strings.Join(r.Header.Values("Content-Encoding"), ","); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return &badRequest{http.StatusUnsupportedMediaType, refusal{code: jsonrpc.CodeInvalidRequest, text: "the content encoding must be identity"}}
	}
	for _, name := range ofBody {
		if len(r.Header.Values(name)) > 1 { // a proxy in between may have read another one
			return &badRequest{http.StatusBadRequest, refusal{code: sdk.CodeHeaderMismatch, text: "the header " + name + " is there twice"}}
		}
	}
	return nil
}

// isLoopback reports whether a host, with or without a port, is the loopback interface.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// patientWriter waits for a client only so long, each time.
type patientWriter struct {
	http.ResponseWriter
	most time.Duration
}

// Unwrap is for http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *patientWriter) Write(data []byte) (int, error) {
	w.setDeadline(time.Now().Add(w.most))
	defer w.setDeadline(time.Time{}) // by HTTP/2 the answer would end at it, though nothing is written
	return w.ResponseWriter.Write(data)
}

// FlushError is for http.ResponseController.
func (w *patientWriter) FlushError() error {
	w.setDeadline(time.Now().Add(w.most))
	defer w.setDeadline(time.Time{})
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// end lets what is left be written, before which net/http may read the rest of the body.
func (w *patientWriter) end() { w.setDeadline(time.Now().Add(2 * w.most)) }

// setDeadline sets the deadline of writes. A writer that has none is none of a network.
func (w *patientWriter) setDeadline(t time.Time) {
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(t)
}

// badRequest is a refusal with its status.
type badRequest struct {
	status int
	refusal
}

// read reads a request as strictly as a line.
func (h *handler) read(w http.ResponseWriter, r *http.Request) ([]byte, jsonrpc.Message, *badRequest) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.MaxBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, nil, &badRequest{http.StatusRequestEntityTooLarge, refusal{code: jsonrpc.CodeInvalidRequest, text: "the request is too long"}}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, nil, &badRequest{http.StatusRequestTimeout, refusal{code: jsonrpc.CodeInvalidRequest, text: "the request has not come in time"}}
	case err != nil:
		return nil, nil, &badRequest{http.StatusBadRequest, refusal{code: jsonrpc.CodeInvalidRequest, text: "the request has not come whole"}}
	}
	msg, no := readMessage(body, &strictjson.Limits{Bytes: len(body) + 1, Depth: maxDepth, Values: maxValues})
	if no != nil {
		return nil, nil, &badRequest{http.StatusBadRequest, *no}
	}
	return body, msg, nil
}

// noServer answers a request that has no server. It does not reveal stores of other
// callers: an error of kind errkind.NotFound must not, either.
func (h *handler) noServer(w http.ResponseWriter, err error) {
	switch kind := errkind.Of(err); {
	case kind.Retryable():
		busy(w, nil)
		return
	case kind == errkind.Invalid: // what is wrong with the request itself
		reject(w, http.StatusBadRequest, &refusal{code: jsonrpc.CodeInvalidRequest, text: quote.Text(err.Error())})
		return
	}
	text := "there is no such server"
	if errkind.Of(err) == errkind.NotFound { // by a name that the client has given
		text = quote.Text(err.Error())
	}
	reject(w, http.StatusNotFound, &refusal{code: jsonrpc.CodeInvalidRequest, text: text})
}

// busy answers a request for which no room is left now.
func busy(w http.ResponseWriter, id json.RawMessage) {
	w.Header().Set("Retry-After", "1")
	reject(w, http.StatusServiceUnavailable, &refusal{id: id, code: codeBusy, text: "too much is under way; trying again later can help"})
}

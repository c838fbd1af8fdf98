package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mneme/errkind"
	"mneme/internal/strictjson"
)

// HandlerOptions bound what clients can make a handler do; nil and a zero field are the
// default.
type HandlerOptions struct {
	MaxBody   int64 // bytes of a request; 4 MiB
	Requests  int   // at work at once; 256
	OfServer  int   // of these, of one Server; 64
	Listening int   // requests that wait for changes of resources, of one Server; 16
}

// Handler serves clients by streamable HTTP without sessions: revision 2026-07-28, and older
// ones, which cannot subscribe or be asked there. of returns the server of the one who asks,
// the same for the same session, or an error of package errkind. Authentication, timeouts and
// the protection from other origins are for the handlers in front of this one.
func Handler(of func(*http.Request) (*Server, error), opts *HandlerOptions) http.Handler {
	h := &handler{of: of, HandlerOptions: HandlerOptions{MaxBody: 4 << 20, Requests: 256, OfServer: 64, Listening: 16}}
	if opts != nil {
		setIfGiven(&h.MaxBody, opts.MaxBody)
		setIfGiven(&h.Requests, opts.Requests)
		setIfGiven(&h.OfServer, opts.OfServer)
		setIfGiven(&h.Listening, opts.Listening)
	}
	h.sdk = sdk.NewStreamableHTTPHandler(serverOf, &sdk.StreamableHTTPOptions{
		Stateless: true, PropagateRequestCancellation: true, MaxRequestBodyBytes: h.MaxBody,
	})
	return h
}

func setIfGiven[T int | int64](to *T, given T) {
	if given != 0 {
		*to = given
	}
}

type handler struct {
	of  func(*http.Request) (*Server, error)
	sdk http.Handler
	HandlerOptions
	working gauge
}

// serverKey is the key of a request's Server in its context.
type serverKey struct{}

func serverOf(r *http.Request) *sdk.Server {
	return r.Context().Value(serverKey{}).(*Server).sdk
}

// ServeHTTP answers what is no request of the protocol, or too much, and gives the rest to the
// SDK.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		reject(w, http.StatusMethodNotAllowed, &refusal{code: jsonrpc.CodeInvalidRequest, text: "only POST is served"})
		return
	}
	s, err := h.of(r)
	if err != nil {
		h.noServer(w, err)
		return
	}
	if !h.working.take(h.Requests) {
		busy(w, nil)
		return
	}
	leave := h.working.leave
	defer func() { leave() }()
	body, msg, no := h.read(w, r)
	if no != nil {
		reject(w, no.status, &no.refusal)
		return
	}
	mine, most := &s.working, h.OfServer
	if call, ok := msg.(*jsonrpc.Request); ok && call.Method == listen {
		mine, most = &s.listening, h.Listening
		h.working.leave() // one that listens may do so for long
		leave = func() {}
	}
	if !mine.take(most) {
		busy(w, idOf(body))
		return
	}
	defer mine.leave()
	r = r.WithContext(context.WithValue(r.Context(), serverKey{}, s))
	r.Body = io.NopCloser(bytes.NewReader(body))
	h.sdk.ServeHTTP(w, r)
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
	case err != nil:
		return nil, nil, &badRequest{http.StatusBadRequest, refusal{code: jsonrpc.CodeInvalidRequest, text: "the request has not come whole"}}
	}
	msg, no := readMessage(body, &strictjson.Limits{Bytes: len(body) + 1, Depth: maxDepth, Values: maxValues})
	if no != nil {
		return nil, nil, &badRequest{http.StatusBadRequest, *no}
	}
	return body, msg, nil
}

// noServer answers a request for which there is no server. It does not tell what there is for
// others.
func (h *handler) noServer(w http.ResponseWriter, err error) {
	if kind := errkind.Of(err); kind.Retryable() {
		busy(w, nil)
		return
	}
	reject(w, http.StatusNotFound, &refusal{code: jsonrpc.CodeInvalidRequest, text: "there is no such server"})
}

// busy answers a request for which there is no room now.
func busy(w http.ResponseWriter, id json.RawMessage) {
	w.Header().Set("Retry-After", "1")
	reject(w, http.StatusServiceUnavailable, &refusal{id: id, code: codeBusy, text: "too much is under way; trying again later can help"})
}

func reject(w http.ResponseWriter, status int, no *refusal) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(no.encode()) // the client may be gone
}

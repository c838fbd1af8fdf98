package plugin

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"mneme/internal/quote"
	"mneme/internal/strictjson"
)

// Handler serves POST /recall and POST /remember, whose bodies are what params are of a line,
// and GET /health. A request that is read is answered with 200, whatever becomes of it; others
// with 400 (it does not come whole), 403 (from a page of another origin), 404, 405, 408 (a client
// has 30 seconds to send one), 413 (longer than MaxRequest) or 415 (it is no application/json, or
// compressed). A client has 30 seconds to take the answer. The handler knows nothing of users:
// the caller's server decides which requests it gets, and how long the head of one may take.
func (p *Provider) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /recall", p.ServeRecall)
	mux.HandleFunc("POST /remember", p.ServeRemember)
	mux.HandleFunc("GET /health", p.ServeHealth)
	front := http.NewCrossOriginProtection().Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { patiently(w, r, front.ServeHTTP) })
}

// ServeRecall serves POST /recall as Handler does, from any page.
func (p *Provider) ServeRecall(w http.ResponseWriter, r *http.Request) {
	patiently(w, r, func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, "recall") })
}

// ServeRemember serves POST /remember likewise.
func (p *Provider) ServeRemember(w http.ResponseWriter, r *http.Request) {
	patiently(w, r, func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, "remember") })
}

// ServeHealth serves GET /health likewise.
func (p *Provider) ServeHealth(w http.ResponseWriter, r *http.Request) {
	patiently(w, r, func(w http.ResponseWriter, r *http.Request) {
		writeAnswer(w, http.StatusOK, p.Health(r.Context()))
	})
}

// patiently has a client take no longer than it may.
func patiently(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	if r.Body != http.NoBody { // also one that this package does not read: net/http does
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(patience)) // net/http takes it back when all is read
	}
	defer setWriteDeadline(w) // for the rest of the answer
	serve(w, r)
}

// patience is how long a client may take to send a body, and then to take the answer.
const patience = 30 * time.Second

// setWriteDeadline gives the client time to take what is written next, before which net/http may
// read the rest of the body. A writer that has no deadline is none of a network.
func setWriteDeadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * patience))
}

// serve answers a request to a method that has a body.
func (p *Provider) serve(w http.ResponseWriter, r *http.Request, method string) {
	began := time.Now()
	var answer any
	status := http.StatusOK
	defer func() { writeAnswer(w, status, answer) }()
	defer p.catch(func() { answer = p.refuse(began, method, Later, reasonPanic) })
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		status, answer = http.StatusUnsupportedMediaType, p.refuse(began, method, Never, "invalid: the content type must be application/json")
		return
	}
	if encoding := strings.Join(r.Header.Values("Content-Encoding"), ","); encoding != "" && !strings.EqualFold(encoding, "identity") {
		status, answer = http.StatusUnsupportedMediaType, p.refuse(began, method, Never, "invalid: the content encoding must be identity")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(p.MaxRequest())))
	if err != nil {
		var retry Retry
		var reason string
		status, retry, reason = p.notRead(err)
		answer = p.refuse(began, method, retry, reason)
		return
	}
	params, err := strictjson.Parse(body, p.jsonLimits())
	if err != nil {
		answer = p.refuse(began, method, Never, "invalid: "+err.Error())
		return
	}
	answer = p.dispatch(r.Context(), began, method, params)
}

// notRead says why a body could not be read.
func (p *Provider) notRead(err error) (status int, retry Retry, reason string) {
	_, isLong := errors.AsType[*http.MaxBytesError](err)
	switch {
	case isLong:
		return http.StatusRequestEntityTooLarge, Never, p.reasonTooLong()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, Later, "deadline: the request did not come in time"
	}
	return http.StatusBadRequest, Later, "invalid: the request did not come whole"
}

func writeAnswer(w http.ResponseWriter, status int, answer any) {
	data, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, "no answer", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	setWriteDeadline(w)
	w.WriteHeader(status)
	_, _ = w.Write(append(quote.JSON(data), '\n'))
}

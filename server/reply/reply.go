// Package reply writes what the server answers: JSON, and errors in the form that the
// memory-stores API publishes.
package reply

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"mneme/errkind"
	"mneme/internal/quote"
	"mneme/versionlog"
)

// NewRequestID returns a fresh id of a request.
func NewRequestID() string { return "req_" + versionlog.RandomID(15) }

// RequestID is the header with the id of a request, which errors and the log repeat.
const RequestID = "Request-Id"

// JSON answers with a JSON value.
func JSON(w http.ResponseWriter, r *http.Request, status int, answer any) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if h.Get(RequestID) == "" {
		h.Set(RequestID, NewRequestID())
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	if err := e.Encode(answer); err != nil {
		panic(err) // a type that JSON does not have
	}
	h.Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b.Bytes()) // the client has gone
	}
}

// opOf is the operation of a request for the log: its method, and the pattern of its path, which most
// often has the method.
func opOf(r *http.Request) string {
	if strings.Contains(r.Pattern, " ") {
		return r.Pattern
	}
	return r.Method + " " + r.Pattern
}

// Error answers with an error.
func Error(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	id := w.Header().Get(RequestID)
	if id == "" {
		id = NewRequestID()
		w.Header().Set(RequestID, id)
	}
	cause := context.Cause(r.Context())
	switch {
	case cause == nil || errkind.Of(err) != errkind.Unknown:
	case errkind.Of(cause) == errkind.Unknown:
		err = fmt.Errorf("%w: %w: %w", errEnded, cause, err)
	default:
		err = fmt.Errorf("%w: %w", cause, err)
	}
	as := answerTo(err)
	e := errorJSON{Type: "error", Error: detailJSON{Type: as.kind, Message: Text(err)}, RequestID: id}
	var conflict *PathConflict
	var method *methodError
	switch {
	case errors.As(err, &method):
		as.status = http.StatusMethodNotAllowed
		w.Header().Set("Allow", method.allowed)
	case errors.Is(err, ErrEncoded):
		as.status = http.StatusUnsupportedMediaType
	case as.status == http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="mneme"`)
		e.Error.Message += "; send a key or a token as \"Authorization: Bearer …\" or as x-api-key"
	case errors.As(err, &conflict):
		as.status, e.Error.Type = http.StatusConflict, typePathConflict
		e.Error.ConflictingPath, e.Error.ConflictingMemoryID = &conflict.Path, &conflict.MemoryID
	case errors.Is(err, versionlog.ErrLiveHead):
		as.status, e.Error.Type = http.StatusConflict, typeConflict
	case as.kind == typePrecondition: // which does not tell what is there
		e.Error.Message = "the memory is not what the precondition says"
		if failed, ok := errors.AsType[*PreconditionError](err); ok {
			e.Error.Message = quote.Text(failed.Text)
		}
	case as.hidden:
		if cause != context.Canceled { // else the client has gone
			log.Error("a request failed", "request", id, "op", opOf(r), "err", err)
		}
	}
	isFull := as.status == http.StatusInsufficientStorage
	isUsedUp := as.status == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" // for longer than a client tries again
	if as.status == http.StatusConflict || isFull || isUsedUp || as.hidden && !errkind.Of(err).Retryable() {
		w.Header().Set("X-Should-Retry", "false")
	}
	JSON(w, r, as.status, e)
}

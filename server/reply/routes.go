package reply

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
)

// Handle returns a handler that answers with what do returns: a value, as JSON with status 200, or an
// error.
func Handle(log *slog.Logger, do func(http.ResponseWriter, *http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, err := do(w, r)
		if err != nil {
			Error(w, r, log, err)
			return
		}
		JSON(w, r, http.StatusOK, answer)
	}
}

// Body reads the body of a request, which has at most so many bytes. Errors are those of BodyError.
func Body(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if err != nil {
		return nil, BodyError(err)
	}
	return body, nil
}

// NoRoute returns the handler of what no other pattern of a mux has: patterns with a method are
// operations.
func NoRoute(mux *http.ServeMux, log *slog.Logger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
			other := *r
			other.Method = method
			if _, pattern := mux.Handler(&other); strings.HasPrefix(pattern, method+" ") {
				allowed = append(allowed, method)
			}
		}
		err := ErrNoRoute
		if allowed != nil {
			err = NoMethod(allowed...)
		}
		Error(w, r, log, err)
	}
}

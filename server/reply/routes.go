package reply

import (
	"cmp"
	"io"
	"log/slog"
	"net/http"
	"slices"
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

// maxKey is how many bytes the header of IdempotencyKey has at most.
const maxKey = 255

// IdempotencyKey returns the header by which a client names a request that it may make again; "": there is
// none.
func IdempotencyKey(r *http.Request) (string, error) {
	names := r.Header.Values("X-Idempotency-Key")
	if len(names) == 0 {
		return "", nil
	}
	name := names[0]
	switch {
	case len(names) > 1:
		return "", Invalidf("x-idempotency-key: it is there %d times", len(names))
	case name == "" || len(name) > maxKey || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", Invalidf("x-idempotency-key: it must have 1 to %d visible characters of ASCII, and no space", maxKey)
	}
	return name, nil
}

// CheckQuery refuses a query with a parameter that an operation does not have: a condition or a choice that
// is spelled wrongly must not be none. beta is one of all operations.
func CheckQuery(r *http.Request, names ...string) error {
	for name := range r.URL.Query() {
		if name == "beta" || slices.Contains(names, name) {
			continue
		}
		return Invalidf("the query: %.80q is unknown; this operation takes %s", name, cmp.Or(strings.Join(names, ", "), "none"))
	}
	return nil
}

// NoRoute returns the handler of requests that no other pattern of a mux matches. Patterns
// with a method are operations. The mux answers HEAD as GET unless HEAD has a pattern of
// its own.
func NoRoute(mux *http.ServeMux, log *slog.Logger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPatch, http.MethodDelete} {
			other, does := *r, method
			if other.Method = method; method == http.MethodHead {
				does = http.MethodGet
			}
			if _, pattern := mux.Handler(&other); strings.HasPrefix(pattern, does+" ") {
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

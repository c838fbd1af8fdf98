package plugin

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"mneme/internal/quote"
	"mneme/internal/strictjson"
)

// Handler serves POST /recall and POST /remember, whose bodies are what params are of a line,
// and GET /health. A request that is read is answered with 200, whatever becomes of it; others
// with 403 (from a page of another origin), 404, 405, 413 (longer than MaxRequest) or 415 (it is
// no application/json). It knows nothing of users: what stands before it says whose requests it
// gets.
func (p *Provider) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /recall", func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, "recall") })
	mux.HandleFunc("POST /remember", func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, "remember") })
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) { writeAnswer(w, http.StatusOK, p.Health(r.Context())) })
	return http.NewCrossOriginProtection().Handler(mux)
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
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(p.MaxRequest())))
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		status, answer = http.StatusRequestEntityTooLarge, p.refuse(began, method, Never, p.reasonTooLong())
		return
	}
	var params *strictjson.Object
	if err == nil {
		params, err = strictjson.Parse(body, p.jsonLimits())
	}
	if err != nil {
		answer = p.refuse(began, method, Never, "invalid: "+err.Error())
		return
	}
	answer = p.dispatch(r.Context(), began, method, params)
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
	w.WriteHeader(status)
	_, _ = w.Write(append(quote.JSON(data), '\n'))
}

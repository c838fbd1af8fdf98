package server

import (
	"net/http"

	"mneme/server/access"
	"mneme/session"
)

// visit is what the server knows of a request.
type visit struct {
	caller   *access.Caller // nil: none, or none yet
	from     string         // the address
	read     int64          // bytes of the body
	received bool           // all of it
	declared int64          // of them, which the budget has paid for
	bytes    int64          // of the answer
	status   int
	refusal  error // why the body was not read to its end, if that is for the server to say

	secret  string // the credential
	release func() // has the request no longer count as being under way, or end by its time
}

type visitKey struct{}

func visitOf(r *http.Request) *visit {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	return v
}

// callerOf returns who a request is from.
func callerOf(r *http.Request) (*access.Caller, error) {
	if v := visitOf(r); v != nil && v.caller != nil {
		return v.caller, nil
	}
	return nil, access.ErrUnauthenticated
}

// answerWriter notes what is answered. Where the body of the request was refused, the answer is why,
// and what the handler answers is left out.
type answerWriter struct {
	http.ResponseWriter
	visit   *visit
	ends    func() bool                      // the connection must; nil: it stays
	refuse  func(http.ResponseWriter, error) // nil: this is that answer
	refused bool
}

// answered reports whether the request was answered with why its body was refused.
func (w *answerWriter) answered() bool {
	if why := w.visit.refusal; why != nil && w.refuse != nil && w.visit.status == 0 {
		w.refused = true
		w.refuse(&answerWriter{ResponseWriter: w.ResponseWriter, visit: w.visit}, why)
	}
	return w.refused
}

// begin notes the status of an answer that begins.
func (w *answerWriter) begin(status int) {
	if w.visit.status != 0 {
		return
	}
	w.visit.status = status
	if w.ends != nil && w.ends() {
		w.Header().Set("Connection", "close")
	}
}

func (w *answerWriter) WriteHeader(status int) {
	if w.answered() {
		return
	}
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *answerWriter) Write(p []byte) (int, error) {
	if w.answered() {
		return len(p), nil
	}
	w.begin(http.StatusOK)
	var budget *session.Budget
	if c := w.visit.caller; c != nil {
		budget = c.Budget
	}
	if _, left := budget.Left(); left <= 0 && w.visit.bytes > 0 {
		return 0, session.ErrOverBudget
	}
	n, err := w.ResponseWriter.Write(p)
	w.visit.bytes += int64(n)
	budget.Spend(int64(n))
	return n, err
}

// Unwrap is for http.ResponseController.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

package mcp

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"mneme/internal/quote"
)

// plainText makes errors of JSON-RPC of those that the SDK (v1.8.0) answers to a message in plain text.
type plainText struct {
	http.ResponseWriter
	msg    jsonrpc.Message
	id     json.RawMessage // of the message; nil: it has none
	status int             // of the error; 0: none
	text   []byte
}

// Unwrap is for http.ResponseController.
func (w *plainText) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *plainText) WriteHeader(status int) {
	if status >= http.StatusBadRequest && strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		w.status = status
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *plainText) Write(data []byte) (int, error) {
	if w.status == 0 {
		return w.ResponseWriter.Write(data)
	}
	w.text = append(w.text, data[:min(len(data), maxErrorText-len(w.text))]...)
	return len(data), nil
}

// end answers with the error, if there is one. One about the method is the answer to a call, as all its
// errors are; a notification has none.
func (w *plainText) end() {
	if w.status == 0 {
		return
	}
	w.Header().Del("Content-Type")
	no := &refusal{id: w.id, code: jsonrpc.CodeInvalidRequest, text: quote.Text(strings.TrimSpace(string(w.text)))}
	r, ok := w.msg.(*jsonrpc.Request)
	switch isUnknown := ok && strings.HasSuffix(no.text, quote.Text(strconv.Quote(r.Method)+" unsupported")); {
	case isUnknown && !r.IsCall():
		w.ResponseWriter.WriteHeader(http.StatusAccepted)
		return
	case isUnknown:
		w.status, no.code, no.text = http.StatusOK, jsonrpc.CodeMethodNotFound, "there is no such method"
	}
	reject(w.ResponseWriter, w.status, no)
}

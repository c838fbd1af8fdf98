package mcp

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"mneme/internal/strictjson"
)

// The bounds of a message.
const (
	maxID     = 1 << 10 // bytes of a request's id
	maxDepth  = 64      // of objects and arrays in each other
	maxValues = 100_000
)

// codeBusy is the error code of a request that is refused since too many are under way.
const codeBusy = -32000

// refusal is the answer to a line that asks for nothing, or nothing that can be done.
type refusal struct {
	id   json.RawMessage // nil: the line does not say
	code int64
	text string
}

func (r *refusal) encode() []byte {
	line, _ := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   jsonrpc.Error   `json:"error"`
	}{"2.0", r.id, jsonrpc.Error{Code: r.code, Message: r.text}})
	return line
}

// readMessage reads a message. Texts that it refuses it does not show.
func readMessage(data []byte, l *strictjson.Limits) (jsonrpc.Message, *refusal) {
	o, err := strictjson.Parse(data, l)
	var wrong *strictjson.Error
	switch {
	case errors.As(err, &wrong) && wrong.Problem == strictjson.NotObject:
		return nil, &refusal{code: jsonrpc.CodeInvalidRequest, text: "a message is an object, and no batch is taken"}
	case err != nil:
		no := &refusal{id: idOf(data), code: jsonrpc.CodeInvalidRequest, text: "the message is refused: " + err.Error()}
		if wrong != nil && (wrong.Problem == strictjson.NotJSON || wrong.Problem == strictjson.NotUnicode) {
			no.code = jsonrpc.CodeParseError
		}
		return nil, no
	}
	id := o.Raw("id")
	if id != nil && !isID(id) {
		return nil, &refusal{code: jsonrpc.CodeInvalidRequest, text: "the id has to be a string of at most 1 KiB, or a whole number below 2^53"}
	}
	if o.Has("method") == isAnswer(o) || o.Has("method") && !hasMethod(o) {
		return nil, &refusal{id: id, code: jsonrpc.CodeInvalidRequest, text: "a message has either a method, a string that is not empty, or a result or error"}
	}
	if isAnswer(o) {
		id = nil // it is that of a request of the server
	}
	msg, err := jsonrpc.DecodeMessage(data)
	if err != nil {
		return nil, &refusal{id: id, code: jsonrpc.CodeInvalidRequest, text: "it is no message of JSON-RPC 2.0"}
	}
	return msg, nil
}

func isAnswer(o *strictjson.Object) bool { return o.Has("result") || o.Has("error") }

// hasMethod reports whether the method is one that can be. The SDK takes null for "".
func hasMethod(o *strictjson.Object) bool {
	method, err := o.String("method")
	return err == nil && method != ""
}

// isID reports whether a value can be the id of a request. The SDK reads numbers as floating
// point, so it would answer others by another number.
func isID(raw json.RawMessage) bool {
	if raw[0] == '"' {
		return len(raw) <= maxID
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return err == nil && n < 1<<53 && n > -1<<53
}

// idOf returns the id of a message that is refused, so that the client learns which one; nil
// if it has none that can be told.
func idOf(data []byte) json.RawMessage {
	var odd struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(data, &odd) != nil || len(odd.ID) == 0 || !isID(odd.ID) {
		return nil
	}
	return odd.ID
}

// maxErrorText bounds the text of an error, in bytes: some of the SDK's hold the request.
const maxErrorText = 1 << 10

// wireError returns an error of the SDK as a client is to have it: with a code, and not long.
func wireError(err error) *jsonrpc.Error {
	e := jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest}
	var own *jsonrpc.Error
	if errors.As(err, &own) {
		e = *own
	}
	if e.Message = err.Error(); strings.Contains(e.Message, "unmarshaling ") {
		e.Message = "the parameters are not those of the method" // the SDK's text has types of Go, and all that was sent
	}
	if len(e.Message) > maxErrorText {
		e.Message = strings.ToValidUTF8(e.Message[:maxErrorText], "") + "…"
	}
	return &e
}

// reject answers a request by HTTP with a refusal.
func reject(w http.ResponseWriter, status int, no *refusal) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(no.encode()) // the client may be gone
}

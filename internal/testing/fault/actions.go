package fault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// FailBefore loses the connection before the request is sent: it has no effect.
func FailBefore(_ *http.Request, _ []byte, _ func() (*http.Response, error)) (*http.Response, error) {
	return nil, reset()
}

// FailAfter loses the connection after the server has handled the request: it
// has its effect, and its reply is lost.
func FailAfter(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
	resp, err := send()
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return nil, reset()
}

func reset() error {
	return &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
}

// Delay waits before the request is sent, or until its context ends.
func Delay(d time.Duration) Action {
	return func(req *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		if err := sleep(req, d); err != nil {
			return nil, err
		}
		return send()
	}
}

// Answer answers with a status and an error code, in the format of the service
// that was asked, without sending the request.
func Answer(status int, code string) Action {
	return func(req *http.Request, _ []byte, _ func() (*http.Response, error)) (*http.Response, error) {
		return reply(req, status, code, nil), nil
	}
}

// Errors of the services that no emulator gives.
var (
	SlowDown                   = Answer(http.StatusServiceUnavailable, "SlowDown")
	ConditionalRequestConflict = Answer(http.StatusConflict, "ConditionalRequestConflict")
	ThroughputExceeded         = Answer(http.StatusBadRequest, "ProvisionedThroughputExceededException")
	InternalServerError        = Answer(http.StatusInternalServerError, "InternalServerError")
	ExpiredToken               = Answer(http.StatusBadRequest, "ExpiredTokenException")
)

// TransactionConflict cancels a TransactWriteItems: another transaction is at
// work on its first item.
func TransactionConflict(req *http.Request, body []byte, _ func() (*http.Response, error)) (*http.Response, error) {
	var request struct{ TransactItems []json.RawMessage }
	if err := json.Unmarshal(body, &request); err != nil {
		return nil, err
	}
	reasons := make([]map[string]string, len(request.TransactItems))
	for i := range reasons {
		reasons[i] = map[string]string{"Code": "None"}
	}
	if len(reasons) > 0 {
		reasons[0] = map[string]string{"Code": "TransactionConflict", "Message": "Transaction is ongoing for the item"}
	}
	return reply(req, http.StatusBadRequest, "TransactionCanceledException", reasons), nil
}

// reply makes the reply of a service that reports an error.
func reply(req *http.Request, status int, code string, reasons []map[string]string) *http.Response {
	text := fmt.Sprintf("<Error><Code>%s</Code><Message>made by a test</Message><RequestId>fault</RequestId></Error>", code)
	kind := "application/xml"
	if req.Header.Get("X-Amz-Target") != "" {
		kind = "application/x-amz-json-1.0"
		fields := map[string]any{"__type": "com.amazonaws.dynamodb.v20120810#" + code, "message": "made by a test"}
		if reasons != nil {
			fields["CancellationReasons"] = reasons
		}
		encoded, _ := json.Marshal(fields) // strings only
		text = string(encoded)
	}
	if req.Method == http.MethodHead {
		text = ""
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header:        http.Header{"Content-Type": {kind}},
		ContentLength: int64(len(text)), Body: io.NopCloser(strings.NewReader(text)),
	}
}

// CutBody ends the reply's body halfway, as a connection that breaks does.
func CutBody(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
	return withBody(send, func(body []byte) io.Reader {
		return io.MultiReader(bytes.NewReader(body[:len(body)/2]), broken{})
	})
}

// StallBody sends half of the reply's body and then nothing until the context
// of the request ends.
func StallBody(req *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
	return withBody(send, func(body []byte) io.Reader {
		return io.MultiReader(bytes.NewReader(body[:len(body)/2]), stalled{req})
	})
}

// WrongBytes changes one bit in the middle of the reply's body.
func WrongBytes(_ *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
	return withBody(send, func(body []byte) io.Reader {
		if len(body) > 0 {
			body[len(body)/2] ^= 1
		}
		return bytes.NewReader(body)
	})
}

// WrongBytesSent changes one bit in the middle of the request's body.
func WrongBytesSent(_ *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
	if len(body) > 0 { // send reads this very slice
		body[len(body)/2] ^= 1
		defer func() { body[len(body)/2] ^= 1 }()
	}
	return send()
}

func withBody(send func() (*http.Response, error), change func([]byte) io.Reader) (*http.Response, error) {
	resp, err := send()
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(change(body))
	return resp, nil
}

// broken is a connection that breaks while it is read.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// stalled is a connection on which nothing comes.
type stalled struct{ req *http.Request }

func (s stalled) Read([]byte) (int, error) {
	<-s.req.Context().Done()
	return 0, s.req.Context().Err()
}

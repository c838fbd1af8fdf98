package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"mneme/errkind"
	"mneme/gateway/wire"
	"mneme/server/access"
	"mneme/server/reply"
	"mneme/versionlog"
)

// writeTime is how long a client may take to take a part of an answer.
const writeTime = 30 * time.Second

// call is one request.
type call struct {
	*Handler
	*http.Request
	w     http.ResponseWriter
	view  *view
	began bool // the head of the answer was sent
	tried bool // what it changes may have been begun
}

// cause is the error with which a request ends that was ended from here.
func (c *call) cause(err error) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if cause := context.Cause(c.Context()); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return fmt.Errorf("%w: %w", reply.ErrLate, err)
}

// lookAgain has the request go on with what its caller reaches now. Where it changes something, that comes
// next.
func (c *call) lookAgain() (err error) {
	c.view, err = c.again(c.Request)
	c.tried = err == nil
	return err
}

// begin sends the head of an answer.
func (c *call) begin(status int, contentType string, length int) {
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if length >= 0 {
		h.Set("Content-Length", strconv.Itoa(length))
	}
	c.extend()
	c.began = true
	c.w.WriteHeader(status)
}

// extend gives the client time to take what is written next.
func (c *call) extend() {
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(writeTime)) // of a recorder in a test there is none
}

// answer answers with JSON.
func (c *call) answer(a *wire.Answer) error {
	body, err := json.Marshal(a)
	if err != nil {
		return err
	}
	c.begin(http.StatusOK, wire.TypeJSON, len(body))
	_, _ = c.w.Write(body) // the client has gone
	return nil
}

// Refuse answers a request below wire.Prefix with an error that is none of the gateway: it comes before
// the request was looked at, unless it is a fault.
func Refuse(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	(&call{Handler: &Handler{log: log}, w: w, Request: r, tried: errkind.Of(err) == errkind.Unknown}).refuse(err)
}

// refuse answers with an error.
func (c *call) refuse(err error) {
	if c.began { // and the stream has told it
		return
	}
	e, status := c.errorOf(err)
	e.Untried = !c.tried
	body := e.Encode()
	if status == http.StatusUnauthorized {
		c.w.Header().Set("WWW-Authenticate", `Bearer realm="mneme"`)
	}
	c.begin(status, wire.TypeError, len(body))
	_, _ = c.w.Write(body)
}

// errorOf is the form of an error. Details that clients must not see go to the log.
func (c *call) errorOf(err error) (*wire.Error, int) {
	e, status, hidden := wire.ErrorOf(err)
	e.NoRight = errors.Is(err, access.ErrDenied)
	if text, isHidden := reply.Hidden(err); hidden || isHidden && status == http.StatusForbidden { // which a backend denies
		e.Text, hidden = text, true
	}
	if hidden && c.Context().Err() == nil {
		c.log.Error("a request failed", "op", c.URL.Path, "err", err)
	}
	return e, status
}

var errLength = errkind.New(errkind.Invalid, "the request does not say how long it is")

// body reads a request that carries contents. The caller calls done when it has no more use
// for the bytes.
func (c *call) body(most int64) (data []byte, done func(), err error) {
	n := c.ContentLength
	switch {
	case n < 0:
		return nil, nil, errLength
	case n > most:
		return nil, nil, fmt.Errorf("a request of %d bytes, at most %d: %w", n, most, versionlog.ErrTooLarge)
	}
	h := &hold{room: c.room, caller: c.view.caller}
	if data, err = h.read(c.Context(), c.Body, n); err != nil {
		h.release()
		return nil, nil, err
	}
	return data, h.release, nil
}

// firstPart is how many bytes of a body get room before any has come.
const firstPart = 64 << 10

// read reads n bytes. Their buffer grows to at most twice the bytes that have come.
func (h *hold) read(ctx context.Context, from io.Reader, n int64) ([]byte, error) {
	var data []byte
	for int64(len(data)) < n {
		if len(data) == cap(data) {
			size := min(n, max(firstPart, 2*int64(cap(data))))
			if err := h.grow(ctx, size-int64(cap(data))); err != nil {
				return nil, err
			}
			data = append(make([]byte, 0, size), data...)
		}
		got, err := from.Read(data[len(data):cap(data)])
		data = data[:len(data)+got]
		if err != nil && (int64(len(data)) < n || !errors.Is(err, io.EOF)) {
			return nil, bodyError(err)
		}
	}
	return data, nil
}

// bodyError is the error of a body that cannot be read to its end.
func bodyError(err error) error {
	if errkind.Of(err) == errkind.Unavailable {
		return err
	}
	return fmt.Errorf("%w: the request breaks off, or is too long", versionlog.ErrInvalid)
}

// ask reads a request without contents.
func (c *call) ask() (*wire.Ask, error) {
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.Body, wire.MaxAsk))
	if err != nil {
		return nil, bodyError(err)
	}
	return wire.ReadAsk(data)
}

// stream begins an answer that is a stream.
func (c *call) stream() *wire.ItemWriter {
	c.begin(http.StatusOK, wire.TypeStream, -1)
	flusher := http.NewResponseController(c.w)
	return wire.NewItemWriter(wire.NewStreamWriter(c.w, func() error {
		c.extend()
		return flusher.Flush()
	}))
}

// end ends a stream: with an error, if that is not nil.
func (c *call) end(w *wire.ItemWriter, err error) error {
	if err == nil {
		return w.End(nil)
	}
	e, _ := c.errorOf(c.cause(err))
	return w.End(e)
}

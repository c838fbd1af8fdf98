package server

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// bodyRate is how many bytes of a body are to come in each second, once the first time is over.
const bodyRate = 128 << 10

// body is that of a request. It notes what is read. Its first bytes are to come within a time, and so
// much later may others come as they take at bodyRate.
type body struct {
	io.ReadCloser
	visit   *visit
	length  int64 // -1: unknown
	times   times
	control *http.ResponseController
	begins  func()       // once, before it is read
	ends    func() error // once, when it was read to its end

	began time.Time
}

func (b *body) Read(p []byte) (int, error) {
	if b.visit.received {
		return b.ReadCloser.Read(p)
	}
	if b.began.IsZero() {
		b.began = time.Now()
		b.begins()
	}
	until := b.began.Add(b.times.body + time.Duration(b.visit.read/(bodyRate/1000))*time.Millisecond)
	_ = b.control.SetReadDeadline(until) // a recorder of tests has none
	b.setAnswerBy(until)
	n, err := b.ReadCloser.Read(p)
	b.visit.read += int64(n)
	b.visit.caller.Budget.Spend(max(0, min(int64(n), b.visit.read-b.visit.declared)))
	if errors.Is(err, io.EOF) || err == nil && b.length >= 0 && b.visit.read >= b.length {
		b.visit.received = true
		_ = b.control.SetReadDeadline(time.Time{}) // one that is left would end the request
		b.setAnswerBy(time.Now())
		if failed := b.ends(); failed != nil {
			return n, failed
		}
	}
	return n, err
}

// setAnswerBy sets until when the answer is to be read, where the body is there at a time.
func (b *body) setAnswerBy(there time.Time) {
	_ = b.control.SetWriteDeadline(there.Add(b.times.request + answerTimeout))
}

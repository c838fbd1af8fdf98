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
// much later may others come as they take at bodyRate. A body that passes the budget of its caller, or
// for which there is no place once it is there, is not read to its end: the request is answered with
// the reason, whatever its handler makes of that, see answerWriter.
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
	if refused := b.pay(int64(n)); refused != nil {
		b.visit.refusal = refused
		return 0, refused
	}
	if errors.Is(err, io.EOF) || err == nil && b.length >= 0 && b.visit.read >= b.length {
		b.visit.received = true
		_ = b.control.SetReadDeadline(time.Time{}) // one that is left would end the request
		b.setAnswerBy(time.Now())
		if refused := b.ends(); refused != nil {
			b.visit.refusal = refused
			return n, refused
		}
	}
	return n, err
}

// pay takes what was read out of the budget, unless that was paid before the body came.
func (b *body) pay(n int64) error {
	due := max(0, min(n, b.visit.read-b.visit.declared))
	err := b.visit.caller.Budget.Take(0, due)
	if err != nil {
		b.visit.caller.Budget.Spend(due)
	}
	return err
}

// setAnswerBy sets the deadline for the client to read the answer, if the body is complete
// at a time.
func (b *body) setAnswerBy(there time.Time) {
	_ = b.control.SetWriteDeadline(there.Add(b.times.request + answerTimeout))
}

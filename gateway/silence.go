package gateway

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// silence ends a request if a caller waits for its answer and nothing comes, or the call
// has no time left. Before the answer, progress is that the server takes the body.
type silence struct {
	left   func() time.Duration // of the call
	limit  time.Duration
	cancel context.CancelCauseFunc

	mu       sync.Mutex // guards the fields below, and the request until it is answered; a leaf
	answered bool
	timer    *time.Timer
}

func (s *silence) listen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listenLocked()
}

func (s *silence) listenLocked() {
	most := max(0, min(s.limit, s.left()))
	if s.timer == nil {
		s.timer = time.AfterFunc(most, func() {
			s.cancel(fmt.Errorf("%w in time", ErrUnavailable))
		})
		return
	}
	s.timer.Reset(most)
}

// hush is called when an answer has come, or a part of it.
func (s *silence) hush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answered = true
	s.timer.Stop()
}

// watch has the body of a request be taken in time.
func (s *silence) watch(req *http.Request, r *request) {
	if req.ContentLength == 0 {
		return
	}
	body, before := req.GetBody, r.sent
	began := time.Now()
	req.GetBody = func() (io.ReadCloser, error) { // once more where a connection has died unused
		b, err := body()
		return &taken{ReadCloser: b, silence: s, request: r, began: began, before: before}, err
	}
	req.Body, _ = req.GetBody()
}

// taken is the body of a request. The transport may still read it when the answer has come.
type taken struct {
	io.ReadCloser
	silence *silence
	request *request
	began   time.Time
	before  time.Duration // that others of the call were sent for
	n       int
}

func (t *taken) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	t.silence.mu.Lock()
	defer t.silence.mu.Unlock()
	if t.silence.answered {
		return n, err
	}
	t.n += n
	t.request.sent = min(t.before+min(time.Since(t.began), upload(t.n)), upload(len(t.request.body)))
	t.silence.listenLocked()
	return n, err
}

// heard is a body that is read in time.
type heard struct {
	io.ReadCloser
	silence *silence
	request *request
}

func (h *heard) Read(p []byte) (int, error) {
	h.silence.listen()
	defer h.silence.hush()
	n, err := h.ReadCloser.Read(p)
	if h.request.lasts {
		h.request.earned += time.Duration(n) * (time.Second / downloadRate)
	}
	return n, err
}

// outage is the state of a server that has not answered a call within its whole limit. A
// request that is tried next, such as one for a blob of a failed batch, does not get the
// whole limit again, nor does a request that has waited for its turn meanwhile.
type outage struct {
	mu          sync.Mutex // guards the fields below
	began, last time.Time  // when such a call has failed, and another, perhaps brief, at last; zero: the server has answered since
}

const (
	outageTime = 5 * time.Second  // from the last call on
	outageMost = 30 * time.Second // altogether; a server that is slow must have its time again
	briefly    = 12               // the part of a limit that a call has then
)

// end notes a call that has failed.
func (o *outage) end(r *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if r.limit == 0 {
		o.began = time.Now()
	}
	o.last = time.Now()
}

// over notes an answer.
func (o *outage) over() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.began, o.last = time.Time{}, time.Time{}
}

func (o *outage) lasts() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.began.IsZero() && time.Since(o.last) < outageTime && time.Since(o.began) < outageMost
}

package gate

import (
	"context"
	"sync"
	"time"

	"mneme/server/reply"
)

// room is the memory that bodies with contents take, for all requests together.
//
//  1. A body takes room as it comes, not for the length in its head, and gives all back at its end.
//  2. A caller has a quarter of it at most; one body, if it is the only one of its caller, may have more:
//     such bodies are outsized, and have half of the room together, so that they leave a quarter to the
//     large ones of others.
//  3. The last quarter is for small bodies, so that none of these waits for the large ones of others.
//  4. One that finds no room waits for up to roomTime in all, and is then refused: bodies that have come
//     in part must not wait for each other.
type room struct {
	most int64

	mu       sync.Mutex // guards the fields below; a leaf
	held     int64
	outsized int64 // of held
	byCaller map[string]int64
	freed    chan struct{} // closed when room is given back
}

var errNoRoom = reply.Unavailable("too many bodies of requests are held; try again")

// smallBody is how many bytes a body has that is small.
const smallBody = 1 << 20

// roomTime is how long a request waits for room.
const roomTime = 5 * time.Second

func newRoom(most int64) *room {
	return &room{most: most, byCaller: map[string]int64{}, freed: make(chan struct{})}
}

// hold is what a body has of the room.
type hold struct {
	room   *room
	caller string
	n      int64
	until  <-chan time.Time // nil: it has not waited
}

// grow takes room for n bytes more. Errors: errNoRoom, and that of ctx.
func (h *hold) grow(ctx context.Context, n int64) error {
	for {
		freed, ok := h.take(n)
		if ok {
			return nil
		}
		if h.until == nil {
			h.until = time.After(roomTime)
		}
		select {
		case <-freed:
		case <-h.until:
			return errNoRoom
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (h *hold) take(n int64) (freed <-chan struct{}, ok bool) {
	r := h.room
	r.mu.Lock()
	defer r.mu.Unlock()
	most, quarter := r.most, r.most/4
	if h.n+n > min(smallBody, quarter) {
		most -= quarter
	}
	n = min(n, 2*quarter-h.n) // one that is larger than half of the room takes that
	outsized := r.outsized - h.outsized()
	if h.n+n > quarter {
		outsized += h.n + n
	}
	others := r.byCaller[h.caller] - h.n
	if r.held+n > most || outsized > 2*quarter || others > 0 && others+h.n+n > quarter {
		return r.freed, false
	}
	h.n += n
	r.held += n
	r.outsized = outsized
	r.byCaller[h.caller] += n
	return nil, true
}

// outsized is what a body has if it has more than a quarter.
func (h *hold) outsized() int64 {
	if h.n > h.room.most/4 {
		return h.n
	}
	return 0
}

// release gives back what there is.
func (h *hold) release() {
	r := h.room
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= h.n
	r.outsized -= h.outsized()
	if r.byCaller[h.caller] -= h.n; r.byCaller[h.caller] == 0 {
		delete(r.byCaller, h.caller)
	}
	h.n = 0
	close(r.freed)
	r.freed = make(chan struct{})
}

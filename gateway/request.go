package gateway

import (
	"net/http"
	"time"
)

// request is one call of an operation.
type request struct {
	op     string
	body   []byte
	header http.Header
	began  time.Time     // of the call, or when the last whole item of an answer came
	earned time.Duration // see lasts
	// sent is the time in which bodies were taken at no less than uploadRate. Bytes that the
	// kernel takes at once for a server that has stopped add none.
	sent  time.Duration
	tries int
	// repeated says that an attempt before may have been heard.
	repeated bool
	// fresh says that this change was not requested before: if the server processed no attempt,
	// it was certainly not made.
	fresh   bool
	refused bool          // a credential was not accepted before
	secret  string        // with which it was sent the last time
	limit   time.Duration // instead of the client's; 0: that
	// patience is how long the server may be silent, instead of the limit of an attempt; 0: that.
	patience time.Duration
	// lasts says that the answer is long: an item may take a second more for each downloadRate
	// bytes that come of it.
	lasts bool
}

// left is how long the call may still take. It is the same for all attempts: only whole
// items restart it. The limit is that of the client.
func (r *request) left(limit time.Duration) time.Duration {
	if r.limit != 0 {
		limit = r.limit
	}
	return limit + r.sent + r.earned - time.Since(r.began)
}

// came notes a whole item of an answer.
func (r *request) came() { r.began, r.sent, r.earned, r.tries = time.Now(), 0, 0, 0 }

// failure is an attempt that failed and may be repeated.
type failure struct{ err error }

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// upload is how long n bytes of a request may take besides.
func upload(n int) time.Duration { return time.Duration(n) * (time.Second / uploadRate) }

// How many bytes of a request, and of an item of an answer that is long, may take a second more.
const (
	uploadRate   = 256 << 10
	downloadRate = 64 << 10
)

package awsconf

import (
	"cmp"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
)

// Requests counts requests and the bytes of their bodies by kind, as they are
// billed: every attempt that was sent counts, also one whose reply was lost. The
// zero value is ready for use; it is safe for concurrent use.
type Requests struct {
	mu     sync.Mutex
	counts map[string]*RequestCount // guarded by mu
}

// RequestCount is how often one kind of request was sent.
type RequestCount struct {
	// Kind is "s3 GET", "s3 PUT", "s3 HEAD", "s3 LIST", "s3 DELETE", or
	// "dynamodb " and the name of the operation.
	Kind  string
	Count uint64
	// Sent and Received are bytes of bodies, without heads.
	Sent, Received uint64
	// Took is how long it was until their replies began, or failed to come, all
	// together.
	Took time.Duration
}

// Snapshot returns the counts so far, sorted by kind.
func (r *Requests) Snapshot() []RequestCount {
	r.mu.Lock()
	defer r.mu.Unlock()
	var counts []RequestCount
	for _, c := range r.counts {
		counts = append(counts, *c)
	}
	slices.SortFunc(counts, func(a, b RequestCount) int { return cmp.Compare(a.Kind, b.Kind) })
	return counts
}

// add adds one's counts to those of its kind.
func (r *Requests) add(one RequestCount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.counts[one.Kind]
	if c == nil {
		if r.counts == nil {
			r.counts = make(map[string]*RequestCount)
		}
		c = &RequestCount{Kind: one.Kind}
		r.counts[one.Kind] = c
	}
	c.Count += one.Count
	c.Sent += one.Sent
	c.Received += one.Received
	c.Took += one.Took
}

// counter is an http.RoundTripper that counts what passes.
type counter struct {
	requests *Requests
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper. A request that could not be written,
// as when no server listens, is not counted.
func (c *counter) RoundTrip(req *http.Request) (*http.Response, error) {
	var written atomic.Bool
	trace := &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
		if info.Err == nil {
			written.Store(true)
		}
	}}
	kind, start := kindOf(req), time.Now()
	resp, err := c.next.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	if err == nil || written.Load() {
		c.requests.add(RequestCount{Kind: kind, Count: 1, Sent: uint64(max(req.ContentLength, 0)), Took: time.Since(start)})
	}
	if err == nil {
		resp.Body = &countedBody{ReadCloser: resp.Body, requests: c.requests, kind: kind}
	}
	return resp, err
}

// CloseIdleConnections does so in the transport below.
func (c *counter) CloseIdleConnections() {
	if next, ok := c.next.(interface{ CloseIdleConnections() }); ok {
		next.CloseIdleConnections()
	}
}

// kindOf names a request of the SDK, which tells in its context what it is for.
func kindOf(req *http.Request) string {
	service := awsmiddleware.GetServiceID(req.Context())
	operation := awsmiddleware.GetOperationName(req.Context())
	if service != "S3" {
		return strings.ToLower(service) + " " + operation
	}
	if strings.HasPrefix(operation, "List") {
		return "s3 LIST"
	}
	if req.Method == http.MethodPost && strings.HasPrefix(operation, "Delete") {
		return "s3 DELETE"
	}
	return "s3 " + req.Method
}

// countedBody counts a reply's bytes as they are read. One goroutine reads a
// body.
type countedBody struct {
	io.ReadCloser
	requests *Requests
	kind     string
	read     uint64
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read += uint64(n)
	if err != nil {
		b.flush()
	}
	return n, err
}

func (b *countedBody) Close() error {
	b.flush()
	return b.ReadCloser.Close()
}

func (b *countedBody) flush() {
	if b.read > 0 {
		b.requests.add(RequestCount{Kind: b.kind, Received: b.read})
		b.read = 0
	}
}

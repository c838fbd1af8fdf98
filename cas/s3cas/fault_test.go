package s3cas_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mneme/cas"
	"mneme/cas/s3cas"
	"mneme/internal/testing/awstest"
	"mneme/internal/testing/fault"
)

// operation is one call of a store that has "stored" in it.
type operation struct {
	name string
	call func(context.Context, *s3cas.Store) error
}

var (
	stored  = []byte("stored")
	written = []byte("written")
)

// operations are all calls that send requests, each with a check of its result.
func operations() []operation {
	return []operation{
		{"put", func(ctx context.Context, s *s3cas.Store) error {
			d, err := s.Put(ctx, written)
			if err == nil && d != cas.Sum(written) {
				return errors.New("put returned another digest")
			}
			return err
		}},
		{"put again", func(ctx context.Context, s *s3cas.Store) error { _, err := s.Put(ctx, stored); return err }},
		{"get", func(ctx context.Context, s *s3cas.Store) error {
			data, err := s.Get(ctx, cas.Sum(stored))
			if err == nil && string(data) != string(stored) || err != nil && data != nil {
				panic("wrong bytes")
			}
			return err
		}},
		{"has", func(ctx context.Context, s *s3cas.Store) error {
			has, err := s.Has(ctx, cas.Sum(stored))
			if err == nil && !has {
				return errors.New("has says no")
			}
			return err
		}},
		{"list", func(ctx context.Context, s *s3cas.Store) error {
			n := 0
			for d, err := range s.List(ctx) {
				if err != nil {
					return err
				}
				if d == cas.Sum(stored) {
					n++
				}
			}
			if n != 1 {
				return errors.New("list misses a blob")
			}
			return nil
		}},
		{"delete", func(ctx context.Context, s *s3cas.Store) error { return s.Delete(ctx, cas.Sum(written)) }},
	}
}

// faulty returns a store with "stored" in it, its transport without faults yet,
// and the same store as another process sees it.
func faulty(t *testing.T, bucket string) (s *s3cas.Store, transport *fault.Transport, other *s3cas.Store) {
	t.Helper()
	transport = fault.New(nil)
	prefix := newPrefix()
	s = s3cas.Open(awstest.Clients(t, transport).S3, bucket, prefix)
	other = s3cas.Open(awstest.Clients(t, nil).S3, bucket, prefix)
	if _, err := other.Put(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	return s, transport, other
}

// TestTransientFaults fails every request of every call once, in every way that
// a repetition cures, and sees the call succeed. Each call site is hit.
func TestTransientFaults(t *testing.T) {
	bucket := awstest.Bucket(t)
	faults := map[string]fault.Action{
		"before": fault.FailBefore, "after": fault.FailAfter, "late": fault.Delay(time.Millisecond),
		"cut": fault.CutBody, "503": fault.SlowDown, "500": fault.InternalServerError, "409": fault.ConditionalRequestConflict,
	}
	sites := make(map[string]bool)
	for _, op := range operations() {
		actions := maps.Clone(faults)
		if op.name == "get" || op.name == "put again" { // these read a blob
			actions["wrong bytes"] = fault.WrongBytes
		}
		if op.name == "put" {
			actions["wrong bytes sent"] = fault.WrongBytesSent
		}
		for name, action := range actions {
			t.Run(op.name+"/"+name, func(t *testing.T) {
				s, transport, other := faulty(t, bucket)
				if err := op.call(t.Context(), s); err != nil { // how many requests it sends
					t.Fatal(err)
				}
				for i := range transport.Total() {
					if err := other.Delete(t.Context(), cas.Sum(written)); err != nil {
						t.Fatal(err)
					}
					transport.Reset()
					armed := transport.Arm(fault.Fault{From: i + 1, Times: 1, Action: action})
					if err := op.call(t.Context(), s); err != nil {
						t.Errorf("request %d failed once, and the call fails: %v", i+1, err)
					}
					if armed.Hits() != 1 {
						t.Errorf("request %d was not hit", i+1)
					}
					armed.Disarm()
					for site := range transport.Calls() {
						sites[site] = true
					}
				}
				if _, err := other.Get(t.Context(), cas.Sum(stored)); err != nil {
					t.Errorf("afterwards: %v", err)
				}
			})
		}
	}
	want := map[string]bool{"s3 PUT blobs": true, "s3 GET blobs": true, "s3 LIST blobs": true, "s3 DELETE blobs": true}
	if diff := cmp.Diff(want, sites); diff != "" {
		t.Errorf("call sites (-want +got):\n%s", diff)
	}
}

// TestLastingFaults checks the errors of requests that keep failing, and that a Get never
// returns wrong bytes.
func TestLastingFaults(t *testing.T) {
	bucket := awstest.Bucket(t)
	tests := []struct {
		name   string
		action fault.Action
		only   string // operation; "" is all
		want   error  // nil is any
		text   string
	}{
		{"connection lost", fault.FailBefore, "", syscall.ECONNRESET, "cannot be reached"},
		{"reply lost", fault.FailAfter, "get", syscall.ECONNRESET, "cannot be reached"},
		{"throttled", fault.SlowDown, "", nil, "fewer requests"},
		{"cut", fault.CutBody, "get", io.ErrUnexpectedEOF, "the transfer broke off"},
		{"wrong bytes", fault.WrongBytes, "get", cas.ErrCorrupt, ""},
		{"denied", fault.Answer(403, "AccessDenied"), "", nil, "access denied"},
		{"no bucket", fault.Answer(404, "NoSuchBucket"), "", nil, "correct its name"},
	}
	for _, test := range tests {
		for _, op := range operations() {
			if test.only != "" && test.only != op.name {
				continue
			}
			t.Run(test.name+"/"+op.name, func(t *testing.T) {
				t.Parallel() // most of the time they pause between attempts
				s, transport, _ := faulty(t, bucket)
				transport.Arm(fault.Fault{Action: test.action})
				err := op.call(t.Context(), s)
				if err == nil || test.want != nil && !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
					t.Errorf("error %v, want %v and %q", err, test.want, test.text)
				}
				if errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrCorrupt) && test.want != cas.ErrCorrupt {
					t.Errorf("trouble of the network passes for a lost blob: %v", err)
				}
				if n := transport.Total(); n > 5 {
					t.Errorf("%d requests, want at most five", n)
				}
			})
		}
	}
}

// TestDamagedOnTheWay checks that what changes between here and the server
// never becomes a blob.
func TestDamagedOnTheWay(t *testing.T) {
	s, transport, other := faulty(t, awstest.Bucket(t))
	transport.Arm(fault.Fault{Site: "s3 PUT blobs", Action: fault.WrongBytesSent})
	if _, err := s.Put(t.Context(), written); err == nil {
		t.Error("put succeeded")
	}
	if has, err := other.Has(t.Context(), cas.Sum(written)); has || err != nil {
		t.Errorf("afterwards something is there: %v, %v", has, err)
	}
}

// TestPutsAreConditional holds that no PUT but one over damaged bytes could
// replace an object, and that credentials which may not do that get told.
func TestPutsAreConditional(t *testing.T) {
	bucket := awstest.Bucket(t)
	refuse := func(req *http.Request, _ []byte, send func() (*http.Response, error)) (*http.Response, error) {
		if req.Method == http.MethodPut && req.Header.Get("If-None-Match") != "*" {
			return fault.Answer(http.StatusForbidden, "AccessDenied")(req, nil, send)
		}
		return send()
	}
	t.Run("conflicts without end", func(t *testing.T) {
		s, transport, other := faulty(t, bucket)
		transport.Arm(fault.Fault{Site: "s3 PUT blobs", Times: 5, Action: fault.ConditionalRequestConflict})
		transport.Arm(fault.Fault{Action: refuse})
		if _, err := s.Put(t.Context(), written); err != nil {
			t.Error(err)
		}
		if _, err := other.Get(t.Context(), cas.Sum(written)); err != nil {
			t.Error(err)
		}
	})
	t.Run("damaged", func(t *testing.T) {
		clients, prefix := awstest.Clients(t, nil), newPrefix()
		transport := fault.New(nil)
		s := s3cas.Open(awstest.Clients(t, transport).S3, bucket, prefix)
		overwrite(t, clients, bucket, prefix, cas.Sum(written), "damaged")
		transport.Arm(fault.Fault{Action: refuse})
		_, err := s.Put(t.Context(), written)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "the stored bytes, which are damaged") {
			t.Errorf("error %v, want one that says that the damaged bytes may not be replaced", err)
		}
	})
}

// TestMissingBucket checks that a wrong name is not taken for an empty store.
func TestMissingBucket(t *testing.T) {
	s := s3cas.Open(awstest.Clients(t, nil).S3, "no-such-bucket", "stores/x")
	for _, op := range operations() {
		err := op.call(t.Context(), s)
		if err == nil || errors.Is(err, cas.ErrNotFound) || !strings.Contains(err.Error(), "the bucket does not exist") {
			t.Errorf("%s: error %v, want one that says that the bucket does not exist", op.name, err)
		}
	}
}

// TestCancelledUnderway ends the context while a request is at the server.
func TestCancelledUnderway(t *testing.T) {
	bucket := awstest.Bucket(t)
	for _, op := range operations() {
		s, transport, _ := faulty(t, bucket)
		ctx, cancel := context.WithCancel(t.Context())
		transport.Arm(fault.Fault{Action: fault.Delay(time.Hour)})
		result := make(chan error)
		go func() { result <- op.call(ctx, s) }()
		for transport.Total() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", op.name, err)
		}
	}
}

// TestStalled ends the context while a blob is on its way and no more of it
// comes.
func TestStalled(t *testing.T) {
	s, transport, _ := faulty(t, awstest.Bucket(t))
	transport.Arm(fault.Fault{Action: fault.StallBody})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Get(ctx, cas.Sum(stored))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cas.ErrCorrupt) {
		t.Errorf("error %v", err)
	}
}

// TestEveryRequest checks what all requests have in common: they end by
// themselves within 12 s; and what uploads have: the server can verify the
// bytes, and never replaces a good blob.
func TestEveryRequest(t *testing.T) {
	bucket := awstest.Bucket(t)
	for _, op := range operations() {
		s, transport, _ := faulty(t, bucket)
		transport.Arm(fault.Fault{Action: func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
			deadline, ok := req.Context().Deadline()
			if left := time.Until(deadline); !ok || left > 12*time.Second {
				t.Errorf("%s: %s %s may take %v", op.name, req.Method, req.URL, left)
			}
			if req.Method == http.MethodPut {
				sum := sha256.Sum256(body)
				if got, want := req.Header.Get("X-Amz-Checksum-Sha256"), base64.StdEncoding.EncodeToString(sum[:]); got != want {
					t.Errorf("%s: checksum %q, want %q", op.name, got, want)
				}
				if condition := req.Header.Get("If-None-Match"); condition != "*" {
					t.Errorf("%s: If-None-Match is %q, want *", op.name, condition)
				}
			}
			return send()
		}})
		if err := op.call(t.Context(), s); err != nil {
			t.Errorf("%s: %v", op.name, err)
		}
	}
}

// TestNoGoroutineStays runs everything, with and without faults, and counts.
func TestNoGoroutineStays(t *testing.T) {
	bucket := awstest.Bucket(t)
	s, transport, _ := faulty(t, bucket)
	transport.CloseIdleConnections()
	before := runtime.NumGoroutine()
	for _, action := range []fault.Action{nil, fault.FailAfter, fault.CutBody, fault.WrongBytes} {
		transport.Disarm()
		if action != nil {
			transport.Arm(fault.Fault{Times: 1, Action: action})
		}
		for _, op := range operations() {
			if err := op.call(t.Context(), s); err != nil {
				t.Errorf("%s: %v", op.name, err)
			}
		}
	}
	var left int
	for range 1000 {
		transport.CloseIdleConnections()
		if left = runtime.NumGoroutine(); left <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<20)
	t.Errorf("%d goroutines, %d before:\n%s", left, before, stacks[:runtime.Stack(stacks, true)])
}

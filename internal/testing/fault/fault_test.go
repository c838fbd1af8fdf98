package fault_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"mneme/internal/testing/fault"
)

// server answers every request with the body it got and counts them.
func server(t *testing.T) (string, *atomic.Int64) {
	t.Helper()
	var handled atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handled.Add(1)
		_, _ = io.Copy(w, r.Body)
	}))
	t.Cleanup(s.Close)
	return s.URL, &handled
}

func request(t *testing.T, url, target string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/bucket/stores/s/blobs/00/x", strings.NewReader(`{"TransactItems":[1,2]}`))
	if err != nil {
		t.Fatal(err)
	}
	if target != "" {
		req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+target)
	}
	return req
}

func TestSite(t *testing.T) {
	tests := []struct{ method, target, url, want string }{
		{"PUT", "", "/bucket/stores/memstore_1/blobs/ab/abcd", "s3 PUT blobs"},
		{"GET", "", "/bucket/stores/memstore_1/log/00000000000000000001", "s3 GET log"},
		{"PUT", "", "/bucket/stores/memstore_1/store.json", "s3 PUT store.json"},
		{"GET", "", "/stores/memstore_1/blobs/ab/abcd", "s3 GET blobs"},
		{"GET", "", "/bucket?list-type=2&prefix=stores%2Fmemstore_1%2Fblobs%2F", "s3 LIST blobs"},
		{"GET", "", "/bucket?list-type=2", "s3 LIST bucket"},
		{"POST", "", "/bucket?delete", "s3 DELETE other"},
		{"HEAD", "", "/bucket/", "s3 HEAD bucket"},
		{"GET", "", "/bucket/something/else", "s3 GET other"},
		{"POST", "TransactWriteItems", "/", "dynamodb TransactWriteItems"},
	}
	for _, test := range tests {
		req := httptest.NewRequest(test.method, test.url, nil)
		if test.target != "" {
			req.Header.Set("X-Amz-Target", "DynamoDB_20120810."+test.target)
		}
		if got := fault.Site(req); got != test.want {
			t.Errorf("%s %s is %q, want %q", test.method, test.url, got, test.want)
		}
	}
}

func TestWhichAreHit(t *testing.T) {
	url, handled := server(t)
	transport := fault.New(nil)
	armed := transport.Arm(fault.Fault{Site: "s3 PUT *", From: 2, Times: 2, Action: fault.FailBefore})
	transport.Arm(fault.Fault{Site: "s3 GET *", Action: fault.FailBefore})
	var got []bool
	for range 5 {
		resp, err := transport.RoundTrip(request(t, url, ""))
		if err == nil {
			resp.Body.Close()
		}
		got = append(got, err == nil)
	}
	if diff := cmp.Diff([]bool{true, false, false, true, true}, got); diff != "" {
		t.Errorf("which got through (-want +got):\n%s", diff)
	}
	if armed.Hits() != 2 || handled.Load() != 3 {
		t.Errorf("%d hits, %d handled, want 2 and 3", armed.Hits(), handled.Load())
	}
	if diff := cmp.Diff(map[string]int{"s3 PUT blobs": 5}, transport.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	transport.Arm(fault.Fault{Action: fault.FailBefore})
	transport.Disarm()
	resp, err := transport.RoundTrip(request(t, url, ""))
	if err != nil {
		t.Fatalf("after Disarm: %v", err)
	}
	resp.Body.Close()
}

func TestActions(t *testing.T) {
	const sent = `{"TransactItems":[1,2]}`
	tests := []struct {
		name    string
		action  fault.Action
		target  string
		handled int64
		status  int
		body    string
		err     error
	}{
		{"before", fault.FailBefore, "", 0, 0, "", syscall.ECONNRESET},
		{"after", fault.FailAfter, "", 1, 0, "", syscall.ECONNRESET},
		{"late", fault.Delay(time.Millisecond), "", 1, 200, sent, nil},
		{"cut", fault.CutBody, "", 1, 200, sent[:len(sent)/2], io.ErrUnexpectedEOF},
		{"wrong bytes", fault.WrongBytes, "", 1, 200, `{"TransactIuems":[1,2]}`, nil},
		{"wrong bytes sent", fault.WrongBytesSent, "", 1, 200, `{"TransactIuems":[1,2]}`, nil},
		{
			"slow down", fault.SlowDown, "", 0, 503,
			"<Error><Code>SlowDown</Code><Message>made by a test</Message><RequestId>fault</RequestId></Error>", nil,
		},
		{
			"conflict of transactions", fault.TransactionConflict, "TransactWriteItems", 0, 400,
			`{"CancellationReasons":[{"Code":"TransactionConflict","Message":"Transaction is ongoing for the item"},{"Code":"None"}],` +
				`"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException","message":"made by a test"}`, nil,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			url, handled := server(t)
			transport := fault.New(nil)
			transport.Arm(fault.Fault{Action: test.action})
			resp, err := transport.RoundTrip(request(t, url, test.target))
			status, body := 0, []byte(nil)
			if err == nil {
				status = resp.StatusCode
				body, err = io.ReadAll(resp.Body)
				resp.Body.Close()
			}
			if status != test.status || string(body) != test.body || !errors.Is(err, test.err) {
				t.Errorf("status %d, body %s, error %v, want %d, %s, %v", status, body, err, test.status, test.body, test.err)
			}
			if handled.Load() != test.handled {
				t.Errorf("the server handled %d, want %d", handled.Load(), test.handled)
			}
		})
	}
}

func TestDelayEndsWithTheContext(t *testing.T) {
	url, handled := server(t)
	transport := fault.New(nil)
	transport.SetDelay(time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := transport.RoundTrip(request(t, url, "").WithContext(ctx)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if handled.Load() != 0 {
		t.Error("it was sent")
	}
}

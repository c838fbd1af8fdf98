package awsconf_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"mneme/internal/awsconf"
)

func put(t *testing.T, clients *awsconf.Clients, size int) error {
	t.Helper()
	ctx, cancel := awsconf.WithTimeout(t.Context())
	defer cancel()
	_, err := clients.S3.PutObject(ctx, &s3.PutObjectInput{
		Bucket: aws.String("bucket"), Key: aws.String("a/key"), Body: strings.NewReader(strings.Repeat("x", size)),
	})
	return err
}

// TestAttemptsAreBounded holds how long one attempt waits for a server that says
// nothing: time enough for others within the limit of the call.
func TestAttemptsAreBounded(t *testing.T) {
	for _, test := range []struct {
		name     string
		call     func(*testing.T, *awsconf.Clients) error
		want     time.Duration
		attempts int // at least
	}{
		{"DynamoDB", getItem, 2 * time.Second, 5},
		{"S3 GET", get, 4 * time.Second, 2},
		{"S3 PUT, small", func(t *testing.T, c *awsconf.Clients) error { return put(t, c, 0) }, 4 * time.Second, 2},
		{"S3 PUT, 512 KiB", func(t *testing.T, c *awsconf.Clients) error { return put(t, c, 512<<10) }, 6 * time.Second, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			isolate(t, withCredentials("")...)
			synctest.Test(t, func(t *testing.T) {
				var waited []time.Duration
				clients := load(t, &awsconf.Options{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
					began := time.Now()
					<-req.Context().Done()
					waited = append(waited, time.Since(began).Truncate(100*time.Millisecond))
					return nil, req.Context().Err()
				})})
				err := awsconf.Explain(test.call(t, clients))
				if err == nil || !strings.Contains(err.Error(), "did not answer in time") {
					t.Errorf("error %v", err)
				}
				if len(waited) < test.attempts || waited[0] != test.want {
					t.Errorf("the attempts waited %v, want %d of %v", waited, test.attempts, test.want)
				}
			})
		})
	}
}

// TestStalledBody holds that a body which stalls is fetched again, and that one
// which goes on coming is not given up.
func TestStalledBody(t *testing.T) {
	isolate(t, withCredentials("")...)
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		clients := load(t, &awsconf.Options{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			requests++
			pauses := []time.Duration{1500 * time.Millisecond, 1500 * time.Millisecond, 1500 * time.Millisecond}
			if requests == 1 {
				pauses[1] = time.Hour
			}
			body := &slowBody{req: req, parts: []string{"{", `"Item":`, "{}}"}, pauses: pauses}
			return &http.Response{StatusCode: 200, Body: body, Header: http.Header{}}, nil
		})})
		if err := getItem(t, clients); err != nil || requests != 2 {
			t.Errorf("%v after %d requests, want none after 2", err, requests)
		}
	})
}

// slowBody is a body whose parts come after pauses.
type slowBody struct {
	req    *http.Request
	parts  []string
	pauses []time.Duration
}

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.parts) == 0 {
		return 0, io.EOF
	}
	select {
	case <-time.After(b.pauses[0]):
	case <-b.req.Context().Done():
		return 0, b.req.Context().Err()
	}
	n := copy(p, b.parts[0])
	b.parts, b.pauses = b.parts[1:], b.pauses[1:]
	return n, nil
}

func (b *slowBody) Close() error { return nil }

// TestDeadConnections holds that a call succeeds whose connections were all
// forgotten on the way, however many idle.
func TestDeadConnections(t *testing.T) {
	const connections = 8 // more than there are attempts
	var mu sync.Mutex
	known, dead := map[string]bool{}, false
	together := make(chan struct{}) // closed when there are so many
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		forgotten, warming := dead && known[r.RemoteAddr], !dead
		if warming && !known[r.RemoteAddr] && len(known) == connections-1 {
			close(together)
		}
		known[r.RemoteAddr] = true
		mu.Unlock()
		if forgotten {
			<-r.Context().Done()
			return
		}
		if warming { // so that each has a connection
			select {
			case <-together:
			case <-r.Context().Done(): // one that is slow is tried again, on another connection
			}
		}
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	isolate(t, withCredentials(server.URL)...)
	clients, err := awsconf.LoadFrom(t.Context(), nil, &awsconf.Fixed{FirstPause: time.Millisecond, Attempt: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer clients.CloseIdleConnections()
	var warm sync.WaitGroup
	for range connections {
		warm.Go(func() {
			if err := getItem(t, clients); err != nil {
				t.Error(err)
			}
		})
	}
	warm.Wait()
	mu.Lock()
	dead = true
	mu.Unlock()
	if err := getItem(t, clients); err != nil {
		t.Error(err)
	}
}

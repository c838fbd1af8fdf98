package awsconf_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"mneme/internal/awsconf"
)

// expiring is a server that takes one session token only. It returns its URL and
// how many requests it got.
func expiring(t *testing.T, good string) (string, *atomic.Int64) {
	t.Helper()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		requests.Add(1)
		a := answer{status: 200, body: "{}"}
		if r.Header.Get("X-Amz-Security-Token") != good {
			a = s3Error(400, "ExpiredToken")
			if r.Header.Get("X-Amz-Target") != "" {
				a = dynamoError(400, "ExpiredTokenException", "no")
			}
		}
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(server.Close)
	return server.URL, &requests
}

// keep writes a credentials file.
func keep(t *testing.T, file, token string) {
	t.Helper()
	text := fmt.Sprintf("[default]\naws_access_key_id = AKIDTEST\naws_secret_access_key = %s\naws_session_token = %s\n", secret, token)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRenewedCredentials holds that a call whose session token has expired is
// made with the one that is now in the file.
func TestRenewedCredentials(t *testing.T) {
	for name, call := range map[string]func(*testing.T, *awsconf.Clients) error{"S3": get, "DynamoDB": getItem} {
		t.Run(name, func(t *testing.T) {
			url, requests := expiring(t, "new")
			file := filepath.Join(t.TempDir(), "credentials")
			isolate(t, "AWS_REGION=us-east-1", "AWS_ENDPOINT_URL="+url, "AWS_SHARED_CREDENTIALS_FILE="+file)
			keep(t, file, "old")
			clients := load(t, nil)
			keep(t, file, "new")
			var all sync.WaitGroup
			for range 8 { // at once
				all.Go(func() {
					if err := call(t, clients); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			requests.Store(0)
			if err := call(t, clients); err != nil || requests.Load() != 1 {
				t.Errorf("afterwards: %v, %d requests, want 1", err, requests.Load())
			}
		})
	}
}

// TestExpiredForGood holds that credentials which are still the same are not
// tried again.
func TestExpiredForGood(t *testing.T) {
	url, requests := expiring(t, "new")
	file := filepath.Join(t.TempDir(), "credentials")
	for _, vars := range [][]string{
		{"AWS_SHARED_CREDENTIALS_FILE=" + file},
		{"AWS_ACCESS_KEY_ID=AKIDTEST", "AWS_SECRET_ACCESS_KEY=" + secret, "AWS_SESSION_TOKEN=old"},
	} {
		isolate(t, append(vars, "AWS_REGION=us-east-1", "AWS_ENDPOINT_URL="+url)...)
		keep(t, file, "old")
		clients := load(t, nil)
		if vars[0] == "AWS_SHARED_CREDENTIALS_FILE="+file {
			if err := os.Remove(file); err != nil { // which leaves the old ones
				t.Fatal(err)
			}
		}
		for range 2 { // the second time within the pause between readings
			requests.Store(0)
			err := awsconf.Explain(get(t, clients))
			if err == nil || !strings.Contains(err.Error(), "have expired") || requests.Load() != 1 {
				t.Errorf("error %v after %d requests, want that they have expired, after 1", err, requests.Load())
			}
		}
	}
}

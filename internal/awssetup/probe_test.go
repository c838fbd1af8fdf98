package awssetup_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"mneme/internal/awsconf"
	"mneme/internal/awssetup"
	"mneme/internal/testing/awstest"
)

// probed returns what Probe reports, by what it is about.
func probed(t *testing.T, clients *awsconf.Clients, bucket, table string) map[string]awssetup.Probed {
	t.Helper()
	all := map[string]awssetup.Probed{}
	awssetup.Probe(t.Context(), clients, bucket, table, func(p awssetup.Probed) { all[p.What] = p })
	return all
}

// TestProbe holds that real servers pass, time after time, and that nothing stays behind.
func TestProbe(t *testing.T) {
	clients, bucket, table := awstest.Clients(t, nil), awstest.Bucket(t), awstest.Table(t)
	for range 2 {
		all := probed(t, clients, bucket, table)
		for _, what := range []string{"S3 conditional writes", "S3 reads", "clock", "DynamoDB conditional writes", "DynamoDB reads"} {
			if p, tried := all[what]; !tried || p.Err != nil {
				t.Errorf("%s: tried %v, %v", what, tried, p.Err)
			}
		}
		if note := all["S3 reads"].Note; !strings.HasPrefix(note, "p50 ") {
			t.Errorf("the note is %q", note)
		}
	}
}

// badServer is S3 and DynamoDB that take every write, or deny it, by a clock of their own.
type badServer struct {
	skew   time.Duration
	denies bool
}

func (s badServer) RoundTrip(req *http.Request) (*http.Response, error) {
	body, status := "", 200
	if req.Header.Get("X-Amz-Target") != "" {
		body = "{}"
	}
	if s.denies && req.Method == http.MethodPut {
		body, status = `<Error><Code>AccessDenied</Code></Error>`, 403
	}
	response, err := reply(req, status, body)
	response.Header.Set("Date", time.Now().Add(s.skew).UTC().Format(http.TimeFormat))
	return response, err
}

// TestProbeFindings holds that a server which writes over what is there is found, and so are a
// clock that is far off, and that a caller who may not write has not found anything.
func TestProbeFindings(t *testing.T) {
	clients := func(s badServer) *awsconf.Clients {
		return awstest.ClientsFor(t, &awsconf.Options{Transport: s}, "", "")
	}
	all := probed(t, clients(badServer{skew: -time.Hour}), "bucket", "t")
	for _, what := range []string{"S3 conditional writes", "DynamoDB conditional writes"} {
		if err := all[what].Err; err == nil || !strings.Contains(err.Error(), "writes over what is there") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := all["clock"].Err; err == nil || !strings.Contains(err.Error(), "it is 1h0m") {
		t.Errorf("the clock: %v", err)
	}
	all = probed(t, clients(badServer{denies: true}), "bucket", "t")
	if err := all["S3 conditional writes"].Err; !errors.Is(err, awsconf.ErrNotAllowed) {
		t.Errorf("a caller who may not write: %v", err)
	}
	if err := all["clock"].Err; err != nil {
		t.Errorf("the clock: %v", err)
	}
}

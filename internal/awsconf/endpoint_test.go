package awsconf_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"mneme/internal/awsconf"
)

// TestRedirects holds that no redirect is followed: the session token reaches
// no second host, and the error names both.
func TestRedirects(t *testing.T) {
	for _, test := range []struct {
		status   int
		location func(other string) string
		want     func(from, to string) string
	}{
		{307, func(other string) string { return other + "/bucket/a/key" }, both},
		{308, func(other string) string { return other + "/" }, both},
		{301, func(other string) string { return other + "/" }, both},
		{302, func(other string) string { return other + "/" }, both},
		{303, func(other string) string { return other + "/" }, both},
		{307, func(string) string { return "/elsewhere" }, func(from, _ string) string { return from + " redirects to another path of its own" }},
	} {
		other, leaked := serve(t, answer{status: 200, body: "{}"})
		from, got := serve(t, answer{status: test.status, header: map[string]string{"Location": test.location(other)}})
		isolate(t, withCredentials(from)...)
		for name, call := range map[string]func(*testing.T, *awsconf.Clients) error{"S3": get, "DynamoDB": getItem} {
			*got = nil
			err := awsconf.Explain(call(t, load(t, nil)))
			want := test.want(hostOf(t, from), hostOf(t, other))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %d to %s: error %v, want %q", name, test.status, test.location(other), err, want)
			}
			if len(*leaked) > 0 {
				t.Errorf("%s, %d to %s: the other host got a request with the token %q", name, test.status, test.location(other), (*leaked)[0].Header.Get("X-Amz-Security-Token"))
			}
			if len(*got) != 1 {
				t.Errorf("%s, %d to %s: %d requests, want 1", name, test.status, test.location(other), len(*got))
			}
		}
	}
}

func both(from, to string) string { return from + ` redirects to "` + to + `"` }

func hostOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// TestPlainHTTP holds that nothing is sent in plain text to another machine
// unless that is allowed.
func TestPlainHTTP(t *testing.T) {
	for _, test := range []struct {
		endpoint string
		refused  bool
	}{
		{"http://s3.example.org", true},
		{"HTTP://s3.example.org:9000", true},
		{"http://10.0.0.7:4566", true},
		{"http://localhost.example.org", true},
		{"http://169.254.0.1", true},
		{"https://s3.example.org", false},
		{"http://localhost:4566", false},
		{"http://s3.localhost:4566", false},
		{"http://127.0.0.1:4566", false},
		{"http://127.8.8.8", false},
		{"http://[::1]:4566", false},
	} {
		for _, variable := range []string{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL"} {
			isolate(t, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=AKIDTEST", "AWS_SECRET_ACCESS_KEY="+secret, variable+"="+test.endpoint)
			sent := 0
			transport := roundTripper(func(*http.Request) (*http.Response, error) {
				sent++
				return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, nil
			})
			_, err := awsconf.Load(t.Context(), &awsconf.Options{Transport: transport})
			if errors.Is(err, awsconf.ErrPlainHTTP) != test.refused || err != nil != test.refused {
				t.Errorf("%s=%s: error %v, refused should be %v", variable, test.endpoint, err, test.refused)
			}
			if test.refused && !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(test.endpoint)) {
				t.Errorf("%s=%s: the error does not name the endpoint: %v", variable, test.endpoint, err)
			}
			if _, err := awsconf.Load(t.Context(), &awsconf.Options{Transport: transport, PlainHTTP: true}); err != nil {
				t.Errorf("%s=%s, allowed: %v", variable, test.endpoint, err)
			}
			if sent > 0 {
				t.Errorf("%s=%s: %d requests were sent", variable, test.endpoint, sent)
			}
		}
	}
}

package awsconf_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mneme/internal/awsconf"
)

const callerARN = "arn:aws:sts::123456789012:assumed-role/agents/i-0abc"

// identityReply is what STS answers (API reference, GetCallerIdentity).
func identityReply(arn string) answer {
	return answer{status: 200, header: map[string]string{"Content-Type": "text/xml"}, body: fmt.Sprintf(
		`<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>%s</Arn>`+
			`<UserId>AROA:i-0abc</UserId><Account>123456789012</Account></GetCallerIdentityResult>`+
			`<ResponseMetadata><RequestId>01234567-89ab-cdef-0123-456789abcdef</RequestId></ResponseMetadata></GetCallerIdentityResponse>`, arn)}
}

// TestCaller holds where the question goes: to STS's own endpoint, or the one of all
// services, and nowhere when only S3 and DynamoDB have one.
func TestCaller(t *testing.T) {
	url, got := serve(t, identityReply(callerARN))
	own, _, _ := strings.Cut(strings.Join(withCredentials(url), "\n"), "\nAWS_ENDPOINT")
	for _, test := range []struct {
		name string
		vars []string
		want error // nil: the ARN
	}{
		{"its own endpoint", append(withCredentials("http://127.0.0.1:1"), "AWS_ENDPOINT_URL_STS="+url), nil},
		{"the endpoint of all", append(strings.Split(own, "\n"), "AWS_ENDPOINT_URL="+url), nil},
		{"others have endpoints", withCredentials(url), awsconf.ErrNoSTS},
		{"S3 has one", append(strings.Split(own, "\n"), "AWS_ENDPOINT_URL_S3="+url), awsconf.ErrNoSTS},
		{"plain HTTP elsewhere", append(withCredentials(url), "AWS_ENDPOINT_URL_STS=http://sts.example.org"), awsconf.ErrPlainHTTP},
	} {
		t.Run(test.name, func(t *testing.T) {
			isolate(t, test.vars...)
			*got = nil
			arn, err := load(t, nil).Caller(t.Context())
			if !errors.Is(err, test.want) || (arn == callerARN) != (test.want == nil) || len(*got) > 0 != (test.want == nil) {
				t.Errorf("%q, %v, %d requests", arn, err, len(*got))
			}
		})
	}
}

// TestCallerIsAskedOnce: a denial, and a reply that is too long, are errors, and nothing
// is tried again.
func TestCallerIsAskedOnce(t *testing.T) {
	for _, reply := range []answer{
		{status: 403, body: `<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>`},
		{status: 500},
		identityReply(strings.Repeat("x", 1<<20)),
	} {
		url, got := serve(t, reply)
		isolate(t, append(withCredentials(url), "AWS_ENDPOINT_URL_STS="+url)...)
		if arn, err := load(t, nil).Caller(t.Context()); err == nil || arn != "" || len(*got) != 1 {
			t.Errorf("%.50q: %.50q, %v, %d requests", reply.body, arn, err, len(*got))
		}
	}
}

// TestCallerIsNotWaitedFor: 2 s, whatever the server does.
func TestCallerIsNotWaitedFor(t *testing.T) {
	isolate(t, append(withCredentials("http://127.0.0.1:1"), "AWS_ENDPOINT_URL_STS=http://127.0.0.1:1")...)
	synctest.Test(t, func(t *testing.T) {
		clients := load(t, &awsconf.Options{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})})
		began := time.Now()
		if _, err := clients.Caller(t.Context()); err == nil || time.Since(began) != 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

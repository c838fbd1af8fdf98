package awsconf_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"

	"mneme/internal/awsconf"
)

const secret = "canary-of-a-secret"

// isolate gives the test an environment of its own: nothing of the person's own
// configuration is in it.
func isolate(t *testing.T, vars ...string) {
	t.Helper()
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "") // restores it at the end
			os.Unsetenv(name)
		}
	}
	for _, proxy := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"} {
		t.Setenv(proxy, "")
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, entry := range vars {
		name, value, _ := strings.Cut(entry, "=")
		t.Setenv(name, value)
	}
}

func withCredentials(endpoint string) []string {
	return []string{
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=AKIDTEST", "AWS_SECRET_ACCESS_KEY=" + secret, "AWS_SESSION_TOKEN=" + secret,
		"AWS_ENDPOINT_URL_S3=" + endpoint, "AWS_ENDPOINT_URL_DYNAMODB=" + endpoint,
	}
}

func load(t *testing.T, opts *awsconf.Options) *awsconf.Clients {
	t.Helper()
	clients, err := awsconf.LoadFrom(t.Context(), opts, &awsconf.Fixed{FirstPause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// answer is what a server of a test says.
type answer struct {
	status int
	body   string
	header map[string]string
}

// serve starts a server that answers with the given answers in turn, the last
// one for ever. It returns its URL and the requests it got.
func serve(t *testing.T, answers ...answer) (string, *[]*http.Request) {
	t.Helper()
	var got []*http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		a := answers[min(len(got), len(answers)-1)]
		got = append(got, r)
		for name, value := range a.header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(server.Close)
	return server.URL, &got
}

func s3Error(status int, code string) answer {
	return answer{status: status, body: "<Error><Code>" + code + "</Code><Message>words of the server</Message></Error>"}
}

func dynamoError(status int, code, message string) answer {
	return answer{status: status, body: fmt.Sprintf(`{"__type":"com.amazon#%s","message":%q}`, code, message)}
}

func get(t *testing.T, clients *awsconf.Clients) error {
	t.Helper()
	ctx, cancel := awsconf.WithTimeout(t.Context())
	defer cancel()
	out, err := clients.S3.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String("bucket"), Key: aws.String("a/key")})
	if err == nil {
		_, err = io.Copy(io.Discard, out.Body)
		_ = out.Body.Close()
	}
	return err
}

func getItem(t *testing.T, clients *awsconf.Clients) error {
	t.Helper()
	_, err := clients.DynamoDB.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String("table"),
		Key:       map[string]dynamotypes.AttributeValue{"k": &dynamotypes.AttributeValueMemberS{Value: "v"}},
	})
	return err
}

// roundTripper is a transport of a test's own.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestPathStyle checks how S3 is addressed: the name of a bucket before that of a private
// server would be an unknown host.
func TestPathStyle(t *testing.T) {
	for _, test := range []struct {
		vars []string
		want string
	}{
		{withCredentials("http://s3.example.org"), "http://s3.example.org/bucket/a/key"},
		{append(withCredentials(""), "AWS_ENDPOINT_URL=http://aws.example.org"), "http://aws.example.org/bucket/a/key"},
		{withCredentials(""), "https://bucket.s3.us-east-1.amazonaws.com/a/key"},
	} {
		isolate(t, test.vars...)
		var got string
		clients := load(t, &awsconf.Options{PlainHTTP: true, Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			got, _, _ = strings.Cut(req.URL.String(), "?")
			return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, nil
		})})
		if err := get(t, clients); err != nil {
			t.Fatal(err)
		}
		if got != test.want {
			t.Errorf("asked for %q, want %q", got, test.want)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	tests := []struct {
		name string
		vars []string
		want string
	}{
		{"no region", []string{"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b"}, "set AWS_REGION"},
		{"no credentials", []string{"AWS_REGION=us-east-1"}, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"},
		{"no such profile", []string{"AWS_REGION=us-east-1", "AWS_PROFILE=nowhere"}, `there is no AWS profile "nowhere"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			isolate(t, test.vars...)
			_, err := awsconf.Load(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestNoMetadataService checks that a machine that is not in EC2 is told soon
// that it has no credentials, where asking the metadata service leads nowhere.
func TestNoMetadataService(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	isolate(t, "AWS_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=false",
		"AWS_EC2_METADATA_SERVICE_ENDPOINT=http://"+silent.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 11*time.Second)
	defer cancel()
	_, err = awsconf.Load(ctx, nil)
	if err == nil || !strings.Contains(err.Error(), "AWS_PROFILE") {
		t.Errorf("error %v, want one that names AWS_PROFILE", err)
	}
}

func TestExplain(t *testing.T) {
	tests := []struct {
		name   string
		answer answer
		call   func(*testing.T, *awsconf.Clients) error
		want   string
	}{
		{"no bucket", s3Error(404, "NoSuchBucket"), get, "or make it"},
		{"no table", dynamoError(400, "ResourceNotFoundException", "no"), getItem, "the table does not exist"},
		{"another region", s3Error(301, "PermanentRedirect"), get, "set AWS_REGION to the bucket's"},
		{"another region, signed", s3Error(400, "AuthorizationHeaderMalformed"), get, "set AWS_REGION to the bucket's"},
		{"unknown key", s3Error(403, "InvalidAccessKeyId"), get, "check AWS_ACCESS_KEY_ID"},
		{"unknown key, table", dynamoError(400, "UnrecognizedClientException", "no"), getItem, "check AWS_ACCESS_KEY_ID"},
		{"wrong secret", s3Error(403, "SignatureDoesNotMatch"), get, "check AWS_SECRET_ACCESS_KEY"},
		{"wrong secret, table", dynamoError(400, "InvalidSignatureException", "canonical string: "+secret), getItem, "check AWS_SECRET_ACCESS_KEY"},
		{"expired", s3Error(400, "ExpiredToken"), get, "have expired"},
		{"expired, table", dynamoError(400, "ExpiredTokenException", "no"), getItem, "have expired"},
		{"denied", s3Error(403, "AccessDenied"), get, "may not s3:GetObject"},
		{"denied, table", dynamoError(400, "AccessDeniedException", "User: arn:x is not authorized to perform: dynamodb:GetItem on resource: y"), getItem, "may not dynamodb:GetItem"},
		{"clock", s3Error(403, "RequestTimeTooSkewed"), get, "clock of this machine"},
		{"clock, table", dynamoError(400, "InvalidSignatureException", "Signature expired: 1 is now earlier than 2"), getItem, "clock of this machine"},
		{"throttled", s3Error(503, "SlowDown"), get, "fewer requests"},
		{"throttled, table", dynamoError(400, "ProvisionedThroughputExceededException", "no"), getItem, "fewer requests"},
		{"trouble", s3Error(500, "InternalError"), get, "in trouble"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			url, _ := serve(t, test.answer)
			isolate(t, withCredentials(url)...)
			err := test.call(t, load(t, nil))
			explained := awsconf.Explain(fmt.Errorf("get: %w", err))
			if !strings.Contains(explained.Error(), test.want) {
				t.Errorf("%q explained as %q, want %q in it", err, explained, test.want)
			}
			if strings.Contains(explained.Error(), secret) {
				t.Errorf("a secret got into %q", explained)
			}
			if !errors.Is(explained, err) {
				t.Error("the explanation hides the error")
			}
			if again := awsconf.Explain(explained); again.Error() != explained.Error() {
				t.Errorf("explained twice: %q", again)
			}
		})
	}
}

func TestExplainLeavesAlone(t *testing.T) {
	if awsconf.Explain(nil) != nil {
		t.Error("nil became an error")
	}
	for _, err := range []error{io.EOF, context.Canceled, context.DeadlineExceeded, fmt.Errorf("get: %w", &s3types.NoSuchKey{})} {
		if got := awsconf.Explain(err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
}

// TestNobodyListens checks that a dead endpoint is an error that names it and
// keeps the errno.
func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	l.Close()
	isolate(t, withCredentials("http://"+host)...)
	requests := &awsconf.Requests{}
	for name, call := range map[string]func(*testing.T, *awsconf.Clients) error{"S3": get, "DynamoDB": getItem} {
		err := awsconf.Explain(call(t, load(t, &awsconf.Options{Requests: requests})))
		if err == nil || !strings.Contains(err.Error(), host+" cannot be reached") {
			t.Errorf("%s: error %v, want one that says that %s cannot be reached", name, err, host)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: error %v hides ECONNREFUSED", name, err)
		}
	}
	if counts := requests.Snapshot(); len(counts) > 0 {
		t.Errorf("counted %v, though nothing was sent", counts)
	}
}

// TestSilentServer checks that a server that takes connections and says nothing
// ends in an error that names it.
func TestSilentServer(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	isolate(t, withCredentials("http://"+silent.Addr().String())...)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = load(t, nil).S3.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: aws.String("bucket")})
	explained := awsconf.Explain(err)
	if !errors.Is(explained, context.DeadlineExceeded) || !strings.Contains(explained.Error(), silent.Addr().String()+" did not answer in time") {
		t.Errorf("error %v, want one that names the silent server and is DeadlineExceeded", explained)
	}
}

func TestRetries(t *testing.T) {
	good := answer{status: 200, body: "hello"}
	tests := []struct {
		name     string
		answers  []answer
		requests int
		fails    bool
	}{
		{"throttled once", []answer{s3Error(503, "SlowDown"), good}, 2, false},
		{"conflict of conditions", []answer{s3Error(409, "ConditionalRequestConflict"), good}, 2, false},
		{"trouble without end", []answer{s3Error(500, "InternalError")}, 5, true},
		{"a condition that fails", []answer{s3Error(412, "PreconditionFailed"), good}, 1, true},
		{"denied", []answer{s3Error(403, "AccessDenied"), good}, 1, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			url, got := serve(t, test.answers...)
			isolate(t, withCredentials(url)...)
			requests := &awsconf.Requests{}
			_, err := load(t, &awsconf.Options{Requests: requests}).S3.PutObject(t.Context(), &s3.PutObjectInput{
				Bucket: aws.String("bucket"), Key: aws.String("key"), Body: strings.NewReader("data"),
			})
			if (err != nil) != test.fails {
				t.Errorf("error %v", err)
			}
			if len(*got) != test.requests {
				t.Errorf("%d requests, want %d", len(*got), test.requests)
			}
			if counts := requests.Snapshot(); len(counts) != 1 || counts[0].Count != uint64(test.requests) {
				t.Errorf("counted %v, want %d requests", counts, test.requests)
			}
		})
	}
}

func TestRequestsAreCounted(t *testing.T) {
	url, _ := serve(t, answer{status: 200, body: "hello"}, answer{status: 200}, answer{status: 200, body: "<ListBucketResult/>"},
		answer{status: 204}, answer{status: 200}, answer{status: 200, body: "{}"})
	isolate(t, withCredentials(url)...)
	requests := &awsconf.Requests{}
	clients := load(t, &awsconf.Options{Requests: requests})
	ctx := t.Context()
	bucket, key := aws.String("bucket"), aws.String("key")
	errs := []error{get(t, clients)}
	_, err := clients.S3.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: strings.NewReader("four")})
	errs = append(errs, err)
	_, err = clients.S3.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: bucket})
	errs = append(errs, err)
	_, err = clients.S3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: key})
	errs = append(errs, err)
	_, err = clients.S3.HeadObject(ctx, &s3.HeadObjectInput{Bucket: bucket, Key: key})
	errs = append(errs, err, getItem(t, clients))
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range requests.Snapshot() {
		sent := fmt.Sprint(c.Sent)
		if strings.HasPrefix(c.Kind, "dynamodb") && c.Sent > 0 {
			sent = "some"
		}
		if c.Took <= 0 {
			t.Errorf("%s took %v", c.Kind, c.Took)
		}
		got = append(got, fmt.Sprintf("%s: %d, %s out, %d in", c.Kind, c.Count, sent, c.Received))
	}
	want := []string{
		"dynamodb GetItem: 1, some out, 2 in", "s3 DELETE: 1, 0 out, 0 in", "s3 GET: 1, 0 out, 5 in",
		"s3 HEAD: 1, 0 out, 0 in", "s3 LIST: 1, 0 out, 19 in", "s3 PUT: 1, 4 out, 0 in",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// TestReplyLost checks that a request whose reply never came is counted: it may
// have taken effect, and is billed.
func TestReplyLost(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	isolate(t, withCredentials(server.URL)...)
	requests := &awsconf.Requests{}
	if err := getItem(t, load(t, &awsconf.Options{Requests: requests})); err == nil {
		t.Fatal("no error")
	}
	counts := requests.Snapshot()
	if len(counts) != 1 || counts[0].Kind != "dynamodb GetItem" || counts[0].Count < 5 {
		t.Errorf("counted %v, want five GetItem", counts)
	}
}

package awssetup_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"mneme/internal/awsconf"
	"mneme/internal/testing/awstest"
)

const own, foreign = "111111111111", "222222222222"

// fakeAWS answers as S3 and DynamoDB of account own do, as far as setup asks. It
// has the table, and perhaps a bucket.
type fakeAWS struct {
	account string // of the table, as its ARN has it
	owner   string // of the bucket, "" while there is none
	denies  bool   // every request to the bucket
	made    []string
	updates int    // of the table
	bodies  string // of the changes of the bucket

	protected bool              // the table
	settings  map[string]string // of the bucket: what a GET with that query gets
	lacks     string            // the query of a request that the server does not know
	forbids   string            // or forbids
}

func (f *fakeAWS) RoundTrip(req *http.Request) (*http.Response, error) {
	if target := req.Header.Get("X-Amz-Target"); target != "" {
		_, operation, _ := strings.Cut(target, ".")
		return reply(req, 200, f.dynamoDB(operation))
	}
	if req.Method == http.MethodPut {
		if req.Body != nil {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			f.bodies += string(body)
		}
		f.made = append(f.made, strings.TrimSuffix(req.URL.RawQuery, "="))
	}
	expected := req.Header.Get("X-Amz-Expected-Bucket-Owner")
	switch {
	case f.owner == "" && req.Method == http.MethodPut && req.URL.RawQuery == "":
		f.owner = own
		return reply(req, 200, "")
	case f.owner == "":
		return reply(req, 404, "")
	case f.denies || expected != "" && expected != f.owner:
		return reply(req, 403, "")
	}
	query, _, _ := strings.Cut(req.URL.RawQuery, "=")
	if f.lacks != "" && query == f.lacks {
		return reply(req, 501, `<Error><Code>NotImplemented</Code></Error>`)
	}
	if f.forbids != "" && query == f.forbids {
		return reply(req, 403, `<Error><Code>AccessDenied</Code></Error>`)
	}
	if query == "lifecycle" && req.Method == http.MethodGet && f.settings[query] == "" {
		return reply(req, 404, `<Error><Code>NoSuchLifecycleConfiguration</Code></Error>`)
	}
	return reply(req, 200, f.settings[query])
}

func (f *fakeAWS) dynamoDB(operation string) string {
	if operation == "UpdateTable" {
		f.updates++
	}
	if operation != "DescribeTable" {
		return "{}"
	}
	return fmt.Sprintf(`{"Table":{"TableArn":"arn:aws:dynamodb:us-east-1:%s:table/t","TableStatus":"ACTIVE","DeletionProtectionEnabled":%v,
		"KeySchema":[{"AttributeName":"store_id","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}]}}`, f.account, f.protected)
}

func reply(req *http.Request, status int, body string) (*http.Response, error) {
	return &http.Response{
		StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: req, ContentLength: int64(len(body)),
	}, nil
}

func (f *fakeAWS) clients(t *testing.T) *awsconf.Clients {
	t.Helper()
	clients, err := awsconf.LoadFrom(t.Context(), &awsconf.Options{Transport: f}, &awsconf.Fixed{
		Region: awstest.Region, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
	})
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

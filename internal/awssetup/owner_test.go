package awssetup_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"mneme/internal/awsconf"
	"mneme/internal/awssetup"
	"mneme/internal/awstest"
)

const own, foreign = "111111111111", "222222222222"

// fakeAWS answers as S3 and DynamoDB of account own do, as far as setup asks. It
// has the table, and perhaps a bucket.
type fakeAWS struct {
	account string // of the table, as its ARN has it
	owner   string // of the bucket, "" while there is none
	denies  bool   // every request to the bucket
	made    []string
}

func (f *fakeAWS) RoundTrip(req *http.Request) (*http.Response, error) {
	if target := req.Header.Get("X-Amz-Target"); target != "" {
		_, operation, _ := strings.Cut(target, ".")
		return reply(req, 200, f.dynamoDB(operation))
	}
	if req.Method == http.MethodPut {
		f.made = append(f.made, req.URL.RawQuery)
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
	return reply(req, 200, `<PublicAccessBlockConfiguration/>`)
}

func (f *fakeAWS) dynamoDB(operation string) string {
	if operation != "DescribeTable" {
		return "{}"
	}
	return fmt.Sprintf(`{"Table":{"TableArn":"arn:aws:dynamodb:us-east-1:%s:table/t","TableStatus":"ACTIVE",
		"KeySchema":[{"AttributeName":"store_id","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}]}}`, f.account)
}

func reply(req *http.Request, status int, body string) (*http.Response, error) {
	return &http.Response{
		StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: req, ContentLength: int64(len(body)),
	}, nil
}

// TestBucketOwner holds that setup takes the bucket of the table's account, or
// of the one it is told, and no other.
func TestBucketOwner(t *testing.T) {
	for _, test := range []struct {
		name  string
		aws   fakeAWS
		told  string
		owner string
		want  error  // nil is none, unless text is set
		text  string // of the error
	}{
		{name: "a new bucket", aws: fakeAWS{account: own}, owner: own},
		{name: "of the account", aws: fakeAWS{account: own, owner: own}, owner: own},
		{name: "of another account", aws: fakeAWS{account: own, owner: foreign}, want: awssetup.ErrForeignBucket, text: "not to " + own},
		{name: "of another account, told", aws: fakeAWS{account: own, owner: foreign}, told: foreign, owner: foreign},
		{name: "told wrongly", aws: fakeAWS{account: own, owner: own}, told: foreign, want: awssetup.ErrForeignBucket, text: "not to " + foreign},
		{name: "one to be made for another account", aws: fakeAWS{account: own}, told: foreign, text: "cannot make one for account " + foreign},
		{name: "denied whoever owns it", aws: fakeAWS{account: own, owner: own, denies: true}, text: "access denied"},
		{name: "a table without account", aws: fakeAWS{account: "000000000000", owner: foreign}, owner: ""},
		{name: "a table without account, told", aws: fakeAWS{account: "000000000000", owner: foreign}, told: foreign, owner: foreign},
	} {
		t.Run(test.name, func(t *testing.T) {
			clients, err := awsconf.LoadFrom(t.Context(), &awsconf.Options{Transport: &test.aws}, &awsconf.Fixed{
				Region: awstest.Region, Credentials: credentials.NewStaticCredentialsProvider("key", "secret", ""),
			})
			if err != nil {
				t.Fatal(err)
			}
			owner, err := awssetup.Run(t.Context(), clients, "bucket", "t", &awssetup.Options{BucketOwner: test.told}, func(awssetup.Step) {})
			if test.text != "" {
				if err == nil || !errors.Is(err, test.want) && test.want != nil || !strings.Contains(err.Error(), test.text) {
					t.Errorf("error %v, want %v with %q", err, test.want, test.text)
				}
				if len(test.aws.made) > 0 {
					t.Errorf("it has changed a bucket that it refuses: %q", test.aws.made)
				}
				return
			}
			if err != nil || owner != test.owner {
				t.Errorf("owner %q, %v, want %q", owner, err, test.owner)
			}
			if made := slices.Contains(test.aws.made, ""); made != (test.name == "a new bucket") {
				t.Errorf("made a bucket: %v", made)
			}
		})
	}
}

package awsconf_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"mneme/internal/awsconf"
)

// TestBucketOwner holds that the expected owner is in every request to S3 but
// the one that makes a bucket, and in none to DynamoDB.
func TestBucketOwner(t *testing.T) {
	const owner = "111111111111"
	isolate(t, withCredentials("")...)
	var sent []string
	clients := load(t, &awsconf.Options{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		if !strings.Contains(req.Header.Get("Authorization"), "x-amz-expected-bucket-owner") && req.Header.Get("X-Amz-Expected-Bucket-Owner") != "" {
			t.Errorf("%s %s: the owner is not signed", req.Method, req.URL)
		}
		sent = append(sent, req.Method+" "+req.Header.Get("X-Amz-Expected-Bucket-Owner"))
		return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, nil
	})})
	ctx, bucket, key := t.Context(), aws.String("bucket"), aws.String("key")
	calls := map[string]func(){
		"GET": func() { _ = get(t, clients) },
		"PUT": func() {
			_, _ = clients.S3.PutObject(ctx, &s3.PutObjectInput{Bucket: bucket, Key: key, Body: strings.NewReader("x")})
		},
		"DELETE": func() { _, _ = clients.S3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: bucket, Key: key}) },
		"HEAD":   func() { _, _ = clients.S3.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: bucket}) },
	}
	for _, expected := range []string{"", owner, ""} {
		clients.ExpectBucketOwner(expected)
		for method, call := range calls {
			sent = nil
			call()
			if len(sent) != 1 || sent[0] != method+" "+expected {
				t.Errorf("sent %q, want %q", sent, method+" "+expected)
			}
		}
	}
	clients.ExpectBucketOwner(owner)
	sent = nil
	_, _ = clients.S3.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: bucket})
	_ = getItem(t, clients)
	for _, one := range sent {
		if strings.Contains(one, owner) {
			t.Errorf("sent %q with an owner", one)
		}
	}
}

// TestBucketOwnerDenied holds that what is denied says which owner was expected.
func TestBucketOwnerDenied(t *testing.T) {
	url, _ := serve(t, s3Error(403, "AccessDenied"))
	isolate(t, withCredentials(url)...)
	clients := load(t, nil)
	clients.ExpectBucketOwner("111111111111")
	err := awsconf.Explain(get(t, clients))
	if err == nil || !strings.Contains(err.Error(), "may not s3:GetObject") || !strings.Contains(err.Error(), "does not belong to 111111111111") {
		t.Errorf("error %v, want one that names the owner", err)
	}
	clients.ExpectBucketOwner("")
	if err := awsconf.Explain(get(t, clients)); err == nil || strings.Contains(err.Error(), "belong") || errors.Is(err, awsconf.ErrMissing) {
		t.Errorf("error %v, want one that names no owner", err)
	}
}

// TestAWSBuckets tells AWS's own S3 from other servers.
func TestAWSBuckets(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"": true, "https://bucket.vpce-1.s3.us-east-1.vpce.amazonaws.com": true, "https://s3.cn-north-1.amazonaws.com.cn": true,
		"https://s3.dualstack.eu-west-1.api.aws": true, "https://minio.example.org": false, "https://s3.amazonaws.com.example.org": false,
		"http://127.0.0.1:7070": false, "https://myamazonaws.com": false,
	} {
		isolate(t, withCredentials(endpoint)...)
		if got := load(t, nil).AWSBuckets(); got != want {
			t.Errorf("%q: %v, want %v", endpoint, got, want)
		}
	}
}

package awsconf

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"mneme/internal/testing/fault"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// TestPermit: a request whose permit has ended is not sent, and a request that may have
// arrived is not sent again.
func TestPermit(t *testing.T) {
	t.Parallel()
	late := errors.New("late")
	for name, c := range map[string]struct {
		with     func(context.Context) context.Context
		action   fault.Action
		attempts int
		want     error
	}{
		"lost":    {func(ctx context.Context) context.Context { return ctx }, fault.FailBefore, maxAttempts, nil},
		"once":    {Once, fault.FailBefore, 1, nil},
		"no room": {Once, fault.SlowDown, maxAttempts, nil},
		"failed":  {Once, fault.InternalServerError, 1, nil},
		"late":    {func(ctx context.Context) context.Context { return Permit(ctx, func() error { return late }) }, fault.FailBefore, 0, late},
		"late again": {func(ctx context.Context) context.Context {
			asked := 0
			return Permit(ctx, func() error {
				if asked++; asked > 2 {
					return late
				}
				return nil
			})
		}, fault.FailBefore, 2, late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attempts := 0
			transport := fault.New(nil)
			transport.Arm(fault.Fault{Action: func(req *http.Request, body []byte, send func() (*http.Response, error)) (*http.Response, error) {
				attempts++
				return c.action(req, body, send)
			}})
			clients, err := LoadFrom(t.Context(), &Options{Transport: transport}, &Fixed{
				Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""), Region: "us-east-1", S3Endpoint: "http://127.0.0.1:1", DynamoDBEndpoint: "http://127.0.0.1:1", FirstPause: 1,
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = clients.S3.DeleteObject(c.with(t.Context()), &s3.DeleteObjectInput{Bucket: aws.String("b"), Key: aws.String("k")})
			if attempts != c.attempts || err == nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%d attempts, %v; want %d, %v", attempts, err, c.attempts, c.want)
			}
		})
	}
}

package awsconf

import (
	"context"
	"errors"
	"net/url"
	"strings"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// ExpectBucketOwner makes every later request to S3 name the account that the
// bucket must belong to, so that S3 denies it where the bucket is another's.
// "" names none. It is called before the bucket is used.
func (c *Clients) ExpectBucketOwner(account string) { c.owner.Store(&account) }

// AWSBuckets reports whether the buckets are AWS's own, so that they belong to
// an AWS account. A server at an endpoint of another name may know no accounts.
func (c *Clients) AWSBuckets() bool {
	endpoint := c.S3.Options().BaseEndpoint
	if endpoint == nil {
		return true
	}
	u, err := url.Parse(*endpoint)
	if err != nil {
		return false
	}
	for _, domain := range []string{".amazonaws.com", ".amazonaws.com.cn", ".api.aws"} {
		if strings.HasSuffix(u.Hostname(), domain) {
			return true
		}
	}
	return false
}

// nameOwner adds the expected owner to the requests of a client of S3, except the one that
// makes a bucket, and to the errors of denied requests.
func (c *Clients) nameOwner(stack *middleware.Stack) error {
	return stack.Build.Add(middleware.BuildMiddlewareFunc("MnemeNameOwner",
		func(ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler) (
			middleware.BuildOutput, middleware.Metadata, error,
		) {
			owner := c.owner.Load()
			req, ok := in.Request.(*smithyhttp.Request)
			if !ok || owner == nil || *owner == "" || awsmiddleware.GetOperationName(ctx) == "CreateBucket" {
				return next.HandleBuild(ctx, in)
			}
			req.Header.Set("X-Amz-Expected-Bucket-Owner", *owner)
			out, metadata, err := next.HandleBuild(ctx, in)
			var api smithy.APIError
			if errors.As(err, &api) && isDenied(api.ErrorCode()) {
				err = &ownerError{*owner, err}
			}
			return out, metadata, err
		}), middleware.After)
}

// ownerError says which owner a request expected that was denied.
type ownerError struct {
	owner string
	err   error
}

func (e *ownerError) Error() string { return e.err.Error() }
func (e *ownerError) Unwrap() error { return e.err }

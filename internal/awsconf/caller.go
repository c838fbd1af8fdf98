package awsconf

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

const (
	callerTimeout = 2 * time.Second
	maxCallerBody = 64 << 10 // bytes of STS's reply that are read
)

// ErrNoSTS says that nothing is asked who the caller is.
var ErrNoSTS = errors.New("requests go to a server of your own, which need not have STS")

// Caller returns the ARN of the account, user or role whose credentials these are, as
// STS (GetCallerIdentity) says, which takes no permission. It asks once, and waits for
// 2 s at most. Where S3 or DynamoDB have an endpoint of their own (AWS_ENDPOINT_URL_S3),
// STS must have one, too (AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL): else the credentials
// of a server would go to AWS, and the error is ErrNoSTS.
func (c *Clients) Caller(ctx context.Context) (arn string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callerTimeout)
	defer cancel()
	if c.sts.Options().BaseEndpoint == nil && (c.S3.Options().BaseEndpoint != nil || c.DynamoDB.Options().BaseEndpoint != nil) {
		return "", ErrNoSTS
	}
	if !c.plainHTTP {
		if err := refusePlainHTTP("STS", c.sts.Options().BaseEndpoint); err != nil {
			return "", err
		}
	}
	who, err := c.sts.GetCallerIdentity(ctx, nil)
	if err != nil {
		return "", Explain(err)
	}
	return aws.ToString(who.Arn), nil
}

func newSTS(cfg aws.Config, client *http.Client) *sts.Client {
	short := *client
	short.Transport = shortReplies{client.Transport}
	return sts.NewFromConfig(cfg, func(o *sts.Options) { o.HTTPClient, o.Retryer = &short, aws.NopRetryer{} })
}

// shortReplies is an http.RoundTripper that cuts what is too long.
type shortReplies struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s shortReplies) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := s.next.RoundTrip(req)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxCallerBody), resp.Body}
	}
	return resp, err
}

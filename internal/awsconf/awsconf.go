// Package awsconf makes the clients of S3 and DynamoDB from the environment, as
// the AWS SDK finds region, credentials, profiles and endpoints; it counts what
// they send and says of their errors what a person can do about them.
package awsconf

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
)

const (
	operationTimeout = 12 * time.Second // WithTimeout

	maxAttempts = 5
	firstPause  = 250 * time.Millisecond // before the second attempt, at most
	longestWait = 2 * time.Second        // before any attempt, at most

	connectionsPerHost = 256
	dialTimeout        = 3 * time.Second
	tlsTimeout         = 5 * time.Second
	headerTimeout      = 10 * time.Second // of a service that credentials come from
)

// errNoRegion says that nothing names a region.
var errNoRegion = errors.New("no AWS region is set: set AWS_REGION, or AWS_PROFILE to a profile that has one " +
	"(a server of your own takes any, such as us-east-1)")

// Options are the optional settings of Load. Nil and zero fields stand for the
// defaults.
type Options struct {
	// Transport carries the requests to S3 and DynamoDB. Default: one that
	// keeps up to 256 connections per host open, gives up dialling after 3 s,
	// and trusts what AWS_CA_BUNDLE names. Asking for credentials does not go
	// through it.
	Transport http.RoundTripper
	// Requests counts what is sent. Nil counts nothing.
	Requests *Requests
	// PlainHTTP allows endpoints that are reached over plain HTTP and are not on
	// this machine.
	PlainHTTP bool
}

// Clients are the clients of one account and region. They may be used from many
// goroutines and need not be closed.
type Clients struct {
	S3       *s3.Client
	DynamoDB *dynamodb.Client
	Region   string

	sts       *sts.Client
	plainHTTP bool // Options.PlainHTTP

	http  *http.Client
	owner atomic.Pointer[string] // see ExpectBucketOwner; nil is none
}

// CloseIdleConnections closes the connections that carry no request now.
func (c *Clients) CloseIdleConnections() { c.http.CloseIdleConnections() }

// Load makes clients from environment variables and the shared configuration
// files. It fetches credentials once, so that missing ones are noticed here, but
// sends nothing to S3 or DynamoDB. S3 is addressed by path wherever an endpoint
// is set (AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL). ErrPlainHTTP is an endpoint
// that Options.PlainHTTP does not allow. No redirect is followed.
//
// The clients make up to five attempts per call, with random pauses of up to
// 2 s between them, after errors that a retry may cure: lost connections, answers 5xx,
// throttling, bytes changed on their way, and conflicts of conditional writes. When the
// credentials are refused they are read again, and the call is made with the new ones. An
// attempt is given up, and the next gets a new connection, when DynamoDB has not begun to
// answer after 2 s, or S3 after 4 s, a second more for each 256 KiB that is sent, and when
// a body stalls for as long. They obey the context. A call whose reply was lost may have
// taken effect and be made again.
func Load(ctx context.Context, opts *Options) (*Clients, error) {
	return LoadFrom(ctx, opts, nil)
}

// Fixed is what a test sets instead of the environment. Zero fields are as the
// environment has them.
type Fixed struct {
	// Credentials stand for themselves and Region: where they are set, nothing
	// of the environment is read.
	Credentials                  aws.CredentialsProvider
	Region                       string
	S3Endpoint, DynamoDBEndpoint string
	// FirstPause is how long to wait before the second attempt, at most. Default:
	// 250 ms.
	FirstPause time.Duration
	// Attempt is how long an attempt may wait. Default: see Load.
	Attempt time.Duration
}

// LoadFrom is Load with some settings fixed; nil is none.
func LoadFrom(ctx context.Context, opts *Options, fixed *Fixed) (*Clients, error) {
	if opts == nil {
		opts = &Options{}
	}
	if fixed == nil {
		fixed = &Fixed{}
	}
	ctx, cancel := WithTimeout(ctx)
	defer cancel()
	cfg, err := loadConfig(ctx, fixed)
	if err != nil {
		return nil, fmt.Errorf("load the AWS configuration: %w", Explain(err))
	}
	if cfg.Region == "" {
		return nil, errNoRegion
	}
	credentials := newRenewable(cfg.Credentials, func(ctx context.Context) (aws.CredentialsProvider, error) {
		again, err := loadConfig(ctx, fixed)
		return again.Credentials, err
	})
	cfg.Credentials = credentials
	cfg.APIOptions = append(cfg.APIOptions, credentials.renewOnRefusal, addPermit)
	if _, err := cfg.Credentials.Retrieve(ctx); err != nil {
		return nil, Explain(err)
	}
	retryer := newRetryer(cmp.Or(fixed.FirstPause, firstPause))
	client := &http.Client{Transport: transport(cfg.HTTPClient, opts, fixed.Attempt), CheckRedirect: followNone}
	clients := &Clients{Region: cfg.Region, http: client, plainHTTP: opts.PlainHTTP, sts: newSTS(cfg, client)}
	clients.S3 = s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.HTTPClient, o.Retryer = client, retryer
		if fixed.S3Endpoint != "" {
			o.BaseEndpoint = &fixed.S3Endpoint
		}
		o.UsePathStyle = o.BaseEndpoint != nil
		o.DisableLogOutputChecksumValidationSkipped = true
		o.APIOptions = append(o.APIOptions, clients.nameOwner)
	})
	clients.DynamoDB = dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.HTTPClient, o.Retryer = client, retryer
		if fixed.DynamoDBEndpoint != "" {
			o.BaseEndpoint = &fixed.DynamoDBEndpoint
		}
	})
	if !opts.PlainHTTP {
		err = errors.Join(refusePlainHTTP("S3", clients.S3.Options().BaseEndpoint),
			refusePlainHTTP("DynamoDB", clients.DynamoDB.Options().BaseEndpoint))
	}
	if err != nil {
		return nil, err
	}
	return clients, nil
}

func loadConfig(ctx context.Context, fixed *Fixed) (aws.Config, error) {
	apiOptions := []func(*middleware.Stack) error{nameHosts}
	if fixed.Credentials != nil {
		return aws.Config{
			Region: fixed.Region, Credentials: fixed.Credentials,
			HTTPClient: newHTTPClient(), Logger: logging.Nop{}, APIOptions: apiOptions,
			RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
			ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		}, nil
	}
	return config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(newHTTPClient()),
		config.WithLogger(logging.Nop{}), // what matters becomes an error
		config.WithAPIOptions(apiOptions),
		config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired),
		config.WithResponseChecksumValidation(aws.ResponseChecksumValidationWhenRequired))
}

// WithTimeout bounds one logical operation, its repetitions included: 12 s.
func WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, operationTimeout)
}

func newHTTPClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout }).
		WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns = 0 // no limit beyond that per host
			t.MaxIdleConnsPerHost = connectionsPerHost
			t.TLSHandshakeTimeout = tlsTimeout
			t.ResponseHeaderTimeout = headerTimeout
		})
}

// transport returns what carries the requests. The configured client is the one
// that Load gave, with the certificates of AWS_CA_BUNDLE added.
func transport(configured aws.HTTPClient, opts *Options, attempt time.Duration) http.RoundTripper {
	carrier := opts.Transport
	if carrier == nil {
		client, ok := configured.(*awshttp.BuildableClient)
		if !ok {
			client = newHTTPClient()
		}
		carrier = client.GetTransport()
	}
	carrier = &limiter{next: carrier, fixed: attempt}
	if opts.Requests != nil {
		carrier = &counter{requests: opts.Requests, next: carrier}
	}
	return carrier
}

// newRetryer returns the SDK's standard retryer without its quota of retries:
// hundreds of parallel reads that are throttled at once would use it up, and
// each of them is bounded by its attempts and its time.
func newRetryer(first time.Duration) aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = maxAttempts
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, _ error) (time.Duration, error) {
			return pause(first, attempt), nil
		})
		o.RateLimiter = ratelimit.None
		o.Retryables = append(o.Retryables, retry.RetryableErrorCode{Codes: map[string]struct{}{
			"ConditionalRequestConflict":  {}, // S3: two conditional writes of one key at once
			"OperationAborted":            {},
			"BadDigest":                   {}, // the bytes changed on their way
			"XAmzContentChecksumMismatch": {},
			"XAmzContentSHA256Mismatch":   {},
			"ExistingObjectIsDirectory":   {}, // versitygw, when a removal beside it takes the directory away
		}}, retry.IsErrorRetryableFunc(replyCut))
	})
}

// replyCut finds a reply whose body ended too early, or stalled.
func replyCut(err error) aws.Ternary {
	var slow *slowError
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &slow) {
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// pause returns how long to wait after the given attempt, counted from 1: any
// time between nothing and a limit that begins at first and doubles.
func pause(first time.Duration, attempt int) time.Duration {
	return rand.N(min(longestWait, first<<min(max(attempt-1, 0), maxAttempts)))
}

package awsconf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"mneme/errkind"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	noCredentials = "no AWS credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run `aws configure` or `aws sso login`"
	badRegion     = "the bucket is in another region: set AWS_REGION to the bucket's"
	badKey        = "the server does not know this access key: check AWS_ACCESS_KEY_ID or AWS_PROFILE, and that they belong to this endpoint"
	badSecret     = "the server does not accept the signature: check AWS_SECRET_ACCESS_KEY and the clock of this machine"
	expired       = "the AWS credentials have expired: renew them (`aws sso login`, or a new AWS_SESSION_TOKEN)"
	badClock      = "the clock of this machine is off by more than the server allows: set it (`timedatectl set-ntp true`)"
	throttled     = "the server asks for fewer requests and went on doing so: try again later, or raise the table's limits"
	serverTrouble = "the server is in trouble and stayed so: try again later"
	noBucket      = "the bucket does not exist: correct its name in the URL, or make it"
	accessDenied  = "access denied: these credentials may not "
	noTable       = "the table does not exist in this region: correct its name or AWS_REGION, or make it"
)

// hints are what a person can do about an error code. Codes whose advice
// depends on more are in hint.
var hints = map[string]string{
	"NoSuchBucket":                           noBucket,
	"ResourceNotFoundException":              noTable,
	"PermanentRedirect":                      badRegion,
	"MovedPermanently":                       badRegion,
	"AuthorizationHeaderMalformed":           badRegion,
	"IllegalLocationConstraintException":     badRegion,
	"InvalidAccessKeyId":                     badKey,
	"UnrecognizedClientException":            badKey,
	"InvalidClientTokenId":                   badKey,
	"XAdminUserNotFound":                     badKey, // versitygw
	"MissingAuthenticationToken":             noCredentials,
	"MissingAuthenticationTokenException":    noCredentials,
	"SignatureDoesNotMatch":                  badSecret,
	"InvalidSignatureException":              badSecret,
	"IncompleteSignatureException":           badSecret,
	"InvalidToken":                           expired,
	"ExpiredToken":                           expired,
	"ExpiredTokenException":                  expired,
	"RequestExpired":                         badClock,
	"RequestTimeTooSkewed":                   badClock,
	"SlowDown":                               throttled,
	"Throttling":                             throttled,
	"ThrottlingException":                    throttled,
	"RequestLimitExceeded":                   throttled,
	"ProvisionedThroughputExceededException": throttled,
	"InternalError":                          serverTrouble,
	"InternalServerError":                    serverTrouble,
	"ServiceUnavailable":                     serverTrouble,
}

// explained is an error of the SDK with advice. Its text is short: the SDK's own
// can hold parts of the request, such as a session token.
type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return e.text }
func (e *explained) Unwrap() error { return e.err }

// Kind says whether credentials are refused, a bucket or table is missing, or a server
// does not do what it is asked for now.
func (e *explained) Kind() errkind.Kind {
	begins := func(advice ...string) bool {
		return slices.ContainsFunc(advice, func(a string) bool { return strings.HasPrefix(e.text, a) })
	}
	switch {
	case begins(accessDenied, noCredentials, badKey, badSecret, expired):
		return errkind.Denied
	case begins(noBucket, noTable):
		return errkind.Missing
	case begins(throttled, serverTrouble):
		return errkind.Unavailable
	}
	return errkind.Unknown
}

// Is makes what credentials are refused for an fs.ErrPermission, what they may not an
// ErrNotAllowed, and a missing bucket or table an ErrMissing.
func (e *explained) Is(target error) bool {
	switch target {
	case fs.ErrPermission:
		return e.Kind() == errkind.Denied
	case ErrNotAllowed:
		return strings.HasPrefix(e.text, accessDenied)
	case ErrMissing:
		return e.Kind() == errkind.Missing
	}
	return false
}

// ErrNotAllowed says that the caller is known, and its policies do not allow a request.
var ErrNotAllowed = errkind.New(errkind.Denied, "these credentials may not do that")

// ErrMissing says that there is no such bucket or table.
var ErrMissing = errkind.New(errkind.Missing, "the bucket or the table does not exist")

// Explain adds to an error of the SDK what a person can do about it. The result
// wraps err, so that errors.Is and errors.As go on working. Nil, what is
// explained already, and an error it knows nothing about are returned as they
// are. No credential and nothing of a memory gets into the text.
func Explain(err error) error {
	var already *explained
	if err == nil || errors.As(err, &already) {
		return err
	}
	text := hint(err)
	if text == "" {
		return err
	}
	if cause := causeOf(err); cause != "" {
		text += " (" + cause + ")"
	}
	return &explained{text, err}
}

func hint(err error) string {
	var credentials *credentialsError
	var profile config.SharedConfigProfileNotExistError
	var redirect *redirectError
	var api smithy.APIError
	switch {
	case errors.As(err, &redirect):
		return redirect.Error() + ", and the request carries credentials, so it does not go there: set AWS_REGION to the bucket's, " +
			"or, if that is the server you mean, name it in AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL_DYNAMODB"
	case errors.As(err, &credentials):
		return noCredentials
	case errors.As(err, &profile):
		return fmt.Sprintf("there is no AWS profile %q: set AWS_PROFILE to one of `aws configure list-profiles`", profile.Profile)
	case errors.As(err, &api):
		return apiHint(err, api)
	}
	return transportHint(err)
}

// apiHint is the advice on an error that a server answered with.
func apiHint(err error, api smithy.APIError) string {
	service, operation := operationOf(err)
	code := api.ErrorCode()
	if isDenied(code) {
		text := accessDenied + action(service, operation, api.ErrorMessage())
		var owner *ownerError
		if errors.As(err, &owner) {
			text += ", or the bucket does not belong to " + owner.owner + ", which the table names as its owner"
		}
		return text
	}
	switch code {
	case "InvalidSignatureException":
		// DynamoDB has no code of its own for a wrong clock.
		if m := api.ErrorMessage(); strings.Contains(m, "expired") || strings.Contains(m, "not yet current") {
			return badClock
		}
	case "NotFound": // the reply to a HEAD has no body to say what is missing
		if operation == "HeadBucket" {
			return noBucket
		}
	}
	if text, ok := hints[code]; ok {
		return text
	}
	switch status := statusOf(err); {
	case status == http.StatusMovedPermanently:
		return badRegion
	case status == http.StatusTooManyRequests:
		return throttled
	case status >= http.StatusInternalServerError:
		return serverTrouble
	}
	return ""
}

func isDenied(code string) bool {
	switch code {
	case "AccessDenied", "AccessDeniedException", "Forbidden", "AllAccessDisabled":
		return true
	}
	return false
}

// transportHint is the advice where no server answered.
func transportHint(err error) string {
	var host *hostError
	var send *smithyhttp.RequestSendError
	var slow *slowError
	reached := errors.As(err, &host)
	where := "the AWS endpoint"
	if reached {
		where = host.host
	}
	switch {
	case errors.Is(err, context.Canceled):
		return ""
	case errors.As(err, &slow):
		return where + " did not answer in time: check the network, AWS_REGION and AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL_DYNAMODB"
	case errors.As(err, &send):
		return where + " cannot be reached: check the network, AWS_REGION and AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL_DYNAMODB"
	case errors.Is(err, context.DeadlineExceeded):
		if service, _ := operationOf(err); service != "" || reached {
			return where + " did not answer in time: check the network, AWS_REGION and AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL_DYNAMODB"
		}
	}
	return ""
}

var notAuthorized = regexp.MustCompile(`not authorized to perform: ([A-Za-z0-9]+:[A-Za-z0-9]+)`)

// action names what is forbidden as policies do.
func action(service, operation, message string) string {
	if m := notAuthorized.FindStringSubmatch(message); m != nil {
		return m[1]
	}
	switch operation {
	case "HeadObject":
		return "s3:GetObject"
	case "HeadBucket", "ListObjectsV2":
		return "s3:ListBucket"
	case "DeleteObjects":
		return "s3:DeleteObject"
	case "TransactWriteItems":
		return "dynamodb:PutItem, UpdateItem, DeleteItem or ConditionCheckItem"
	case "TransactGetItems":
		return "dynamodb:GetItem"
	case "":
		return "do this"
	}
	return strings.ToLower(service) + ":" + operation
}

// causeOf names the failed call and what it got.
func causeOf(err error) string {
	service, operation := operationOf(err)
	var parts []string
	if service != "" {
		parts = append(parts, service+" "+operation)
	}
	var api smithy.APIError
	var credentials *credentialsError
	var send *smithyhttp.RequestSendError
	switch {
	case errors.As(err, &api):
		parts = append(parts, api.ErrorCode())
	case errors.As(err, &credentials):
		parts = append(parts, credentials.Error())
	case errors.As(err, &send):
		inner := send.Err
		var withURL *url.Error // whose text has the whole path
		if errors.As(inner, &withURL) {
			inner = withURL.Err
		}
		parts = append(parts, inner.Error())
	}
	return strings.Join(parts, ": ")
}

func operationOf(err error) (service, operation string) {
	var op *smithy.OperationError
	if errors.As(err, &op) {
		return op.ServiceID, op.OperationName
	}
	return "", ""
}

func statusOf(err error) int {
	var response interface{ HTTPStatusCode() int }
	if errors.As(err, &response) {
		return response.HTTPStatusCode()
	}
	return 0
}

// explainedCredentials marks the errors of finding credentials, which have no
// type of their own.
type explainedCredentials struct{ aws.CredentialsProvider }

func (c explainedCredentials) Retrieve(ctx context.Context) (aws.Credentials, error) {
	credentials, err := c.CredentialsProvider.Retrieve(ctx)
	if err != nil && ctx.Err() == nil {
		err = &credentialsError{err}
	}
	return credentials, err
}

type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }

// hostError says which host a request was meant for that got no answer.
type hostError struct {
	host string
	err  error
}

func (e *hostError) Error() string { return e.host + ": " + e.err.Error() }
func (e *hostError) Unwrap() error { return e.err }

// nameHosts makes a client's errors tell the hosts: the one that gave no answer
// and, of a redirect, both. When the context ends, the SDK drops the error of
// the transport, which would.
func nameHosts(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("MnemeNameHosts",
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
			middleware.DeserializeOutput, middleware.Metadata, error,
		) {
			out, metadata, err := next.HandleDeserialize(ctx, in)
			var send *smithyhttp.RequestSendError
			var cancelled *smithy.CanceledError
			req, ok := in.Request.(*smithyhttp.Request)
			if !ok {
				return out, metadata, err
			}
			if errors.As(err, &send) || errors.As(err, &cancelled) {
				err = &hostError{req.URL.Host, err}
			}
			if resp, ok := out.RawResponse.(*smithyhttp.Response); ok {
				err = redirected(req.URL.Host, resp.Response, err)
			}
			return out, metadata, err
		}), middleware.Before)
}

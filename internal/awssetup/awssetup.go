// Package awssetup makes the bucket and the table that the AWS backend needs,
// and says which permissions and commands that takes.
package awssetup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/smithy-go"

	"mneme/internal/awsconf"
)

// Step is one thing that setup looked after.
type Step struct {
	What    string  `json:"what"`
	Outcome Outcome `json:"outcome"`
	Note    string  `json:"note,omitempty"` // what there is to know or to do about it
}

// Outcome says how a step went.
type Outcome string

// The outcomes.
const (
	Made        Outcome = "made"
	WasThere    Outcome = "was there"
	Ready       Outcome = "ready"
	Unsupported Outcome = "not supported by this server"
	Differs     Outcome = "differs" // from what mneme would have made; the note says what to do
)

// The key schema of the table, and the attribute that its time-to-live reads.
const (
	PartitionKey = "store_id"
	SortKey      = "sk"
	TTLAttribute = "expires"
)

const (
	pollPeriod   = 300 * time.Millisecond
	readyTimeout = 2 * time.Minute // of a new table
)

// Options are the optional settings of Run. Nil is the default.
type Options struct {
	// BucketOwner is the account that the bucket must belong to. Default: that of
	// the table, where the server has accounts.
	BucketOwner string
}

// Run makes what is missing of table and bucket, and reports each step when it
// is done. It can be run again at any time, by many at once, and changes no
// setting of a bucket that was there: those may serve others too. It returns
// when the table can be used, with the account that the bucket belongs to, ""
// where the server has no accounts; the clients expect that from then on.
// Errors: ErrForeignBucket, ErrForeignTable, and those of the AWS SDK, explained.
func Run(ctx context.Context, clients *awsconf.Clients, bucket, table string, opts *Options, report func(Step)) (owner string, err error) {
	if opts == nil {
		opts = &Options{}
	}
	s := setup{clients: clients, bucket: bucket, table: table, owner: opts.BucketOwner, report: report}
	for _, step := range []func(context.Context) error{s.makeTable, s.expiry, s.backups, s.protect, s.makeBucket} {
		if err := step(ctx); err != nil {
			return "", err
		}
	}
	return s.owner, nil
}

type setup struct {
	clients       *awsconf.Clients
	bucket, table string
	owner         string // of the bucket, "" for none that is known
	account       string // of the table, "" for none that is known
	protected     bool   // whether the table cannot be deleted
	report        func(Step)
}

// bounded runs one request of the step that what names.
func bounded(ctx context.Context, what string, request func(context.Context) error) error {
	ctx, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	if err := request(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, awsconf.Explain(err))
	}
	return nil
}

// code returns the service's name of an error, or "".
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// unsupported reports whether a server does not know a request at all.
func unsupported(err error) bool {
	switch code(err) {
	case "NotImplemented", "MethodNotAllowed", "UnknownOperationException", "UnknownOperation",
		"UnsupportedOperation", "UnsupportedOperationException", "InvalidAction", "NotSupported":
		return true
	}
	return false
}

// denied reports whether the caller may not make a request.
func denied(err error) bool {
	switch code(err) {
	case "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "Forbidden":
		return true
	}
	return false
}

package dynamolog

import (
	"context"
	"errors"
	"fmt"

	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

var (
	// ErrNotSetUp says that a table is not one that Setup has made.
	ErrNotSetUp = errors.New("the table holds no log of mneme's")
	// ErrOlder says that a table has to be brought up to date by Setup, when the
	// processes of an older mneme have ended.
	ErrOlder   = errors.New("the table is of an older mneme")
	errForeign = errors.New("the table is not mneme's: its key is not (store_id, sk); name another table in the URL")
)

// ErrOtherBucket says that a table belongs to another bucket than the one named.
var ErrOtherBucket = errors.New("the table belongs to another bucket")

// bucketError is the ErrOtherBucket of a table.
type bucketError struct{ table, its, named string }

func (e *bucketError) Error() string {
	return fmt.Sprintf("the table is the index of bucket %s, not of bucket %s: correct the URL (aws://%s?table=%s), or name another table",
		e.its, e.named, e.its, e.table)
}

func (e *bucketError) Is(target error) bool { return target == ErrOtherBucket }

// checkFormat makes sure that the table holds a log of that bucket in a format
// that this mneme writes. ErrOlder is one that it only reads. It returns the
// owner of the table's bucket, "" for none that is known.
func (t table) checkFormat(ctx context.Context, bucket string) (owner string, err error) {
	i, err := t.get(ctx, formatPartition, formatSort, false)
	if err != nil {
		return "", explainKeys(err)
	}
	if i == nil {
		return "", ErrNotSetUp
	}
	r := row{item: i}
	n, its, owner := r.int("format"), r.text("bucket"), r.text("bucket_owner")
	return owner, t.checkRow(&r, n, its, bucket)
}

// checkRow judges what the FORMAT row has: format n, and its bucket.
func (t table) checkRow(r *row, n int64, its, bucket string) error {
	switch {
	case r.err != nil || n < 1:
		return fmt.Errorf("%w: the FORMAT row holds no format", versionlog.ErrCorrupt)
	case n > formatErased:
		return fmt.Errorf("the table has format %d, this mneme reads up to %d: %w; use a newer mneme", n, formatErased, versionlog.ErrFormat)
	case its == "": // made before tables knew their bucket
		return ErrNotSetUp
	case its != bucket:
		return &bucketError{table: t.name, its: its, named: bucket}
	case n < format:
		return ErrOlder
	}
	return nil
}

// explainKeys turns what a table with other keys answers into advice.
func explainKeys(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() == "ValidationException" {
		return fmt.Errorf("%w (%w)", errForeign, err)
	}
	return err
}

// SetupOptions are the optional settings of Setup. Nil is the default.
type SetupOptions struct {
	// Move makes a table that has stores of another bucket this bucket's, which
	// must have the objects of the other.
	Move bool
	// BucketOwner is the account that the bucket belongs to. Default: the one
	// that the table names already.
	BucketOwner string
}

// Setup makes the table, which exists and whose partition key is the string
// store_id and sort key the string sk, one that holds the log of a bucket. A
// table that is one already is left as it is, but for a new owner of the bucket,
// and but that one of an older format is then of this mneme's: an older one
// refuses it. One of another bucket becomes this one's when it has no stores, or
// when SetupOptions.Move says so. Errors: ErrOtherBucket, versionlog.ErrFormat,
// and those of the AWS SDK, explained.
func Setup(ctx context.Context, db database, tableName, bucket string, opts *SetupOptions) error {
	if opts == nil {
		opts = &SetupOptions{}
	}
	t := table{db: db, name: tableName}
	err := call(ctx, func(ctx context.Context) error { return t.setUp(ctx, bucket, opts) })
	if err != nil {
		return fmt.Errorf("set up table %s: %w", tableName, err)
	}
	return nil
}

func (t table) setUp(ctx context.Context, bucket string, opts *SetupOptions) error {
	owner, err := t.checkFormat(ctx, bucket)
	its := bucket // what the row names
	var other *bucketError
	switch {
	case errors.As(err, &other):
		its, owner = other.its, ""
		if err := t.mayMove(ctx, other, opts.Move); err != nil {
			return err
		}
	case errors.Is(err, ErrNotSetUp):
		its = ""
	case err != nil && !errors.Is(err, ErrOlder):
		return err
	case err == nil && (opts.BucketOwner == "" || opts.BucketOwner == owner):
		return nil
	}
	there, err := t.get(ctx, formatPartition, formatSort, false)
	if err != nil {
		return err
	}
	has := row{item: there}
	i := key(formatPartition, formatSort)
	i["format"], i["bucket"] = number(max(format, has.int("format"))), text(bucket)
	if opts.BucketOwner != "" {
		owner = opts.BucketOwner
	}
	if owner != "" {
		i["bucket_owner"] = text(owner)
	}
	_, err = t.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{
		Put: &types.Put{
			TableName: aws.String(t.name), Item: i,
			ConditionExpression:       aws.String("attribute_not_exists(#bucket) OR #bucket = :its"),
			ExpressionAttributeNames:  map[string]string{"#bucket": "bucket"},
			ExpressionAttributeValues: item{":its": text(its)},
		},
	}}})
	if err != nil && !isConditionFailed(err) { // another made it
		return err
	}
	_, err = t.checkFormat(ctx, bucket)
	return err
}

// raise has an earlier mneme refuse the table.
func (t table) raise(ctx context.Context) error {
	_, err := t.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{
		Update: &types.Update{
			TableName: aws.String(t.name), Key: key(formatPartition, formatSort),
			UpdateExpression: aws.String("SET #format = :erased"), ConditionExpression: aws.String("#format < :erased"),
			ExpressionAttributeNames: map[string]string{"#format": "format"}, ExpressionAttributeValues: item{":erased": number(formatErased)},
		},
	}}})
	if isConditionFailed(err) {
		return nil
	}
	return err
}

// MaySetup returns the error with which Setup would refuse a table because it
// belongs to another bucket. A table that is not there is no error. The owner is
// the account that the table names as the bucket's, "" for none.
func MaySetup(ctx context.Context, db database, tableName, bucket string, move bool) (owner string, err error) {
	t := table{db: db, name: tableName}
	err = call(ctx, func(ctx context.Context) error {
		its, err := t.checkFormat(ctx, bucket)
		var other *bucketError
		if errors.As(err, &other) {
			return t.mayMove(ctx, other, move)
		}
		owner = its
		return nil // Setup says what else there is
	})
	if err != nil {
		return "", fmt.Errorf("set up table %s: %w", tableName, err)
	}
	return owner, nil
}

// mayMove returns why a table may not become another bucket's.
func (t table) mayMove(ctx context.Context, other *bucketError, move bool) error {
	if move {
		return nil
	}
	has, err := t.hasStores(ctx)
	if err == nil && has {
		err = other
	}
	return err
}

func (t table) hasStores(ctx context.Context) (bool, error) {
	rows, _, err := t.page(ctx, between{partition: storesPartition, from: "\x00", to: "\U0010ffff", limit: 1}, nil)
	return len(rows) > 0, err
}

// Orphaned reports whether a bucket has objects of stores while the table lists
// none, as after the table was lost: Rebuild brings them back. Errors: those of
// the AWS SDK, explained.
func Orphaned(ctx context.Context, db database, tableName string, s3 objects, bucket string) (orphaned bool, err error) {
	err = call(ctx, func(ctx context.Context) error {
		has, err := table{db: db, name: tableName}.hasStores(ctx)
		if err != nil || has {
			return err
		}
		orphaned, err = records{s3: s3, bucket: bucket}.any(ctx, storesRoot)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look for stores in bucket %s: %w", bucket, err)
	}
	return orphaned, nil
}

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
	errNotSetUp = errors.New("the table holds no mneme log: make it one with `mneme setup`")
	errForeign  = errors.New("the table is not mneme's: its key is not (store_id, sk); name another table in the URL")
)

// checkFormat makes sure that the table holds a log that this mneme reads.
func (t table) checkFormat(ctx context.Context) error {
	i, err := t.get(ctx, formatPartition, formatSort, false)
	if err != nil {
		return explainKeys(err)
	}
	if i == nil {
		return errNotSetUp
	}
	r := row{item: i}
	switch n := r.int("format"); {
	case r.err != nil || n < 1:
		return fmt.Errorf("%w: the FORMAT row holds no format", versionlog.ErrCorrupt)
	case n > format:
		return fmt.Errorf("the table has format %d, this mneme reads up to %d: %w; use a newer mneme", n, format, versionlog.ErrFormat)
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

// Setup makes the table, which exists and whose partition key is the string
// store_id and sort key the string sk, one that holds a log. A table that is
// one already is left as it is. Errors: versionlog.ErrFormat, and those of the
// AWS SDK, explained.
func Setup(ctx context.Context, db database, tableName string) error {
	t := table{db: db, name: tableName}
	err := call(ctx, func(ctx context.Context) error {
		err := t.checkFormat(ctx)
		if !errors.Is(err, errNotSetUp) {
			return err
		}
		i := key(formatPartition, formatSort)
		i["format"] = number(format)
		_, err = t.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{
			Put: &types.Put{TableName: aws.String(tableName), Item: i, ConditionExpression: aws.String("attribute_not_exists(sk)")},
		}}})
		if err != nil && !isConditionFailed(err) { // another made it
			return err
		}
		return t.checkFormat(ctx)
	})
	if err != nil {
		return fmt.Errorf("set up table %s: %w", tableName, err)
	}
	return nil
}

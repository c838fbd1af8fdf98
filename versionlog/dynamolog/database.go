package dynamolog

import (
	"context"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go/middleware"

	"mneme/internal/wallclock"
)

// database is what a Log needs of the table. *dynamodb.Client is one.
type database interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
}

// timed is a database whose answers tell the time by the clock that all writers have in common.
type timed struct {
	database
	clock *wallclock.Clock
}

// heard notes the Date of an answer.
func (t timed) heard(asked time.Time, answer middleware.Metadata) {
	if at, told := awsmiddleware.GetServerTime(answer); told {
		t.clock.Heard(asked, at, time.Second)
	}
}

// GetItem implements database.
func (t timed) GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	asked := t.clock.Own()
	out, err := t.database.GetItem(ctx, in, opts...)
	if err == nil {
		t.heard(asked, out.ResultMetadata)
	}
	return out, err
}

// BatchGetItem implements database.
func (t timed) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	asked := t.clock.Own()
	out, err := t.database.BatchGetItem(ctx, in, opts...)
	if err == nil {
		t.heard(asked, out.ResultMetadata)
	}
	return out, err
}

// TransactWriteItems implements database.
func (t timed) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	asked := t.clock.Own()
	out, err := t.database.TransactWriteItems(ctx, in, opts...)
	if err == nil {
		t.heard(asked, out.ResultMetadata)
	}
	return out, err
}

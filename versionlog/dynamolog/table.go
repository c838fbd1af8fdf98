package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"

	"mneme/internal/awsconf"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The number of the table's format, which the FORMAT row holds: that of a new table, and
// from its first redaction on. An older mneme, which has no redactions, misreads rows
// without paths, and does not hold commits back.
const (
	format       = 3
	formatErased = 4
)

const (
	maxBatchGet   = 100 // keys of one BatchGetItem
	maxBatchWrite = 25  // requests of one BatchWriteItem
)

// pageLimit is how many rows a Query reads at most; a page also ends at 1 MB.
// Tests have smaller pages.
var pageLimit int32 = 1000

// table is a table and how its rows are read and written.
type table struct {
	db   database
	name string
}

// get returns a row, nil when there is none. Unless it may be stale, the read
// is strongly consistent.
func (t table) get(ctx context.Context, partition, sort string, stale bool) (item, error) {
	out, err := t.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &t.name, Key: key(partition, sort), ConsistentRead: aws.Bool(!stale),
	})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

// now returns what time it is by the servers.
func (t table) now(ctx context.Context) (time.Time, error) {
	out, err := t.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: &t.name, Key: key(formatPartition, formatSort)})
	if err != nil {
		return time.Time{}, err
	}
	now, told := awsmiddleware.GetServerTime(out.ResultMetadata)
	if !told {
		return time.Time{}, errors.New("the server of the table does not tell the time (its answers have no Date)")
	}
	return now, nil
}

// ref names a row.
type ref struct{ partition, sort string }

// getAll returns the rows that there are, each as of a moment of its own, in
// strongly consistent reads.
func (t table) getAll(ctx context.Context, refs []ref) (map[ref]item, error) {
	found := make(map[ref]item, len(refs))
	for len(refs) > 0 {
		n := min(len(refs), maxBatchGet)
		wanted := make([]map[string]types.AttributeValue, n)
		for i, r := range refs[:n] {
			wanted[i] = key(r.partition, r.sort)
		}
		refs = refs[n:]
		for attempt := 0; len(wanted) > 0; attempt++ {
			if err := backoff(ctx, attempt); err != nil {
				return nil, err
			}
			out, err := t.db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
				t.name: {Keys: wanted, ConsistentRead: aws.Bool(true)},
			}})
			if err != nil {
				return nil, err
			}
			for _, i := range out.Responses[t.name] {
				r := row{item: i}
				found[ref{r.text("store_id"), r.text("sk")}] = i
			}
			wanted = out.UnprocessedKeys[t.name].Keys
		}
	}
	return found, nil
}

// backoff waits before an attempt that follows others, with jitter.
func backoff(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return ctx.Err()
	}
	return pause(ctx, rand.N(10*time.Millisecond<<min(attempt, 7)))
}

// between is a range of sort keys of a partition, its ends included.
type between struct {
	partition string
	from, to  string
	backwards bool
	limit     int32 // rows of a page; 0 is pageLimit
}

// startingWith is the range of the sort keys that begin with a prefix, which
// ends with '/' or '#': '0' comes right after the one and '$' after the other.
func startingWith(partition, prefix string) between {
	last := prefix[len(prefix)-1]
	return between{partition: partition, from: prefix, to: prefix[:len(prefix)-1] + string(last+1)}
}

// page reads one page of a range, in one strongly consistent Query. next is nil at the end.
func (t table) page(ctx context.Context, b between, start item) (rows []map[string]types.AttributeValue, next item, err error) {
	if b.from > b.to {
		return nil, nil, nil
	}
	limit := b.limit
	if limit == 0 {
		limit = pageLimit
	}
	ctx, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	out, err := t.db.Query(ctx, &dynamodb.QueryInput{
		TableName: &t.name, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(!b.backwards),
		KeyConditionExpression:   aws.String("#p = :p AND #s BETWEEN :from AND :to"),
		ExpressionAttributeNames: map[string]string{"#p": "store_id", "#s": "sk"},
		ExpressionAttributeValues: item{
			":p": text(b.partition), ":from": text(b.from), ":to": text(b.to),
		},
		ExclusiveStartKey: start, Limit: &limit,
	})
	if err != nil {
		return nil, nil, err
	}
	return out.Items, out.LastEvaluatedKey, nil
}

// A page of a walk that is refused for the load is asked for again after a while,
// so that many walks at once all come to their ends.
const (
	maxRefusals  = 12 // in a row, each of as many requests as the client makes
	longestPause = 5 * time.Second
)

// firstPause is how long a walk pauses after the first refusal, at most. Tests
// have less.
var firstPause = 500 * time.Millisecond

// walkPage is page for a walk: it goes on where it was refused.
func (t table) walkPage(ctx context.Context, b between, start item) (rows []map[string]types.AttributeValue, next item, err error) {
	for refusals := 0; ; refusals++ {
		rows, next, err = t.page(ctx, b, start)
		if !isThrottled(err) || refusals == maxRefusals {
			return rows, next, err
		}
		if pause(ctx, rand.N(min(longestPause, firstPause<<min(refusals, 6)))) != nil {
			return nil, nil, err
		}
	}
}

// isThrottled reports whether a request was refused because there are too many.
func isThrottled(err error) bool {
	switch codeOf(err) {
	case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded", "Throttling":
		return true
	}
	return false
}

// rows yields the rows of a range.
func (t table) rows(ctx context.Context, b between) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		var start item
		for {
			rows, next, err := t.walkPage(ctx, b, start)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, i := range rows {
				if !yield(i, nil) {
					return
				}
			}
			if start = next; start == nil {
				return
			}
		}
	}
}

// below yields the rows whose sort key begins with a prefix, see startingWith.
func (t table) below(ctx context.Context, partition, prefix string) iter.Seq2[item, error] {
	return t.belowAfter(ctx, partition, prefix, "")
}

// belowAfter yields those of them whose sort key is behind after.
func (t table) belowAfter(ctx context.Context, partition, prefix, after string) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		b := startingWith(partition, prefix)
		if after != "" {
			b.from = max(b.from, after+"\x00")
		}
		for i, err := range t.rows(ctx, b) {
			if err == nil && !strings.HasPrefix(sortOf(i), prefix) {
				continue // the end of the range, which is no part of it
			}
			if !yield(i, err) {
				return
			}
		}
	}
}

// write puts and deletes rows, each on its own, until all are done.
func (t table) write(ctx context.Context, requests []types.WriteRequest) error {
	for len(requests) > 0 {
		n := min(len(requests), maxBatchWrite)
		if err := t.writeBatch(ctx, requests[:n]); err != nil {
			return err
		}
		requests = requests[n:]
	}
	return nil
}

// writeBatch writes as many rows as one request takes, within a time limit.
func (t table) writeBatch(ctx context.Context, batch []types.WriteRequest) error {
	ctx, cancel := awsconf.WithTimeout(ctx)
	defer cancel()
	for attempt := 0; len(batch) > 0; attempt++ {
		if err := backoff(ctx, attempt); err != nil {
			return err
		}
		out, err := t.db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{t.name: batch},
		})
		if err != nil {
			return err
		}
		batch = out.UnprocessedItems[t.name]
	}
	return nil
}

func putRequest(i item) types.WriteRequest {
	return types.WriteRequest{PutRequest: &types.PutRequest{Item: i}}
}

func deleteRequest(partition, sort string) types.WriteRequest {
	return types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key(partition, sort)}}
}

// meta returns the META row of a store. ErrNotFound.
func (t table) meta(ctx context.Context, storeID string) (*meta, error) {
	if !isStoreID(storeID) {
		return nil, notFound(storeID)
	}
	i, err := t.get(ctx, storeID, metaSort, false)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return nil, notFound(storeID)
	}
	return metaOf(i)
}

func notFound(storeID string) error {
	return fmt.Errorf("store %s: %w", storeID, versionlog.ErrNotFound)
}

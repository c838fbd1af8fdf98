package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"mneme/internal/awsconf"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Rebuild makes the rows of a store anew from what the bucket holds, which is
// enough. The store is named by id or slug; "" is every store. The table must
// exist; it need not have been set up. Records that the table still has and the
// bucket lacks are put into the bucket first.
//
// While it runs, the store is not to be found; should it be interrupted, run it
// again. It calls progress, which may be nil, with how many of a store's records
// it has read. Errors: ErrOtherBucket as for Setup without move,
// versionlog.ErrNotFound when the bucket has no such store,
// versionlog.ErrCorrupt when its records are not one whole history, and those
// of the AWS SDK, explained.
func Rebuild(ctx context.Context, db database, tableName string, s3 objects, bucket, store string, progress func(done, total int)) error {
	if err := Setup(ctx, db, tableName, bucket, nil); err != nil {
		return err
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	l := tools(ctx, db, tableName, s3, bucket)
	defer l.endLife()
	if err := l.describeAgain(ctx, store); err != nil {
		return fmt.Errorf("rebuild the index: %w", awsconf.Explain(err))
	}
	found := false
	for m, err := range l.described(ctx) {
		if err != nil {
			return fmt.Errorf("rebuild the index: %w", awsconf.Explain(err))
		}
		if store != "" && store != m.ID && store != m.Slug {
			continue
		}
		found = true
		if err := l.rebuild(ctx, m.ID, progress); err != nil {
			return fmt.Errorf("rebuild the index of store %s: %w", m.Slug, awsconf.Explain(err))
		}
	}
	if !found && store != "" {
		return fmt.Errorf("rebuild the index: the bucket has no store %s: %w", store, versionlog.ErrNotFound)
	}
	return nil
}

// tools returns a Log whose parts work on a table that may hold anything.
func tools(ctx context.Context, db database, tableName string, s3 objects, bucket string) *Log {
	l := &Log{
		table: table{db: db, name: tableName}, records: records{s3: s3, bucket: bucket}, readOnly: true,
		stores: map[string]*store{}, closing: make(chan struct{}), logger: slog.New(slog.DiscardHandler),
	}
	l.life, l.endLife = context.WithCancel(context.WithoutCancel(ctx))
	return l
}

// describeAgain writes the description of a store that the table knows, should
// the bucket lack it.
func (l *Log) describeAgain(ctx context.Context, store string) error {
	found, err := l.StoreNamed(ctx, store)
	if errors.Is(err, versionlog.ErrNotFound) {
		found, err = l.Store(ctx, store)
	}
	if errors.Is(err, versionlog.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.putDescription(ctx, found.ID)
}

// described yields the stores that the bucket describes.
func (l *Log) described(ctx context.Context) func(yield func(*meta, error) bool) {
	return func(yield func(*meta, error) bool) {
		var next *string
		for {
			out, err := l.records.s3.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
				Bucket: &l.records.bucket, Prefix: aws.String(storesRoot), Delimiter: aws.String("/"), ContinuationToken: next,
			})
			if err != nil {
				yield(nil, err)
				return
			}
			for _, p := range out.CommonPrefixes {
				id := strings.TrimSuffix(strings.TrimPrefix(aws.ToString(p.Prefix), storesRoot), "/")
				data, err := l.records.get(ctx, descriptionKey(id))
				if errors.Is(err, versionlog.ErrNotFound) {
					continue // what a deleted store left
				}
				var m *meta
				if err == nil {
					if m, err = parseDescription(data); err != nil {
						err = fmt.Errorf("object %s: %w", descriptionKey(id), err)
					}
				}
				if !yield(m, err) || err != nil {
					return
				}
			}
			if next = out.NextContinuationToken; next == nil {
				return
			}
		}
	}
}

func (l *Log) rebuild(ctx context.Context, id string, progress func(done, total int)) error {
	if err := l.rescue(ctx, id); err != nil {
		return err
	}
	wanted := map[string]bool{metaSort: true}
	var batch []types.WriteRequest
	flush := func() error {
		err := l.table.write(ctx, batch)
		batch = batch[:0]
		return err
	}
	closed := false
	r, err := l.replayStore(ctx, id, 0, func(i item) error {
		if !closed { // only now is it known that there is a history to rebuild from
			closed = true
			if err := l.closeStore(ctx, id); err != nil {
				return err
			}
		}
		wanted[sortOf(i)] = true
		if expired(i) {
			return nil
		}
		if batch = append(batch, putRequest(i)); len(batch) < maxBatchWrite {
			return nil
		}
		return flush()
	}, progress)
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	for i, err := range l.table.rows(ctx, between{partition: id, from: "\x00", to: "\U0010ffff"}) {
		if err != nil {
			return err
		}
		if !wanted[sortOf(i)] {
			batch = append(batch, deleteRequest(id, sortOf(i)))
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return l.reopenStore(ctx, r.meta)
}

// rescue puts the records that only the table has into the bucket.
func (l *Log) rescue(ctx context.Context, id string) error {
	spans, err := l.recordSpans(ctx, id)
	if err != nil {
		return err
	}
	there := make(map[span]bool, len(spans))
	for _, of := range spans {
		there[of] = true
	}
	for i, err := range l.table.below(ctx, id, logPrefix) {
		if err != nil {
			return err
		}
		commits, err := commitsOf(i)
		if err != nil {
			continue // the bucket may have a better one; if not, the replay says so
		}
		of := spanOf(commits)
		if there[of] {
			continue
		}
		r := row{item: i}
		if err := l.records.put(ctx, id, of, r.bytes("record")); err != nil {
			return err
		}
	}
	m, err := l.table.meta(ctx, id)
	if errors.Is(err, versionlog.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return l.putDescription(ctx, m.ID)
}

// closeStore removes what makes a store one, so that nobody writes to it, once
// the bucket has what its META tells of.
func (l *Log) closeStore(ctx context.Context, id string) error {
	m, err := l.table.meta(ctx, id)
	if errors.Is(err, versionlog.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	spans, err := l.recordSpans(ctx, id)
	if err != nil {
		return err
	}
	if m.tip.Seq > 0 && !slices.ContainsFunc(spans, func(of span) bool { return of.last == m.tip.Seq }) {
		return fmt.Errorf("the table tells of commit %d, which the bucket lacks; commits are still being made: end them, and run it again", m.tip.Seq)
	}
	return l.transact(ctx, types.TransactWriteItem{Delete: &types.Delete{
		TableName: &l.table.name, Key: key(id, metaSort), ConditionExpression: aws.String("#seq = :seq"),
		ExpressionAttributeNames: map[string]string{"#seq": "head_seq"}, ExpressionAttributeValues: item{":seq": number(m.tip.Seq)},
	}})
}

// reopenStore makes a store one again.
func (l *Log) reopenStore(ctx context.Context, m *meta) error {
	i := key(slugPrefix+m.Slug, slugSort)
	i["id"] = text(m.ID)
	free := putNew(l.table.name, i)
	free.Put.ConditionExpression = aws.String("attribute_not_exists(sk) OR #id = :id")
	free.Put.ExpressionAttributeNames = map[string]string{"#id": "id"}
	free.Put.ExpressionAttributeValues = item{":id": text(m.ID)}
	listed := key(storesPartition, m.Slug)
	listed["id"] = text(m.ID)
	err := l.transact(ctx, putNew(l.table.name, m.item()), free, put(l.table.name, listed))
	if isConditionFailed(err) {
		return fmt.Errorf("another store has the name %s: %w", m.Slug, versionlog.ErrExists)
	}
	return err
}

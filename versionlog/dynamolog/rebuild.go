package dynamolog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"mneme/internal/awsconf"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Rebuild makes the rows of a store again from the bucket alone. store is an id or a slug;
// "" is every store. The table must exist; it need not have been set up. Records that the
// table still has and the bucket lacks, or has damaged, are put into the bucket first, if
// they belong to the one history that bucket and table make together.
//
// In its last part the store cannot be found; if the process is killed there, run it again.
// It calls progress, which may be nil, with how many of a store's records it has read.
// Errors: ErrOtherBucket as for Setup without move, versionlog.ErrNotFound when the bucket
// has no such store, or, of every store, records of one that neither bucket nor table
// describes; the others were rebuilt then; versionlog.ErrCorrupt when the records in the
// bucket and in the table are not one whole history, in which case nothing was changed, and
// those of the AWS SDK, explained.
func Rebuild(ctx context.Context, db database, tableName string, s3 objects, bucket, store string, progress func(done, total int)) error {
	if err := Setup(ctx, db, tableName, bucket, nil); err != nil {
		return err
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	l := tools(ctx, db, tableName, s3, bucket)
	defer l.endLife()
	if err := l.describeStores(ctx, store); err != nil {
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
		return fmt.Errorf("rebuild the index: %w", awsconf.Explain(l.undescribed(ctx, store)))
	}
	if store == "" {
		if err := l.allUndescribed(ctx); err != nil {
			return fmt.Errorf("rebuild the index: %w", awsconf.Explain(err))
		}
	}
	return nil
}

// allUndescribed is the error of the stores of which the bucket has records and no
// description, nil if it has none: what is described of the bucket is not all that was in it.
func (l *Log) allUndescribed(ctx context.Context) error {
	var errs []error
	for id, err := range l.storesInBucket(ctx) {
		if err != nil {
			return err
		}
		if _, err := l.records.get(ctx, descriptionKey(id)); err == nil {
			continue
		} else if !errors.Is(err, versionlog.ErrNotFound) {
			return err
		}
		some, err := l.records.any(ctx, recordPrefix(id))
		if err != nil {
			return err
		}
		if some {
			errs = append(errs, errUndescribed(id))
		}
	}
	return errors.Join(errs...)
}

func errUndescribed(store string) error {
	return fmt.Errorf("the bucket has records of store %s and no %s, so it was deleted or that object was lost: %w; bring back an earlier version of the object",
		store, descriptionKey(store), versionlog.ErrNotFound)
}

// undescribed is the error of a store that neither bucket nor table describes.
func (l *Log) undescribed(ctx context.Context, store string) error {
	some := false
	if isStoreID(store) {
		var err error
		if some, err = l.records.any(ctx, recordPrefix(store)); err != nil {
			return err
		}
	}
	if some {
		return errUndescribed(store)
	}
	return fmt.Errorf("the bucket has no store %s: %w", store, versionlog.ErrNotFound)
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

// describeStores writes the descriptions that the bucket lacks of stores that
// the table knows: of all, or of the one that store names.
func (l *Log) describeStores(ctx context.Context, store string) error {
	known, err := versionlog.AllStores(ctx, l)
	if store != "" {
		var one versionlog.Store
		if one, err = l.StoreNamed(ctx, store); errors.Is(err, versionlog.ErrNotFound) {
			one, err = l.Store(ctx, store)
		}
		known = []versionlog.Store{one}
	}
	if errors.Is(err, versionlog.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, s := range known {
		m, err := l.table.meta(ctx, s.ID)
		if err == nil {
			err = l.describeAgain(ctx, m)
		}
		if err != nil && !errors.Is(err, versionlog.ErrNotFound) {
			return fmt.Errorf("store %s: %w", s.Slug, err)
		}
	}
	return nil
}

// describeAgain writes the description of a store that the table knows, if the
// bucket has none that can be read, or one from before the store was updated or archived.
func (l *Log) describeAgain(ctx context.Context, m *meta) error {
	data, err := l.records.get(ctx, descriptionKey(m.ID))
	if errors.Is(err, versionlog.ErrNotFound) {
		return l.putDescription(ctx, m.ID)
	}
	if err != nil {
		return err
	}
	there, err := parseDescription(data)
	switch {
	case errors.Is(err, versionlog.ErrFormat):
		return fmt.Errorf("object %s: %w", descriptionKey(m.ID), err)
	case err != nil:
		return l.putDescription(ctx, m.ID)
	case there.creation != m.creation:
		return fmt.Errorf("%w: the bucket describes the store of that id that was made at %s, the table has the one of %s; neither was touched",
			versionlog.ErrCorrupt, there.CreatedAt.UTC().Format(time.RFC3339), m.CreatedAt.UTC().Format(time.RFC3339))
	case there.ArchivedAt.IsZero() && !m.ArchivedAt.IsZero(), there.UpdatedAt.Before(m.UpdatedAt), there.Epoch < m.Epoch:
		return l.putDescription(ctx, m.ID)
	}
	return nil
}

// described yields the stores that the bucket describes.
func (l *Log) described(ctx context.Context) func(yield func(*meta, error) bool) {
	return func(yield func(*meta, error) bool) {
		for id, err := range l.storesInBucket(ctx) {
			var m *meta
			if err == nil {
				var data []byte
				data, err = l.records.get(ctx, descriptionKey(id))
				if errors.Is(err, versionlog.ErrNotFound) {
					continue // what a deleted store left, or see allUndescribed
				}
				if err == nil {
					if m, err = parseDescription(data); err != nil {
						err = fmt.Errorf("object %s: %w", descriptionKey(id), err)
					}
				}
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// storesInBucket yields the ids of the stores of which the bucket has objects.
func (l *Log) storesInBucket(ctx context.Context) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		var next *string
		for {
			out, err := l.records.s3.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
				Bucket: &l.records.bucket, Prefix: aws.String(storesRoot), Delimiter: aws.String("/"), ContinuationToken: next,
			})
			if err != nil {
				yield("", err)
				return
			}
			for _, p := range out.CommonPrefixes {
				if !yield(strings.TrimSuffix(strings.TrimPrefix(aws.ToString(p.Prefix), storesRoot), "/"), nil) {
					return
				}
			}
			if next = out.NextContinuationToken; next == nil {
				return
			}
		}
	}
}

// rebuild makes the rows of one store. Nothing is changed before the survey has
// found one history. While the store can still be used, it puts into the bucket
// what that lacks, and all rows that change with redactions only; then it takes META away,
// brings heads and names up to date, and puts META back.
func (l *Log) rebuild(ctx context.Context, id string, progress func(done, total int)) error {
	found, err := l.surveyStore(ctx, id)
	if err != nil {
		return err
	}
	if err := l.rescue(ctx, id, found); err != nil {
		return err
	}
	if err := (shared{l.records, id}).clear(ctx); err != nil { // the next commits make them again
		return err
	}
	wanted := map[string]bool{metaSort: true}
	for _, seq := range found.erased {
		wanted[eraseSort(seq)] = true // which stays where it is
	}
	var heads []types.WriteRequest
	var batch []item
	r := newReplay(found.erased, func(i item) error {
		sort := sortOf(i)
		wanted[sort] = true
		switch {
		case expired(i):
			return nil
		case isPath(sort) || strings.HasPrefix(sort, leftPrefix):
			heads = append(heads, putRequest(i))
			return nil
		}
		if batch = append(batch, i); len(batch) < maxRows {
			return nil
		}
		err := l.restoreRows(ctx, id, found, batch)
		batch = batch[:0]
		return err
	})
	r, err = l.replayInto(ctx, r, id, 0, progress)
	if err == nil {
		err = l.restoreRows(ctx, id, found, batch)
	}
	if err == nil && r.meta.tip.Digest != found.tip.Digest {
		err = errBusy
	}
	if err != nil {
		return err
	}
	if r.meta.fence, err = l.fenceFor(ctx, id, found.meta, r.meta); err != nil {
		return err
	}
	if r.meta.redacted > 0 || r.meta.fence > 0 {
		if err := l.table.raise(ctx); err != nil {
			return err
		}
	}
	if err := l.closeStore(ctx, id, found.meta); err != nil {
		return err
	}
	err = l.settleRows(ctx, id, heads, wanted)
	if err == nil {
		err = l.reopenStore(ctx, r.meta)
	}
	if err != nil && found.meta != nil {
		err = errors.Join(err, l.putBack(ctx, found.meta))
	}
	if err != nil {
		return err
	}
	return l.putDescription(ctx, id) // the records say more than the one that is there
}

// fenceFor is the fence of a store that is rebuilt. Where META is gone, and contents may have
// been condemned, it is one that the store never had: a process may have looked for contents
// when it was the last one, or be deleting some.
func (l *Log) fenceFor(ctx context.Context, id string, was, now *meta) (uint64, error) {
	if was != nil {
		return was.fence, nil
	}
	i, err := l.table.get(ctx, formatPartition, formatSort, false)
	if err != nil {
		return 0, err
	}
	r := row{item: i}
	if r.int("format") < formatErased && now.redacted == 0 {
		gone, err := l.store(id).goneRows(ctx)
		if err != nil || len(gone) == 0 {
			return 0, err
		}
	}
	at, err := l.table.now(ctx)
	return uint64(at.UnixMicro() + rand.Int64N(int64(time.Second/time.Microsecond))), errors.Join(err, r.err)
}

// settleRows writes the rows that change with every commit, and removes those
// that follow from no record.
func (l *Log) settleRows(ctx context.Context, id string, heads []types.WriteRequest, wanted map[string]bool) error {
	if err := l.table.write(ctx, heads); err != nil {
		return err
	}
	now, err := l.table.now(ctx)
	if err != nil {
		return err
	}
	var gone, paid []types.WriteRequest
	for i, err := range l.table.rows(ctx, between{partition: id, from: "\x00", to: "\U0010ffff"}) {
		if err != nil {
			return err
		}
		sort := sortOf(i)
		if wanted[sort] || isNote(sort) && !strings.HasPrefix(sort, erasePrefix) {
			continue
		}
		if o, err := owedOf(i); err == nil && strings.HasPrefix(sort, outPrefix) && !o.guarded && wanted[logSort(o.last)] {
			// A process may be paying by single writes, which a redaction waits for.
			i["paid"] = microsOf(now)
			paid = append(paid, putRequest(i))
			continue
		}
		gone = append(gone, deleteRequest(id, sort))
	}
	return l.table.write(ctx, append(gone, paid...))
}

// rescue puts the records that only the table has into the bucket, and the
// description that only META has.
func (l *Log) rescue(ctx context.Context, id string, found *survey) error {
	for _, of := range found.lacking {
		_, records, err := l.recorded(ctx, id, of)
		switch {
		case err != nil:
		case found.damaged[of]:
			err = l.records.replace(ctx, recordKey(id, of), records)
		default:
			err = l.records.put(ctx, id, of, records)
		}
		if err != nil {
			return err
		}
	}
	if found.meta == nil {
		return nil
	}
	return l.describeAgain(ctx, found.meta)
}

// closeStore removes the rows that make a store exist, so that no process writes to it, if
// it is as it was surveyed.
func (l *Log) closeStore(ctx context.Context, id string, m *meta) error {
	if m == nil {
		return nil
	}
	condition, names, values := m.asJudged()
	err := l.transact(ctx, types.TransactWriteItem{Delete: &types.Delete{
		TableName: &l.table.name, Key: key(id, metaSort), ConditionExpression: &condition,
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}})
	if isConditionFailed(err) {
		return errBusy
	}
	return err
}

// putBack makes a store again what it was, after its rows could not be settled.
// It does so also when the caller has given up.
func (l *Log) putBack(ctx context.Context, m *meta) error {
	ctx, cancel := awsconf.WithTimeout(context.WithoutCancel(ctx))
	defer cancel()
	err := l.transact(ctx, putNew(l.table.name, m.item()))
	if err == nil || isConditionFailed(err) { // it is there
		return nil
	}
	return fmt.Errorf("the store is hidden until this is run again: %w", err)
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

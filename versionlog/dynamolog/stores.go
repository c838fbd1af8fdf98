package dynamolog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"strings"

	"mneme/internal/awsconf"
	"mneme/versionlog"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// CreateStore adds a store, in one transaction. The id must be at most 128 bytes
// and contain neither '#' nor '/', else ErrInvalid; so with a slug of more than
// 1,000.
func (l *Log) CreateStore(ctx context.Context, s versionlog.Store) error {
	return l.changeStores(ctx, "create store "+s.Slug, func(ctx context.Context) error {
		if s.Slug == "" || len(s.Slug) > 1000 || !isStoreID(s.ID) {
			return fmt.Errorf("%w: id %q or slug %q cannot be a store's", versionlog.ErrInvalid, s.ID, s.Slug)
		}
		m := &meta{Store: s, creation: rand.Text()}
		m.Epoch = max(m.Epoch, 1)
		slug, listed := key(slugPrefix+s.Slug, slugSort), key(storesPartition, s.Slug)
		slug["id"], listed["id"] = text(s.ID), text(s.ID)
		name := l.table.name
		if err := l.store(s.ID).mayBegin(ctx); err != nil {
			return err
		}
		err := l.transact(ctx, putNew(name, m.item()), putNew(name, slug), put(name, listed), put(name, descriptionOut(s.ID, 0)))
		if err != nil && !l.isThere(ctx, m) {
			if isConditionFailed(err) {
				return versionlog.ErrExists
			}
			return err
		}
		l.store(s.ID).describeLater()
		return nil
	})
}

// mayBegin makes sure that no collector is deleting contents of a deleted store of that id:
// they may be those of the new one. errBeingRemoved.
func (s *store) mayBegin(ctx context.Context) error {
	ahead, void, err := s.goneAhead(ctx)
	if err == nil && len(ahead) > 0 {
		err = errBeingRemoved
	}
	if err != nil {
		return err
	}
	return s.removeGone(ctx, void)
}

// isThere reports whether a store is there although the reply that says so was
// lost.
func (l *Log) isThere(ctx context.Context, m *meta) bool {
	found, err := l.table.meta(ctx, m.ID)
	return err == nil && found.creation == m.creation
}

// transact sends a transaction, again while others are in its way.
func (l *Log) transact(ctx context.Context, items ...types.TransactWriteItem) error {
	for attempt := 0; ; attempt++ {
		err := backoff(ctx, attempt)
		if err != nil {
			return err
		}
		_, err = l.table.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items})
		var canceled *types.TransactionCanceledException
		if !errors.As(err, &canceled) || isConditionFailed(err) || isPermanent(err) {
			return err
		}
	}
}

// changeStores makes one change of the stores.
func (l *Log) changeStores(ctx context.Context, what string, change func(context.Context) error) error {
	if l.readOnly {
		return fmt.Errorf("%s: %w", what, versionlog.ErrReadOnly)
	}
	if err := call(ctx, change); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Store returns the store of an id.
func (l *Log) Store(ctx context.Context, id string) (s versionlog.Store, err error) {
	err = call(ctx, func(ctx context.Context) error {
		m, err := l.table.meta(ctx, id)
		if err == nil {
			s = m.Store
		}
		return err
	})
	return s, err
}

// StoreNamed returns the store of a slug.
func (l *Log) StoreNamed(ctx context.Context, slug string) (s versionlog.Store, err error) {
	err = call(ctx, func(ctx context.Context) error {
		missing := fmt.Errorf("store %s: %w", slug, versionlog.ErrNotFound)
		if slug == "" || len(slug) > 1000 {
			return missing
		}
		i, err := l.table.get(ctx, slugPrefix+slug, slugSort, false)
		if err != nil {
			return err
		}
		if i == nil {
			return missing
		}
		r := row{item: i}
		m, err := l.table.meta(ctx, r.text("id"))
		if errors.Is(err, versionlog.ErrNotFound) || err == nil && m.Slug != slug {
			return missing
		}
		if err == nil {
			s = m.Store
		}
		return err
	})
	return s, err
}

// Stores yields the stores behind a slug, ordered by slug.
func (l *Log) Stores(ctx context.Context, after string) iter.Seq2[versionlog.Store, error] {
	return func(yield func(versionlog.Store, error) bool) {
		var stores []versionlog.Store
		err := call(ctx, func(ctx context.Context) (err error) {
			stores, err = l.storesBehind(ctx, after)
			return err
		})
		if err != nil {
			yield(versionlog.Store{}, fmt.Errorf("list stores: %w", err))
			return
		}
		for _, s := range stores {
			if !yield(s, nil) {
				return
			}
		}
	}
}

func (l *Log) storesBehind(ctx context.Context, after string) (stores []versionlog.Store, err error) {
	var refs []ref
	listed := map[ref]bool{}
	for i, err := range l.table.rows(ctx, between{partition: storesPartition, from: after + "\x00", to: "\U0010ffff"}) {
		if err != nil {
			return nil, err
		}
		r := row{item: i}
		if one := (ref{r.text("id"), metaSort}); !listed[one] { // else the list is damaged, as Check tells
			listed[one], refs = true, append(refs, one)
		}
	}
	found, err := l.table.getAll(ctx, refs)
	if err != nil {
		return nil, err
	}
	for _, r := range refs {
		if found[r] == nil { // deleted just now
			continue
		}
		m, err := metaOf(found[r])
		if err != nil {
			return nil, err
		}
		stores = append(stores, m.Store)
	}
	return stores, nil
}

// DeleteStore removes a store with its history and all its objects: first what
// makes it a store, in one transaction, and then the rest. Of an id that is no
// store's it removes what an interrupted deletion left; ErrNotFound means that
// nothing was.
func (l *Log) DeleteStore(ctx context.Context, id string) error {
	err := l.changeStores(ctx, "delete store "+id, func(ctx context.Context) error {
		m, err := l.table.meta(ctx, id)
		if errors.Is(err, versionlog.ErrNotFound) && isStoreID(id) {
			return l.mayRemoveRest(ctx, id)
		}
		if err != nil {
			return err
		}
		remove := func(partition, sort, attribute, value string) types.TransactWriteItem {
			return types.TransactWriteItem{Delete: &types.Delete{
				TableName: &l.table.name, Key: key(partition, sort), ConditionExpression: aws.String("#a = :a"),
				ExpressionAttributeNames: map[string]string{"#a": attribute}, ExpressionAttributeValues: item{":a": text(value)},
			}}
		}
		err = l.transact(ctx, remove(id, metaSort, "creation", m.creation),
			remove(slugPrefix+m.Slug, slugSort, "id", id), remove(storesPartition, m.Slug, "id", id))
		if err != nil {
			if _, lookErr := l.table.meta(ctx, id); !errors.Is(lookErr, versionlog.ErrNotFound) {
				return err
			}
		}
		l.store(id).forget()
		return nil
	})
	if err != nil {
		return err
	}
	if err := l.removeRest(ctx, id); err != nil {
		return fmt.Errorf("delete store %s: %w: %w", id, ErrLeft, awsconf.Explain(err))
	}
	return nil
}

var (
	// ErrLeft says that a store is deleted, and not all of it is gone. Deleting it again,
	// by its id, removes the rest.
	ErrLeft = errors.New("it is deleted, but rows or objects of it are left")
	// ErrRebuilding says that a store cannot be found, but is not deleted: Rebuild is at
	// work on it, or has to be run again.
	ErrRebuilding = errors.New("its index is being rebuilt, or that was interrupted")
)

// mayRemoveRest returns nil when something is left of a store that was deleted,
// and ErrNotFound when nothing is.
func (l *Log) mayRemoveRest(ctx context.Context, id string) error {
	data, err := l.records.get(ctx, descriptionKey(id))
	if err == nil {
		return l.mayRemoveDescribed(ctx, id, data)
	}
	if !errors.Is(err, versionlog.ErrNotFound) {
		return err
	}
	rows, _, err := l.table.page(ctx, between{partition: id, from: "\x00", to: "\U0010ffff", limit: 1}, nil)
	if err != nil || len(rows) > 0 {
		return err
	}
	if some, err := l.records.any(ctx, storePrefix(id)); err != nil || some {
		return err
	}
	return notFound(id)
}

// mayRemoveDescribed returns an error when a store is hidden only because its
// index is being rebuilt: a deletion takes its name away first, a rebuild never.
func (l *Log) mayRemoveDescribed(ctx context.Context, id string, description []byte) error {
	m, err := parseDescription(description)
	if err != nil {
		return err
	}
	i, err := l.table.get(ctx, slugPrefix+m.Slug, slugSort, false)
	if err != nil {
		return err
	}
	if r := (row{item: i}); i != nil && r.text("id") == id {
		return ErrRebuilding
	}
	return nil
}

// removeRest removes the rows and objects of a store that is none any more. How
// long that takes depends on how many they are, so each request has a time limit
// and the whole has none.
func (l *Log) removeRest(ctx context.Context, id string) error {
	l.store(id).stopRecording()
	l.store(id).removeSnapshot()
	// First what makes the bucket describe a store: should this be interrupted,
	// no rebuild brings the store back.
	if err := l.records.remove(ctx, descriptionKey(id)); err != nil {
		return err
	}
	var batch []types.WriteRequest
	for i, err := range l.table.rows(ctx, between{partition: id, from: "\x00", to: "\U0010ffff"}) {
		if err != nil {
			return err
		}
		if strings.HasPrefix(sortOf(i), gonePrefix) { // which a new store of that id must see, see mayBegin
			continue
		}
		if batch = append(batch, deleteRequest(id, sortOf(i))); len(batch) < maxBatchWrite {
			continue
		}
		if err := l.table.write(ctx, batch); err != nil {
			return err
		}
		batch = batch[:0]
	}
	if err := l.table.write(ctx, batch); err != nil {
		return err
	}
	if err := l.store(id).removeVoid(ctx); err != nil {
		return err
	}
	return l.records.removeAll(ctx, id)
}

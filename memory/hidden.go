package memory

import (
	"context"
	"errors"
	"iter"
	"time"

	"mneme/versionlog"
)

// Hidden opens the hidden store of a name, such as "access", and makes it where there is none.
func (l *Library) Hidden(ctx context.Context, name string, author *Author) (*Store, error) {
	slug := "." + name
	s, err := l.log.StoreNamed(ctx, slug)
	if errors.Is(err, versionlog.ErrNotFound) {
		s = versionlog.Store{
			ID: versionlog.NewStoreID(), Slug: slug, Name: slug,
			Limits:    versionlog.Limits{MaxMemoryBytes: DefaultMaxMemoryBytes, Content: versionlog.ContentText},
			CreatedAt: time.Now().UTC().Truncate(time.Microsecond),
		}
		if err = l.log.CreateStore(ctx, s); errors.Is(err, versionlog.ErrExists) { // another has just made it
			s, err = l.log.StoreNamed(ctx, slug)
		}
	}
	if err != nil {
		return nil, err
	}
	return l.Open(ctx, s.ID, author)
}

// StoresAfter yields all stores but hidden ones, archived ones too, in byte order of their
// slugs, from behind a slug on; "" is from the first.
func (l *Library) StoresAfter(ctx context.Context, after string) iter.Seq2[versionlog.Store, error] {
	return func(yield func(versionlog.Store, error) bool) {
		for s, err := range l.log.Stores(ctx, after) {
			if err == nil && IsHidden(s) {
				continue
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

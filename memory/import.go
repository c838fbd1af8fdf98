package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"mneme/cas"
	"mneme/versionlog"
)

// Adopt makes a store that was made elsewhere, as it was before its first commit, so that
// its history can come by ImportHistory. versionlog.ErrExists when its id or slug is taken;
// versionlog.ErrInvalid, ErrBadName, ErrBadLimits; that of versionlog.Capabilities.Left.
func (l *Library) Adopt(ctx context.Context, s versionlog.Store) error {
	if err := CheckForeign(s); err != nil {
		return err
	}
	if left := l.log.Capabilities().Left; left != nil {
		if err := left(ctx, s.ID); err != nil {
			return err
		}
	}
	return l.log.CreateStore(ctx, s)
}

// CheckForeign reports why a description from elsewhere cannot be that of a store:
// versionlog.ErrInvalid, ErrBadName, ErrBadLimits.
func CheckForeign(s versionlog.Store) error {
	if err := versionlog.CheckStoreID(s.ID); err != nil {
		return fmt.Errorf("%w: %w", versionlog.ErrInvalid, err)
	}
	if s.Slug == "" || slugOf(s.Slug) != s.Slug || len(s.Slug) > MaxStoreName+tailBytes {
		return fmt.Errorf("%w: %.40q is no slug; want lower-case letters, digits and hyphens, at most %d", ErrBadName, s.Slug, MaxStoreName+tailBytes)
	}
	return checkStore(s)
}

// CheckImport returns the error that ImportHistory has for a commit whatever comes before it,
// see versionlog.CheckImport.
func (l *Library) CheckImport(c *versionlog.Commit) error { return versionlog.CheckImport(l.log, c) }

// ImportContents stores bytes that commits to import need, several at once, durable when it
// returns nil. Bytes that are there are left alone. workers is how many are stored at once.
func (l *Library) ImportContents(ctx context.Context, id string, contents iter.Seq2[[]byte, error], workers int) error {
	blobs, err := l.blobs(id)
	if err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(max(1, workers))
	for data, err := range contents {
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		if groupCtx.Err() != nil {
			break
		}
		put := func() error {
			_, err := blobs.Put(groupCtx, data)
			return err
		}
		if len(data) <= putAlone {
			group.Go(put)
		} else if err := put(); err != nil {
			return errors.Join(err, group.Wait())
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// putAlone is the size in bytes above which a content to import is not in memory together
// with more than those that are being stored.
const putAlone = 1 << 20

// ImportHistory appends the commits of a store's history that it lacks, as
// versionlog.Import says. Their contents are stored before. The witness gets them; it is
// asked nothing, since the commits that it misses may be those imported.
func (l *Library) ImportHistory(ctx context.Context, id string, commits iter.Seq2[*versionlog.Commit, error]) error {
	if err := versionlog.Import(ctx, l.log, id, commits); err != nil || l.witness == nil {
		return err
	}
	s, err := l.log.Store(ctx, id)
	if err != nil {
		return err
	}
	return l.witness.Check(ctx, l.log, s)
}

// Lacks reports whether the store has lost the bytes of a content, which it reads.
func (s *Store) Lacks(ctx context.Context, d cas.Digest) (bool, error) {
	_, err := s.blobs.Get(ctx, d)
	if errors.Is(err, cas.ErrNotFound) || errors.Is(err, cas.ErrCorrupt) {
		return true, nil
	}
	return false, err
}

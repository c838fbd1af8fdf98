package access

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"mneme/cas"
	"mneme/memory"
	"mneme/versionlog"
)

// Log returns the log of the caller's library, as far as the caller reaches: each method
// checks the right that it requires. A store that the caller does not see does not exist
// for it. The caller's commits have its name, and its session if it has one.
func (c *Caller) Log() versionlog.Log { return narrowed{c, c.Library.Ruled()} }

// check returns an error where the caller lacks a right in a store, or does not see it.
func (c *Caller) check(ctx context.Context, storeID string, r Right) error {
	err := c.Allow(storeID, Read)
	if err == nil {
		err = c.Library.Offers(ctx, storeID)
	}
	if err != nil {
		return err
	}
	if err = c.Allow(storeID, r); err == nil {
		c.hasReached(storeID)
	}
	return err
}

// Blobs returns the blobs of a store in which the caller has a right; they can be put only where
// that includes Write, and have no more bytes than a memory of the store may have.
func (c *Caller) Blobs(ctx context.Context, storeID string, r Right) (cas.Store, error) {
	if err := c.check(ctx, storeID, r); err != nil {
		return nil, err
	}
	blobs, err := c.Library.Blobs(ctx, storeID)
	if err != nil {
		return nil, err
	}
	return boundedBlobs{blobs, c, storeID}, nil
}

// boundedBlobs are the blobs of a store for a caller.
type boundedBlobs struct {
	cas.Store
	caller  *Caller
	storeID string
}

// MayPut returns why a blob of n bytes cannot be put; nil: it can.
func (b boundedBlobs) MayPut(ctx context.Context, n int64) error {
	_, err := b.mayPut(ctx, n)
	return err
}

func (b boundedBlobs) mayPut(ctx context.Context, n int64) (*memory.Store, error) {
	st, err := b.caller.Open(ctx, b.storeID, Write)
	if err != nil {
		return nil, err
	}
	if limit := st.Info().Limits.MaxMemoryBytes; n > limit {
		return nil, &memory.SizeError{Path: "the content", Size: n, Limit: limit}
	}
	if !st.Info().ArchivedAt.IsZero() {
		return nil, versionlog.ErrArchived
	}
	return st, b.caller.Library.MayPut(ctx, st, n)
}

// Put is part of cas.Store.
func (b boundedBlobs) Put(ctx context.Context, data []byte) (cas.Digest, error) {
	st, err := b.mayPut(ctx, int64(len(data)))
	if err != nil {
		return cas.Digest{}, err
	}
	d, err := b.Store.Put(ctx, data)
	if err == nil {
		b.caller.Library.WasPut(st, d, int64(len(data)))
	}
	return d, err
}

// BatchSize is part of cas.BatchGetter.
func (b boundedBlobs) BatchSize() int { return cas.BatchSize(b.Store) }

// GetBatch is part of cas.BatchGetter.
func (b boundedBlobs) GetBatch(ctx context.Context, ds []cas.Digest) [][]byte {
	return cas.GetBatch(ctx, b.Store, ds)
}

// narrowed is a log as far as a caller reaches. It embeds no log, so that a method which the
// contract gets is not forgotten here.
type narrowed struct {
	caller *Caller
	log    versionlog.Log
}

var _ versionlog.Log = narrowed{}

// asked returns what a method of the log does, once the caller may read the store.
func asked[T any](ctx context.Context, n narrowed, storeID string, do func() (T, error)) (T, error) {
	if err := n.caller.check(ctx, storeID, Read); err != nil {
		var none T
		return none, err
	}
	return do()
}

// walked yields what a walk of the log does, once the caller may read the store.
func walked[T any](ctx context.Context, n narrowed, storeID string, walk iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if err := n.caller.check(ctx, storeID, Read); err != nil {
			var none T
			yield(none, err)
			return
		}
		walk(yield)
	}
}

// CreateStore takes Admin everywhere.
func (n narrowed) CreateStore(ctx context.Context, s versionlog.Store) error {
	if err := n.caller.AllowNew(); err != nil {
		return err
	}
	return n.log.CreateStore(ctx, s)
}

// Store takes Read.
func (n narrowed) Store(ctx context.Context, id string) (versionlog.Store, error) {
	return asked(ctx, n, id, func() (versionlog.Store, error) { return n.log.Store(ctx, id) })
}

// StoreNamed finds a store in which the caller may read.
func (n narrowed) StoreNamed(ctx context.Context, slug string) (versionlog.Store, error) {
	s, err := n.log.StoreNamed(ctx, slug)
	if err == nil && (memory.IsHidden(s) || n.caller.Right(s.ID) < Read) {
		err = versionlog.ErrNotFound
	}
	if errors.Is(err, versionlog.ErrNotFound) { // in the same words
		return versionlog.Store{}, fmt.Errorf("store %.80q: %w", slug, versionlog.ErrNotFound)
	}
	return s, err
}

// Stores yields those in which the caller may read.
func (n narrowed) Stores(ctx context.Context, after string) iter.Seq2[versionlog.Store, error] {
	return n.caller.Stores(ctx, after)
}

// DeleteStore takes Admin.
func (n narrowed) DeleteStore(ctx context.Context, id string) error {
	if err := n.caller.check(ctx, id, Admin); err != nil {
		return err
	}
	return n.log.DeleteStore(ctx, id)
}

// Commit takes Write; for an event, and for a commit that was made elsewhere, in the name of
// another, it takes Admin. Where the caller has a session, a commit of another one is denied.
func (n narrowed) Commit(ctx context.Context, storeID string, proposed *versionlog.Proposal) (*versionlog.Commit, error) {
	right := Write
	if proposed.Event != nil || proposed.Finished != nil {
		right = Admin
	}
	if err := n.caller.check(ctx, storeID, right); err != nil {
		return nil, err
	}
	p := *proposed
	if p.Finished == nil {
		p.Actor = n.caller.Author()
		if n.caller.Session != "" {
			if p.Session != "" && p.Session != n.caller.Session {
				return nil, fmt.Errorf("%w: it is of session %s, and the commit of session %.80q", ErrDenied, n.caller.Session, p.Session)
			}
			p.Session = n.caller.Session
			p.Confirmed = false // which a person does
		}
	}
	c, err := n.log.Commit(ctx, storeID, &p)
	if err == nil && c.Erases() {
		n.caller.HasErased(storeID)
	}
	return c, err
}

// Tip takes Read, as do all that follow.
func (n narrowed) Tip(ctx context.Context, storeID string) (versionlog.Tip, error) {
	return asked(ctx, n, storeID, func() (versionlog.Tip, error) { return n.log.Tip(ctx, storeID) })
}

// Head is part of versionlog.Log.
func (n narrowed) Head(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return asked(ctx, n, storeID, func() (versionlog.Version, error) { return n.log.Head(ctx, storeID, path) })
}

// Last is part of versionlog.Log.
func (n narrowed) Last(ctx context.Context, storeID, path string) (versionlog.Version, error) {
	return asked(ctx, n, storeID, func() (versionlog.Version, error) { return n.log.Last(ctx, storeID, path) })
}

// Held is part of versionlog.Log.
func (n narrowed) Held(ctx context.Context, storeID, path string) (bool, error) {
	return asked(ctx, n, storeID, func() (bool, error) { return n.log.Held(ctx, storeID, path) })
}

// Heads is part of versionlog.Log.
func (n narrowed) Heads(ctx context.Context, storeID, prefix, after string) iter.Seq2[versionlog.Version, error] {
	return walked(ctx, n, storeID, n.log.Heads(ctx, storeID, prefix, after))
}

// Children is part of versionlog.Log.
func (n narrowed) Children(ctx context.Context, storeID, dir string) iter.Seq2[versionlog.Version, error] {
	return walked(ctx, n, storeID, n.log.Children(ctx, storeID, dir))
}

// Version is part of versionlog.Log.
func (n narrowed) Version(ctx context.Context, storeID, id string) (versionlog.Version, error) {
	return asked(ctx, n, storeID, func() (versionlog.Version, error) { return n.log.Version(ctx, storeID, id) })
}

// History is part of versionlog.Log.
func (n narrowed) History(ctx context.Context, storeID, memoryID string, before uint64) iter.Seq2[versionlog.Version, error] {
	return walked(ctx, n, storeID, n.log.History(ctx, storeID, memoryID, before))
}

// PathHistory is part of versionlog.Log.
func (n narrowed) PathHistory(ctx context.Context, storeID, path string) iter.Seq2[versionlog.Version, error] {
	return walked(ctx, n, storeID, n.log.PathHistory(ctx, storeID, path))
}

// Newest is part of versionlog.Log.
func (n narrowed) Newest(ctx context.Context, storeID, memoryID string) (versionlog.Version, error) {
	return asked(ctx, n, storeID, func() (versionlog.Version, error) { return n.log.Newest(ctx, storeID, memoryID) })
}

// At is part of versionlog.Log. The State reaches what the caller does now.
func (n narrowed) At(ctx context.Context, storeID string, seq uint64) (versionlog.State, error) {
	return asked(ctx, n, storeID, func() (versionlog.State, error) { return n.log.At(ctx, storeID, seq) })
}

// SeqAt is part of versionlog.Log.
func (n narrowed) SeqAt(ctx context.Context, storeID string, at time.Time) (uint64, error) {
	return asked(ctx, n, storeID, func() (uint64, error) { return n.log.SeqAt(ctx, storeID, at) })
}

// Commits is part of versionlog.Log.
func (n narrowed) Commits(ctx context.Context, storeID string, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return walked(ctx, n, storeID, n.log.Commits(ctx, storeID, after))
}

// CommitsBefore is part of versionlog.Log.
func (n narrowed) CommitsBefore(ctx context.Context, storeID string, before uint64, f versionlog.Filter) iter.Seq2[*versionlog.Commit, error] {
	return walked(ctx, n, storeID, n.log.CommitsBefore(ctx, storeID, before, f))
}

// Wait is part of versionlog.Log.
func (n narrowed) Wait(ctx context.Context, storeID string, after uint64) error {
	if err := n.caller.check(ctx, storeID, Read); err != nil {
		return err
	}
	return n.log.Wait(ctx, storeID, after)
}

// Capabilities are those of the log: Purge and Unpurged take Admin, Left takes it everywhere.
func (n narrowed) Capabilities() versionlog.Capabilities {
	of := n.log.Capabilities()
	can := versionlog.Capabilities{MaxContent: of.MaxContent, ErasesContents: of.ErasesContents, Near: of.Near, Fits: of.Fits}
	if of.KnownTip != nil {
		can.KnownTip = func(storeID string) (tip versionlog.Tip, known bool) {
			if n.caller.check(context.Background(), storeID, Read) != nil {
				return tip, false
			}
			return of.KnownTip(storeID)
		}
	}
	if of.Purge != nil {
		can.Purge = func(ctx context.Context, storeID string, versions []string) ([]versionlog.Purged, error) {
			if err := n.caller.check(ctx, storeID, Admin); err != nil {
				return nil, err
			}
			return of.Purge(ctx, storeID, versions)
		}
	}
	if of.Unpurged != nil {
		can.Unpurged = func(ctx context.Context, storeID string) ([]uint64, error) {
			if err := n.caller.check(ctx, storeID, Admin); err != nil {
				return nil, err
			}
			return of.Unpurged(ctx, storeID)
		}
	}
	if of.Left != nil {
		can.Left = func(ctx context.Context, storeID string) error {
			if err := n.caller.AllowNew(); err != nil {
				return err
			}
			return of.Left(ctx, storeID)
		}
	}
	if of.Next != nil {
		can.Next = func(ctx context.Context, storeID string, after uint64) ([]*versionlog.Commit, error) {
			return asked(ctx, n, storeID, func() ([]*versionlog.Commit, error) { return of.Next(ctx, storeID, after) })
		}
	}
	return can
}

// Close does nothing: the library belongs to others.
func (n narrowed) Close() error { return nil }

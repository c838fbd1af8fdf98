package memory

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"unicode/utf8"

	"mneme/cas"
	"mneme/versionlog"
)

// Store is one open memory store.
//
// Paths go through ParsePath first wherever a method takes one. All methods
// may be called at once from many goroutines; the writes of other processes are seen as
// versionlog.Log promises.
type Store struct {
	info   versionlog.Store
	log    versionlog.Log
	can    versionlog.Capabilities // of log
	blobs  cas.Store
	author *Author // nil: read-only
	asOf   *uint64 // the commit after which it is shown; nil: the newest
	added  tally

	deletions *deletions // of the library

	hasQuota atomic.Bool // the store is known to have a quota of its own

	mayGrow func() error // nil: always

	witness Witness // nil: commits are not reported
}

// Info returns the description of the store when it was opened.
func (s *Store) Info() versionlog.Store { return s.info }

// Log returns the log that the store is in, whose commits carry the id of Info.
func (s *Store) Log() versionlog.Log { return s.log }

// Blobs returns where the contents of the store are.
func (s *Store) Blobs() cas.Store { return s.blobs }

// ReadOnly reports whether the store was opened for reading only.
func (s *Store) ReadOnly() bool { return s.author == nil }

// MayWrite reports whether the store was opened for writing, and its author may write now.
func (s *Store) MayWrite() bool {
	return s.author != nil && (s.author.MayWrite == nil || s.author.MayWrite(s.info.ID))
}

// RightChanges reports whether the result of MayWrite may change while the store is open.
func (s *Store) RightChanges() bool { return s.author != nil && s.author.MayWrite != nil }

// Head returns the live version of a path. versionlog.ErrNotFound.
func (s *Store) Head(ctx context.Context, path string) (versionlog.Version, error) {
	path, err := ParsePath(path)
	if err != nil {
		return versionlog.Version{}, err
	}
	v, err := s.log.Head(ctx, s.info.ID, path)
	if err != nil {
		return v, s.Wrap(path, err)
	}
	return v, nil
}

// Heads yields the live versions of memories at and below a path in byte order of their
// paths; "/" is the whole store.
func (s *Store) Heads(ctx context.Context, prefix string) iter.Seq2[versionlog.Version, error] {
	return func(yield func(versionlog.Version, error) bool) {
		for v, err := range s.log.Heads(ctx, s.info.ID, prefix, "") {
			if err == nil && v.IsDir() {
				continue
			}
			if !yield(v, err) {
				return
			}
		}
	}
}

// Tree yields the versions that Heads yields and also the live versions of directories,
// each before its content.
func (s *Store) Tree(ctx context.Context, prefix string) iter.Seq2[versionlog.Version, error] {
	return s.log.Heads(ctx, s.info.ID, prefix, "")
}

// Dir returns the live version of a directory that was made; the zero Version where
// there is none, or only memories imply it.
func (s *Store) Dir(ctx context.Context, path string) (versionlog.Version, error) {
	path, err := ParsePath(path)
	if err != nil {
		return versionlog.Version{}, err
	}
	v, err := s.log.Head(ctx, s.info.ID, path+"/")
	if errors.Is(err, versionlog.ErrNotFound) {
		return versionlog.Version{}, nil
	}
	return v, err
}

// Entries yields one live version for every name in a directory, "/" or one that went
// through ParsePath: the memory of that name; or that of the directory of that name, or
// one somewhere below it.
func (s *Store) Entries(ctx context.Context, dir string) iter.Seq2[versionlog.Version, error] {
	return s.log.Children(ctx, s.info.ID, dir)
}

// Tip returns the end of the store's history, and whether it is archived.
func (s *Store) Tip(ctx context.Context) (versionlog.Tip, error) {
	return s.log.Tip(ctx, s.info.ID)
}

// Near reports whether no call to the log leaves this machine.
func (s *Store) Near() bool { return s.can.Near }

// KnownTip returns what Tip would, if the log knows it at once.
func (s *Store) KnownTip() (tip versionlog.Tip, known bool) {
	if s.can.KnownTip != nil {
		return s.can.KnownTip(s.info.ID)
	}
	return tip, false
}

// Content returns the bytes of a version, verified. The caller must not change
// them. A deleted version has none: ErrBadVersion; nor has one that was erased:
// *RedactedError. cas.ErrNotFound and
// cas.ErrCorrupt mean that the store has lost data it should have.
func (s *Store) Content(ctx context.Context, v versionlog.Version) ([]byte, error) {
	if v.Redacted() {
		return nil, s.RedactionOf(ctx, &v)
	}
	if v.Digest.IsZero() {
		return nil, fmt.Errorf("%w: version %s of %s is a deletion and has no content; its parent is %s", ErrBadVersion, v.ID, v.Path, v.Parent)
	}
	data, err := s.blobs.Get(ctx, v.Digest)
	if err != nil {
		return nil, s.contentError(ctx, v.Path, v.ID, err)
	}
	return data, nil
}

// contentError is why the content of a version could not be read: it may have been erased
// since the caller learned of the version.
func (s *Store) contentError(ctx context.Context, path, version string, err error) error {
	if IsLost(err) {
		if now, lookErr := s.log.Version(ctx, s.info.ID, version); lookErr == nil && now.Redacted() {
			return s.RedactionOf(ctx, &now)
		}
	}
	return fmt.Errorf("%s:%s: content of version %s: %w", s.info.Slug, path, version, err)
}

// ContentOf is Content of the version that h is of.
func (s *Store) ContentOf(ctx context.Context, h *Head) ([]byte, error) {
	if h.Digest().IsZero() || h.odd() != nil {
		return s.Content(ctx, *h.Version())
	}
	data, err := s.blobs.Get(ctx, h.digest)
	if err != nil {
		return nil, s.contentError(ctx, h.path, h.ID(), err)
	}
	return data, nil
}

// BatchSize is how many versions' contents are worth reading together, by
// Contents; at least 1.
func (s *Store) BatchSize() int {
	return max(1, cas.BatchSize(s.blobs))
}

// Contents returns the bytes of the versions that heads are of, in their order, each as
// ContentOf does. Nil stands for those that could not be read; ContentOf says why.
func (s *Store) Contents(ctx context.Context, heads []*Head) [][]byte {
	all := make([][]byte, len(heads))
	if len(heads) > 1 {
		ds := make([]cas.Digest, len(heads))
		for i, h := range heads {
			ds[i] = h.digest
		}
		all = cas.GetBatch(ctx, s.blobs, ds)
	}
	for i, h := range heads {
		if all[i] == nil {
			all[i], _ = s.ContentOf(ctx, h)
		}
	}
	return all
}

// Read returns the live version of a path and its bytes.
func (s *Store) Read(ctx context.Context, path string) (versionlog.Version, []byte, error) {
	v, err := s.Head(ctx, path)
	if err != nil {
		return v, nil, err
	}
	data, err := s.Content(ctx, v)
	return v, data, err
}

// Check reports whether data may be the content of a memory at path:
// *SizeError, *TextError.
func (s *Store) Check(path string, data []byte) error {
	if n, limit := int64(len(data)), s.info.Limits.MaxMemoryBytes; n > limit {
		return &SizeError{Path: path, Size: n, Limit: limit}
	}
	if s.info.Limits.Content == versionlog.ContentText && !utf8.Valid(data) {
		return &TextError{Path: path, Offset: invalidUTF8(data)}
	}
	return nil
}

func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(data)
}

// Commit returns the commit of a sequence number. It reads few besides, where Commits would read
// a page of those behind it. versionlog.ErrNotFound.
func (s *Store) Commit(ctx context.Context, seq uint64) (*versionlog.Commit, error) {
	for c, err := range s.CommitsBefore(ctx, seq+1, versionlog.Filter{}) {
		if err != nil || c.Seq == seq {
			return c, err
		}
		break
	}
	return nil, fmt.Errorf("store %s: commit %d: %w", s.info.Slug, seq, versionlog.ErrNotFound)
}

// CommitsBefore yields the commits below a sequence number that f takes, newest first;
// 0 is from the newest on.
func (s *Store) CommitsBefore(ctx context.Context, before uint64, f versionlog.Filter) iter.Seq2[*versionlog.Commit, error] {
	return s.log.CommitsBefore(ctx, s.info.ID, before, f)
}

// Commits yields the commits above a sequence number, oldest first.
func (s *Store) Commits(ctx context.Context, after uint64) iter.Seq2[*versionlog.Commit, error] {
	return s.log.Commits(ctx, s.info.ID, after)
}

// Follow calls apply with every commit above after, in order, as they come,
// until ctx ends or something fails; it returns why, never nil. It returns
// versionlog.ErrRewritten when the next commit does not follow the one that the
// caller has. Before apply gets a redaction, the caches of contents are emptied.
//
// After the end of a store of OpenAt it calls apply with the redactions that are made in
// the store. Their Versions are those that they have erased.
func (s *Store) Follow(ctx context.Context, after versionlog.Tip, apply func(*versionlog.Commit) error) error {
	next := s.can.Next
	if next == nil {
		next = waitThenRead{s.log}.Next
	}
	for {
		if past, ok := s.log.(*pastLog); ok && after.Seq >= past.tip.Seq {
			return s.followErased(ctx, past, apply)
		}
		commits, err := next(ctx, s.info.ID, after.Seq)
		for _, c := range commits {
			if c.Seq != after.Seq+1 || c.Prev != after.Digest {
				return fmt.Errorf("%w: commit %d does not follow commit %d, %.12s, which was there before", versionlog.ErrRewritten, c.Seq, after.Seq, after.Digest)
			}
			if err := s.forgetErased(c); err != nil {
				return err
			}
			if err := apply(c); err != nil {
				return err
			}
			after = versionlog.Tip{Seq: c.Seq, Digest: c.Digest}
			s.saw(c)
		}
		if err != nil {
			return err
		}
	}
}

// followErased is Follow behind the end of the past.
func (s *Store) followErased(ctx context.Context, past *pastLog, apply func(*versionlog.Commit) error) error {
	for {
		c, err := past.erased(ctx, s.info.ID)
		if err == nil {
			err = s.forgetErased(c)
		}
		if err == nil {
			err = apply(c)
		}
		if err != nil {
			return err
		}
	}
}

// forgetErased empties the caches if a commit has erased something.
func (s *Store) forgetErased(c *versionlog.Commit) error {
	if !c.Erases() {
		return nil
	}
	if err := s.Forget(); err != nil {
		return fmt.Errorf("commit %d erased versions: %w", c.Seq, err)
	}
	return nil
}

// Forget empties the caches of contents, which may have been erased since.
func (s *Store) Forget() error { return cas.Forget(s.blobs) }

// saw reports a commit that the log has to the witness, if any.
func (s *Store) saw(c *versionlog.Commit) {
	if s.witness != nil {
		s.witness.Saw(s.info.ID, c.Seq, c.Digest)
	}
}

// waitThenRead has Next for any log.
type waitThenRead struct{ log versionlog.Log }

// maxFollowed bounds how many commits are in memory at once.
const maxFollowed = 200

// Next also returns the commits that came before an error.
func (l waitThenRead) Next(ctx context.Context, storeID string, after uint64) (commits []*versionlog.Commit, err error) {
	if err := l.log.Wait(ctx, storeID, after); err != nil {
		return nil, err
	}
	for c, err := range l.log.Commits(ctx, storeID, after) {
		if err != nil {
			return commits, err
		}
		if commits = append(commits, c); len(commits) == maxFollowed {
			break
		}
	}
	return commits, nil
}

// Wrap adds the store and the path to an error.
func (s *Store) Wrap(path string, err error) error {
	if errors.Is(err, versionlog.ErrNotFound) {
		return fmt.Errorf("%s:%s: %w", s.info.Slug, path, versionlog.ErrNotFound)
	}
	return fmt.Errorf("%s:%s: %w", s.info.Slug, path, err)
}
